import EntitlementSync
import Entitlements
import SyncCore

/// Erases an account: its ledger is replaced by the marker, all else of it is deleted, and its name is free again.
///
/// The record comes last: interrupted, it is done again by whoever knows the password.
struct Erasure: Sendable {
    let store: any KeyValueBackend
    let records: RecordStore

    /// Erases this life of the account.
    func erase(_ account: Account) async throws(BackendError) {
        guard let name = account.name else { return }
        let keys = try LedgerKeys(account)
        let marker = LedgerDocument(ledger: .erased).encoded()
        try await put(marker, keys.ledger)
        try await clear(account)
        try await AccountDirectory(backend: store).erase(account)
        _ = try await records.update(try AccountRecord.key(of: name)) { (known: AccountRecord?) throws(BackendError) in
            guard var record = known else { return nil }
            if record.account == account {
                (record.incarnation, record.password, record.recoveryCodes) = (nil, nil, [])
            }
            if !record.erased.contains(where: { $0.utf8.elementsEqual(account.incarnation.utf8) }) {
                record.erased.append(account.incarnation)
            }
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

    private func put(_ marker: [UInt8], _ key: EntryKey) async throws(BackendError) {
        for _ in 0..<32 {
            var precondition = Precondition.absent
            if case .found(let entry) = try await store.read(key).outcome {
                if entry.value == marker { return }
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
