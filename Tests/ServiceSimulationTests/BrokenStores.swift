import ServiceSimulation
import SyncCore

/// A store that answers deletions of some keys and does not perform them.
struct IgnoringDeletes: ForwardingBackend {
    let base: any KeyValueBackend
    let prefix: String

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        guard key.hasPrefix(prefix) else { return try await base.delete(key, if: precondition) }
        return Answer(.deleted)
    }
}

/// A store that writes some keys whatever they contain.
struct IgnoringPreconditions: ForwardingBackend {
    let base: any KeyValueBackend
    let prefix: String

    func write(
        _ value: [UInt8], to key: EntryKey, if precondition: Precondition
    ) async throws(BackendError) -> Answer<WriteOutcome> {
        try await base.write(value, to: key, if: key.hasPrefix(prefix) ? .any : precondition)
    }
}

/// A store that answers writes of some keys and does not perform them.
struct IgnoringWrites: ForwardingBackend {
    let base: any KeyValueBackend
    let ignores: @Sendable (EntryKey) -> Bool

    func write(
        _ value: [UInt8], to key: EntryKey, if precondition: Precondition
    ) async throws(BackendError) -> Answer<WriteOutcome> {
        guard ignores(key) else { return try await base.write(value, to: key, if: precondition) }
        return Answer(.written(EntryVersion(bytes: Array(repeating: 7, count: 16))))
    }
}

/// A store that changes the values of some keys.
struct ChangingValues: ForwardingBackend {
    let base: any KeyValueBackend
    let prefix: String
    let change: @Sendable (String) -> String

    func write(
        _ value: [UInt8], to key: EntryKey, if precondition: Precondition
    ) async throws(BackendError) -> Answer<WriteOutcome> {
        guard key.hasPrefix(prefix) else { return try await base.write(value, to: key, if: precondition) }
        return try await base.write(
            Array(change(String(decoding: value, as: UTF8.self)).utf8), to: key, if: precondition)
    }
}

/// A store whose changes leave out some keys.
struct OmittingChanges: ForwardingBackend {
    let base: any KeyValueBackend
    let prefix: String

    func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
        -> Answer<ChangePage>
    {
        var answer = try await base.changes(since: cursor, prefix: prefix, limit: limit)
        answer.outcome.changes.removeAll { $0.key.hasPrefix(self.prefix) }
        return answer
    }
}
