import Entitlements
import SyncCore

extension EntitlementStore {
    /// Erases an account on the remote and on this device. This cannot be undone.
    ///
    /// The account's ledger on the remote is replaced with a marker that absorbs every later merge, then the data on
    /// this device is erased. Other devices erase their data when they sync with the remote.
    ///
    /// Any device with write access to a shared folder can erase its accounts. A server refuses this call: erase the
    /// account there, with its password. The next sync then finds the marker.
    ///
    /// - Throws: ``EntitlementError`` of kind `invalid`, `unknownAccount`, `refused` (the remote is a server; nothing
    ///   was erased), `sync` (the remote is unreachable; nothing was erased, or the erasure is incomplete and can be
    ///   repeated) or `storage`.
    public func eraseAccount(_ name: String) async throws(EntitlementError) {
        let account = try await accountToErase(name)
        if let remote { try await erase(account, from: remote) }
        try await eraseLocally(account)
    }

    /// Erases an account on the remote. This device keeps its data until the remote holds the marker.
    ///
    /// The marker is synced from a temporary store like any other ledger, and replaces all records.
    func erase(_ account: Account, from remote: any KeyValueBackend) async throws(EntitlementError) {
        do {
            let key = try LedgerKeys(account).ledger
            let scratch = MemoryBackend(host: host)
            _ = try await scratch.write(LedgerDocument(ledger: .erased).encoded(), to: key, if: .absent)
            var engine = SyncEngine(local: scratch, remote: remote, merge: LedgerMerge(), host: host)
            guard remote.capabilities.compareAndSwap else {
                engine = engine.writing(as: "\(try await session.createReplica())")
                _ = try await engine.sync(key)
                return try await clear(key, on: remote)
            }
            _ = try await engine.sync(key)
            try await AccountDirectory(backend: remote).erase(account)
        } catch let error as SyncError {
            throw error.refusal.map { EntitlementError.erasing(on: remote.label, $0) } ?? EntitlementError(error)
        } catch let error as BackendError where error.isRefusal {
            throw EntitlementError.erasing(on: remote.label, error)
        } catch {
            throw EntitlementError(remoteAct: error)
        }
    }

    /// Replaces the entries of all replicas of an erased account with the marker, on a remote that keeps one entry per
    /// replica. Otherwise the entry of a device that never syncs again would stay there.
    ///
    /// Overwriting a concurrent write of another device is harmless: its facts are erased anyway. That device clears
    /// the entries again when it learns of the erasure.
    func clear(_ key: EntryKey, on remote: any KeyValueBackend) async throws(BackendError) {
        let marker = LedgerDocument(ledger: .erased).encoded()
        try await remote.forEachPage(prefix: key.text + "/") { (page) async throws(BackendError) in
            for item in page.items {
                do throws(BackendError) {
                    if case .found(let entry) = try await remote.read(item.key).outcome, entry.value == marker {
                        continue
                    }
                    _ = try await remote.write(marker, to: item.key, if: .any)
                } catch {
                    // A conflict copy made by a sync tool is read-only, and an unreadable entry may be part of a
                    // marker. Neither prevents clearing the others, and the marker overrides both.
                    guard error.disposition == .permanent, error.kind != .cancelled else { throw error }
                }
            }
        }
    }

    /// Returns the ledger of `account` on the remote; `nil` if there is none. Writes nothing.
    func content(of account: Account, on remote: any KeyValueBackend) async throws(EntitlementError) -> Ledger? {
        do {
            let scratch = MemoryBackend(host: host)
            let engine = SyncEngine(
                local: scratch, remote: remote, merge: LedgerMerge(), replica: "dry-run", host: host)
            let content = try await engine.dryRun(try LedgerKeys(account).ledger).content
            return content.isEmpty && !content.isErased ? nil : content
        } catch {
            throw EntitlementError(remoteAct: error)
        }
    }

