import EntitlementSync
import SyncCore

/// The cause of the error of a write by an account that was erased meanwhile.
struct AccountErased: Error {}

/// The store as an account writes to it: a write holds only if the account is not erased when it is done.
///
/// The token of a request is checked before its write, and another server may erase the account in between. So the
/// account's record is read again after each write. If the account was erased, the entries that were written are
/// deleted, each only in the version of this write, and the write is refused. An erasure that is not seen by that read
/// was marked later, and deletes the entries itself.
///
/// A ledger is not deleted here: it can only have been written before the marker of the erasure, which replaces it.
struct ErasureGuard: ForwardingBackend {
    let base: any KeyValueBackend
    let records: RecordStore
    let caller: AccountCaller

    func read(_ requests: [ReadRequest]) async throws(BackendError) -> Answer<[Result<ReadOutcome, BackendError>]> {
        try await base.read(requests)
    }

    func write(
        _ value: [UInt8], to key: EntryKey, if precondition: Precondition
    ) async throws(BackendError) -> Answer<WriteOutcome> {
        let answer = try await base.write(value, to: key, if: precondition)
        guard case .written(let version) = answer.outcome, try await isErased(after: key) else { return answer }
        try await undo(key, version)
        throw Self.erased(key)
    }

    func write(_ requests: [WriteRequest]) async throws(BackendError) -> Answer<[Result<WriteOutcome, BackendError>]> {
        var answer = try await base.write(requests)
        let written = zip(requests.indices, answer.outcome).compactMap { index, result -> (Int, EntryVersion)? in
            guard case .success(.written(let version)) = result else { return nil }
            return (index, version)
        }
        guard let first = written.first, try await isErased(after: requests[first.0].key) else { return answer }
        for (index, version) in written {
            let key = requests[index].key
            try await undo(key, version)
            answer.outcome[index] = .failure(Self.erased(key))
        }
        return answer
    }

    /// Returns `true` if the account is erased, after a write of `key`.
    private func isErased(after key: EntryKey) async throws(BackendError) -> Bool {
        do throws(BackendError) {
            let name = caller.credential.name
            let record = try AccountRecord.key(of: name)
            switch try await records.backend.read(record, unless: caller.recordVersion).outcome {
            case .unchanged: return false
            case .absent: return true
            case .found: return try await !records.isActive(caller.account)
            }
        } catch {
            // The write has happened, but does not hold yet.
            throw BackendError(
                error.kind, operation: .write, key: key, disposition: .outcomeUnknown, message: error.message,
                cause: error)
        }
    }

    private func undo(_ key: EntryKey, _ version: EntryVersion) async throws(BackendError) {
        guard key != caller.keys.ledger else { return }
        _ = try await records.backend.delete(key, if: .matches(version))
    }

    private static func erased(_ key: EntryKey) -> BackendError {
        BackendError(.refused, operation: .write, key: key, message: "the account was erased", cause: AccountErased())
    }
}
