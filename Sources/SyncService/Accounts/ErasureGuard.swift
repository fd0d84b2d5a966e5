import EntitlementSync
import SyncCore

/// The cause of the error of a write by an account that was erased meanwhile.
struct AccountErased: Error {}

/// The store as an account writes to it: writes succeed only if the account is still active afterwards.
///
/// The token of a request is checked before its write, and another server may erase the account in between. So the
/// account's record is read again after each write. If the account was erased, the entries that were written are
/// deleted, each only in the version of this write, and the write is refused. If that read precedes the mark of the
/// erasure, the erasure lists and deletes the entries.
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
        guard case .written(let version) = answer.outcome, try await isErased(undoing: [(key, version)]) else {
            return answer
        }
        throw Self.erased(key)
    }

    func write(_ requests: [WriteRequest]) async throws(BackendError) -> Answer<[Result<WriteOutcome, BackendError>]> {
        var answer = try await base.write(requests)
        let written = zip(requests.indices, answer.outcome).compactMap { index, result -> (Int, EntryVersion)? in
            guard case .success(.written(let version)) = result else { return nil }
            return (index, version)
        }
        guard try await isErased(undoing: written.map { (requests[$0].key, $1) }) else { return answer }
        for (index, _) in written { answer.outcome[index] = .failure(Self.erased(requests[index].key)) }
        return answer
    }

    /// Returns `true` if the account was erased. Then all of `written` is deleted.
    private func isErased(
        undoing written: [(key: EntryKey, version: EntryVersion)]
    ) async throws(BackendError) -> Bool {
        guard let key = written.first?.key else { return false }
        do throws(BackendError) {
            guard try await isErased() else { return false }
            var failure: BackendError?
            // A ledger stays: the marker replaces it.
            for (key, version) in written where key != caller.keys.ledger {
                do throws(BackendError) { _ = try await records.backend.delete(key, if: .matches(version)) } catch {
                    failure = failure ?? error
                }
            }
            if let failure { throw failure }
            return true
        } catch {
            // The write has happened, but does not hold yet.
            throw BackendError(
                error.kind, operation: .write, key: key, disposition: .outcomeUnknown, message: error.message,
                cause: error)
        }
    }

    private func isErased() async throws(BackendError) -> Bool {
        let record = try AccountRecord.key(of: caller.credential.name)
        switch try await records.backend.read(record, unless: caller.recordVersion).outcome {
        case .unchanged: return false
        case .absent: return true
        case .found: return try await !records.isActive(caller.account)
        }
    }

    private static func erased(_ key: EntryKey) -> BackendError {
        BackendError(.refused, operation: .write, key: key, message: "the account was erased", cause: AccountErased())
    }
}