    /// Returns the incarnation of `name` to erase, including one with an interrupted erasure.
    private func accountToErase(_ name: String) async throws(EntitlementError) -> Account {
        let initial = try Account(name)
        if let remote {
            do {
                if !remote.capabilities.compareAndSwap {
                    let content = try await content(of: initial, on: remote)
                    if let content, !content.isErased { return initial }
                } else if let account = try await accountToErase(name, in: remote) {
                    return account
                }
            } catch {
                throw EntitlementError(remoteAct: error)
            }
        }
        guard let account = try await inLocalStore(await accountToErase(name, in: local)) else {
            throw .unknownAccount(initial)
        }
        return account
    }

    private func accountToErase(_ name: String, in backend: any KeyValueBackend) async throws(BackendError)
        -> Account?
    {
        let directory = AccountDirectory(backend: backend)
        let entry = try await directory.entry(of: name)
        if let incarnation = entry?.incarnation { return try AccountDirectory.account(name, incarnation) }
        let initial = try AccountDirectory.account(name, Account.initialIncarnation)
        guard let isErased = try await directory.isLedgerErased(of: initial) else { return nil }
        let isComplete = isErased && entry?.erased.contains(initial.incarnation) == true
        return isComplete ? nil : initial
    }

    /// Completes an interrupted erasure of the account that is logged in.
    func completeErasure() async throws(EntitlementError) {
        var accounts: Set = [session.account]
        do { accounts.insert(try await DeviceSession(backend: local).account()) } catch {
            // A malformed entry names no account. Logging in replaces it.
            guard error.kind == .damaged else { throw error }
        }
        for account in accounts.sorted() where !account.isAnonymous {
            if try await isErasedHere(account) { try await eraseLocally(account) }
        }
    }

    /// Erases an account locally after a sync has found its marker. On a remote with one entry per replica, also clears
    /// the entries of other devices.
    func applyErasure(of session: AccountSession) async throws(EntitlementError) {
        try await eraseLocally(session.account)
        if let remote, !remote.capabilities.compareAndSwap {
            do { try await clear(session.keys.ledger, on: remote) } catch { throw EntitlementError(remote: error) }
        }
    }

    /// Replaces the local data of an erased account with markers, and ends its session.
    ///
    /// The entries that identify the account come last, so that an interrupted erasure can be completed by erasing
    /// again or by the account's next sync.
    func eraseLocally(_ account: Account) async throws(EntitlementError) {
        let keys = try ofLocalStore(LedgerKeys(account))
        let entries = LedgerEntries(backend: local)
        for key in [keys.device, keys.remote] { try await entries.replace(key) { _ in .erased } }
        for item in try await inLocalStore(await local.list(prefix: keys.grants, after: nil, limit: 1_000)).outcome
            .items
        {
            _ = try await inLocalStore(await local.delete(item.key, if: .matches(item.version)))
        }
        if try await entries.read(keys.knownServerLedger).version != nil {
            try await entries.replace(keys.knownServerLedger) { _ in .erased }
        }
        do { try await DeviceSession(backend: local).end(account) } catch {
            guard error.kind == .damaged else { throw error }
        }
        try await entries.replace(keys.ledger) { _ in .erased }
        // Contents that the account claimed but that have not moved yet become anonymous again. As long as they
        // are claimed, no reader sees them.
        try await Adoption(backend: local, host: host).settle(claimOf: account)
        try await inLocalStore(await directoryHere.erase(account))
        if session.account == account {
            feed.publish(.accountErased(account))
            try await switchSession(to: .anonymous)
        }
    }
}

extension EntitlementError {
    fileprivate static func erasing(on remote: String, _ error: BackendError) -> EntitlementError {
        EntitlementError(
            refusedBy: remote, "erases its accounts itself: erase this one there by password, then sync here", error)
    }
}

extension SyncError {
    /// The error with which the remote refused a write; `nil` if the sync failed for another reason.
    fileprivate var refusal: BackendError? {
        if case .backend(let error) = reason, side == .remote, error.isRefusal { error } else { nil }
    }
}

extension BackendError {
    /// True if the backend understood the request and does not permit it.
    var isRefusal: Bool { (kind == .permissionDenied || kind == .refused) && disposition == .permanent }
}
