import EntitlementSync
import Entitlements
import SyncCore

/// Erases an account: its ledger is replaced by the marker, all else of it is deleted, and its name is free again.
///
/// First the record says so, and keeps the password until all is done: interrupted, it is done again by whoever knows
/// it.
struct Erasure: Sendable {
    let store: any KeyValueBackend
    let records: RecordStore
    let owners: TransactionOwners
    /// Is told of a ledger that cannot be read: it is erased as any other, and its claims stay.
    let onError: @Sendable (BackendError) -> Void

    /// Notes that this life of the account is over: whoever is let in from now on changes nothing of it.
    ///
    /// - Returns: whether there is anything left to erase.
    func begin(_ account: Account) async throws(BackendError) -> Bool {
        guard let name = account.name else { return false }
        let marked = try await records.update(try AccountRecord.key(of: name)) {
            (known: AccountRecord?) throws(BackendError) in
            guard var record = known, record.account == account else { return nil }
            if !record.isErased(account.incarnation) { record.erased.append(account.incarnation) }
            return record
        }
        return marked != nil
    }

    /// Deletes what this life has, and frees its name.
    func finish(_ account: Account) async throws(BackendError) {
        guard let name = account.name else { return }
        let keys = try LedgerKeys(account)
        try await bury(keys.ledger, of: account)
        try await clear(account)
        try await AccountDirectory(backend: store).erase(account)
        _ = try await records.update(try AccountRecord.key(of: name)) { (known: AccountRecord?) throws(BackendError) in
            guard var record = known, record.account == account else { return nil }
            (record.incarnation, record.password, record.recoveryCodes) = (nil, nil, [])
            return record
        }
    }

    /// Deletes all that this life has but its marker.
    func clear(_ account: Account) async throws(BackendError) {
        let keys = try LedgerKeys(account)
        var after: EntryKey?
        repeat {
            let page = try await store.list(prefix: keys.prefix, after: after, limit: 1_000).outcome
            for item in page.items where item.key != keys.ledger { try await delete(item.key) }
            after = page.next
        } while after != nil
    }

    /// Puts the marker in the ledger's place, and before that gives up the transactions that the ledger tells of: their
    /// claims have the account's name.
    private func bury(_ key: EntryKey, of account: Account) async throws(BackendError) {
        let marker = LedgerDocument(ledger: .erased).encoded()
        for _ in 0..<32 {
            var precondition = Precondition.absent
            if case .found(let entry) = try await store.read(key).outcome {
                if entry.value == marker { return }
                try await release(entry, key, of: account)
                precondition = .matches(entry.version)
            }
            do throws(BackendError) {
                if case .written = try await store.write(marker, to: key, if: precondition).outcome { return }
            } catch {
                // The next look tells.
                guard error.disposition == .outcomeUnknown else { throw error }
            }
        }
        throw BackendError(.busy, key: key, message: "others write this all the time; try again")
    }

    private func release(_ entry: Entry, _ key: EntryKey, of account: Account) async throws(BackendError) {
        let ledger: Ledger
        do throws(LedgerFormatError) { ledger = try LedgerDocument(decoding: entry.value).ledger } catch {
            onError(
                BackendError(
                    .damaged, operation: .read, key: key,
                    message: "the claims of an erased ledger stay, because it cannot be read: \(error)"))
            return
        }
        for record in ledger.records(beyond: Ledger()) where record.isPurchase {
            guard case .purchase(let purchase) = Fact(record) else { continue }
            try await owners.release(purchase.transaction, of: account)
        }
    }

    private func delete(_ key: EntryKey) async throws(BackendError) {
        for _ in 0..<32 {
            guard case .found(let entry) = try await store.read(key).outcome else { return }
            do throws(BackendError) {
                if case .deleted = try await store.delete(key, if: .matches(entry.version)).outcome { return }
            } catch {
                guard error.disposition == .outcomeUnknown else { throw error }
            }
        }
        throw BackendError(.busy, key: key, message: "others write this all the time; try again")
    }
}
