import SyncCore
import Synchronization

/// A store over another one whose changes stay in memory.
///
/// An act is tried on it before it is done, or instead of it, so a dry run does what the act would do. It is for one
/// act: nothing sees other changes of a key once the trial has changed it.
final class TrialStore: ForwardingBackend {
    let base: any KeyValueBackend
    private let host: HostServices
    /// The changed keys; `nil` for a deleted one.
    private let changes = Mutex<[EntryKey: Entry?]>([:])

    init(_ base: any KeyValueBackend, host: HostServices) { (self.base, self.host) = (base, host) }

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        guard let changed = changes.withLock({ $0[key] }) else { return try await base.read(key, unless: knownVersion) }
        guard let entry = changed else { return Answer(.absent) }
        return Answer(entry.version == knownVersion ? .unchanged : .found(entry))
    }

    func write(
        _ value: [UInt8], to key: EntryKey, if precondition: Precondition
    ) async throws(BackendError) -> Answer<WriteOutcome> {
        var generator = host.generator
        return try await change(key, to: Entry(value: value, version: .random(using: &generator)), precondition)
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        try await change(key, to: nil, precondition)
    }

    private func change(
        _ key: EntryKey, to entry: Entry?, _ precondition: Precondition
    ) async throws(BackendError) -> Answer<WriteOutcome> {
        let held = try await read(key).outcome.entry
        guard precondition.holds(for: held?.version) else { return Answer(.conflict(held)) }
        changes.withLock { $0[key] = .some(entry) }
        return Answer(entry.map { .written($0.version) } ?? .deleted)
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        var page = try await base.list(prefix: prefix, after: cursor, limit: limit)
        let end = page.outcome.next
        let changed = changes.withLock { changes in
            changes.filter { key, _ in
                key.hasPrefix(prefix) && cursor.map { key > $0 } ?? true && end.map { key <= $0 } ?? true
            }
        }
        guard !changed.isEmpty else { return page }
        var items = page.outcome.items.filter { changed[$0.key] == nil }
        for (key, entry) in changed {
            guard let entry else { continue }
            items.append(KeyPage.Item(key: key, version: entry.version, byteCount: entry.value.count))
        }
        items.sort { $0.key < $1.key }
        page.outcome = KeyPage(items: Array(items.prefix(limit)), next: end)
        if items.count > limit { page.outcome.next = page.outcome.items.last?.key }
        return page
    }
}
