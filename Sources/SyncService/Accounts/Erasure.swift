import EntitlementSync
import Entitlements
import SyncCore

/// Erases an account: replaces its ledger with the marker of an erasure, deletes everything else, and frees its name.
///
/// The account's record is marked first and keeps the password until the end, so that an interrupted erasure can be
/// repeated with the password. ``Sweeper`` repeats every erasure later, also an interrupted one.
struct Erasure: Sendable {
    let store: any KeyValueBackend
    let records: RecordStore
    let recorder: EvidenceRecorder
    /// Receives the error of a ledger that cannot be read, and of a refund for which there is no room. The ledger is
    /// erased nevertheless, but the transactions of one that cannot be read stay reserved.
    let onError: @Sendable (BackendError) -> Void

    var owners: Owners { recorder.owners }

    /// The prefix of the erasures that ``Sweeper`` has to repeat.
    static let prefix = KeyScope.serverPrefix + "erasures/"

    /// Stores that the erasure of `account` must be repeated. Storing it again postpones the repetition.
    func schedule(_ account: Account) async throws(BackendError) { try await Self.schedule(account, in: records) }

    static func schedule(_ account: Account, in records: RecordStore) async throws(BackendError) {
        let parts = [account.name ?? "", account.incarnation].map(LedgerKeys.escaped)
        let key = try EntryKey(prefix + parts.joined(separator: "/"))
        _ = try await records.backend.write(try records.bytes(of: AccountIdentity(account)), to: key, if: .any)
    }

    /// Marks this incarnation as erased in the account's record. Requests that are admitted from now on cannot change
    /// its keys.
    ///
    /// - Parameter credential: The credential that authorizes the erasure; `nil` for the operator.
    /// - Returns: `false` if the account is already erased.
    /// - Throws: ``RequestError`` if the credential is out of date.
    func begin(_ account: Account, by credential: VerifiedCredential?) async throws -> Bool {
        guard let name = account.name else { return false }
        var isOutdated = false
        let marked = try await records.updateAccount(name) { known in
            guard var record = known, record.account == account else { return nil }
            isOutdated = credential.map { !$0.isCurrent(in: record) } ?? false
            guard !isOutdated else { return nil }
            if !record.isErased(account.incarnation) { record.erased.append(account.incarnation) }
            return record
        }
        if isOutdated { throw RequestError.outdatedCredential }
        return marked != nil
    }

    /// Deletes all data of this incarnation and frees its name.
    func finish(_ account: Account) async throws(BackendError) {
        guard let name = account.name else { return }
        let keys = try LedgerKeys(account)
        try await replaceWithMarker(keys.ledger, of: account)
        try await clear(account)
        try await AccountDirectory(backend: store).erase(account)
        try await store.remove(try AccountGuesses.key(of: name)) { (_) throws(BackendError) in true }
        _ = try await records.updateAccount(name) { known in
            guard var record = known, record.account == account else { return nil }
            (record.incarnation, record.password, record.recoveryCodes) = (nil, nil, [])
            return record
        }
    }

    /// Deletes all keys of this incarnation except its marker, its lines and tokens, and what names it elsewhere.
    func clear(_ account: Account) async throws(BackendError) {
        let (keys, tokens, parked) = (try LedgerKeys(account), recorder.tokens, recorder.parked)
        try await AccountEntries(records: records).erase(account)
        try await DeviceAuthorizations.removeApprovals(of: account, records, onError: onError)
        // The server ledger goes last, because it names the transactions to release.
        if let entry = try await store.read(keys.serverLedger).outcome.entry,
            let ledger = ledger(in: entry, keys.serverLedger)
        {
            try await recorder.keepRevocations(in: ledger, onError: onError)
            try await owners.release(ledger.transactions, of: account)
        }
        for token in try await tokens.all(of: account) {
            for line in try await parked.lines(waitingFor: token) {
                if try await owners.accounts(of: line).isEmpty { try await parked.removeAllButRevocations(of: line) }
                try await parked.endWaiting(line, for: token)
            }
        }
        try await tokens.erase(account)
        for line in try await owners.erase(account) { try await parked.removeAllButRevocations(of: line) }
        try await store.removeAll(under: Holdings.prefix(of: account))
        try await store.removeAll(under: keys.prefix, except: keys.ledger)
    }

    /// Replaces the ledger with the marker, after releasing the transactions of the ledger, whose records contain the
    /// account's name.
    private func replaceWithMarker(_ key: EntryKey, of account: Account) async throws(BackendError) {
        let marker = LedgerDocument(ledger: .erased).encoded()
        try await store.update(key) { (entry) async throws(BackendError) in
            if entry?.value == marker { return nil }
            if let entry, let ledger = ledger(in: entry, key) {
                try await owners.release(ledger.transactions, of: account)
            }
            return marker
        }
    }

    /// The ledger in `entry`; `nil` if it cannot be read.
    private func ledger(in entry: Entry, _ key: EntryKey) -> Ledger? {
        do throws(LedgerFormatError) { return try LedgerDocument(decoding: entry.value).ledger } catch {
            onError(
                BackendError(
                    .damaged, operation: .read, key: key,
                    message: "the claims of an erased ledger stay, because it cannot be read: \(error)"))
            return nil
        }
    }
}
