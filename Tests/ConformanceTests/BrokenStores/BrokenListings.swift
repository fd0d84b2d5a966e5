import SyncCore
import Synchronization

/// Omits the first key of every page but the first.
struct SkipsAKey: OneFault {
    let memory = MemoryBackend()

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        var answer = try await memory.list(prefix: prefix, after: cursor, limit: limit)
        if cursor != nil, answer.outcome.items.count > 1 { answer.outcome.items.removeFirst() }
        return answer
    }
}

/// Sorts keys without regard to case.
struct SortsLikePeople: OneFault {
    let memory = MemoryBackend()

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        var answer = try await memory.list(prefix: prefix, after: cursor, limit: limit)
        answer.outcome.items.sort { $0.key.text.lowercased() < $1.key.text.lowercased() }
        return answer
    }
}

/// Lists deleted keys.
final class ListsTheDeleted: OneFault {
    let memory = MemoryBackend()
    private let deleted = Mutex<Set<EntryKey>>([])

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        let answer = try await memory.delete(key, if: precondition)
        if answer.outcome == .deleted { deleted.withLock { _ = $0.insert(key) } }
        return answer
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        var answer = try await memory.list(prefix: prefix, after: cursor, limit: limit)
        let ghosts = deleted.withLock { $0.filter { $0.hasPrefix(prefix) } }
        if answer.outcome.next == nil {
            answer.outcome.items += ghosts.map { KeyPage.Item(key: $0, version: EntryVersion(bytes: [0])) }
            answer.outcome.items.sort { $0.key < $1.key }
        }
        return answer
    }
}

/// Returns the results of a batch of reads in key order instead of request order.
struct SortsBatches: OneFault {
    let memory = MemoryBackend()

    func read(_ requests: [ReadRequest]) async throws(BackendError) -> Answer<[Result<ReadOutcome, BackendError>]> {
        try await memory.read(requests.sorted { $0.key < $1.key })
    }
}

/// Undoes the writes after the first conflict of a batch, but reports them as successful.
struct StopsAtAConflict: OneFault {
    let memory = MemoryBackend()

    func write(_ requests: [WriteRequest]) async throws(BackendError)
        -> Answer<[Result<WriteOutcome, BackendError>]>
    {
        let answer = try await memory.write(requests)
        let conflict = answer.outcome.firstIndex { result in
            if case .success(.conflict) = result { true } else { false }
        }
        guard let conflict else { return answer }
        for request in requests[(conflict + 1)...] { _ = try await memory.delete(request.key, if: .any) }
        return answer
    }
}
