import SyncCore

/// Checks what readers of a cluster see, from the answers of the cluster alone. Single-threaded.
///
/// Each key is a register. A read must return the version of the last acknowledged write, of a write that overlaps this
/// write or the read, or of a write of unknown outcome. A write that was reported as not done explains nothing. A
/// change feed is followed after each acknowledged write, and must report it.
final class StoreWitness {
    /// A write that was not acknowledged: under way, or of unknown outcome.
    private struct OpenWrite {
        var value: [UInt8]?
        var begun: Int
        /// The time of its end; `nil` while it is under way.
        var ended: Int?
    }

    /// The versions that a read of a key may see.
    private struct Register {
        /// Each with the last time at which it was certainly there; `nil` stands for no entry.
        var versions: [EntryVersion?: Int] = [:]
        var writes: [Int: OpenWrite] = [:]
        /// The time of a change by a client outside of the run, after which any version may be read.
        var replaced: Int?
    }

    private var registers: [EntryKey: Register] = [:]
    private var acknowledged: Set<EntryVersion> = []
    private var feed = ChangeFeedReader()
    /// Counts events.
    private var time = 0
    /// True if the contents were replaced, so that a key without a register may hold anything.
    private var wasReplaced = false
    private let report: (Violation.Oracle, String) -> Void

    init(report: @escaping (Violation.Oracle, String) -> Void) { self.report = report }

    private func register(_ key: EntryKey) -> Register {
        if let known = registers[key] { return known }
        return wasReplaced ? Register(replaced: 0) : Register(versions: [nil: 0])
    }

    /// Records the beginning of a write. Returns its number.
    func willWrite(_ value: [UInt8]?, to key: EntryKey) -> Int {
        time += 1
        var register = register(key)
        register.writes[time] = OpenWrite(value: value, begun: time)
        registers[key] = register
        return time
    }

    /// Records the failure of a write.
    func didFail(_ number: Int, _ key: EntryKey, _ error: BackendError) {
        time += 1
        if error.disposition == .outcomeUnknown {
            registers[key]?.writes[number]?.ended = time
        } else {
            registers[key]?.writes[number] = nil
        }
    }

    /// Records the answer to a write.
    func didAnswer(_ number: Int, _ key: EntryKey, _ outcome: WriteOutcome) {
        time += 1
        let write = registers[key]?.writes.removeValue(forKey: number)
        switch outcome {
        case .conflict(let current): see(current?.version, current?.value, of: key)
        case .deleted: acknowledge(nil, write, key)
        case .written(let version):
            if !acknowledged.insert(version).inserted { report(.reads, "a version of \(key) was used before") }
            acknowledge(version, write, key)
        }
    }

    private func acknowledge(_ version: EntryVersion?, _ write: OpenWrite?, _ key: EntryKey) {
        // Otherwise the contents were replaced after the write.
        guard let write, var register = registers[key] else { return }
        register.versions = register.versions.filter { $0.value >= write.begun }
        register.writes = register.writes.filter { ($0.value.ended ?? time) >= write.begun }
        if let replaced = register.replaced, replaced < write.begun { register.replaced = nil }
        register.versions[version] = time
        registers[key] = register
    }

    /// Checks a read.
    func didRead(_ key: EntryKey, _ outcome: ReadOutcome, unless knownVersion: EntryVersion?) {
        switch outcome {
        case .absent: see(nil, nil, of: key)
        case .unchanged: didSee(knownVersion, of: key)
        case .found(let entry): see(entry.version, entry.value, of: key)
        }
    }

    /// Checks a version that a reader saw without its value.
    func didSee(_ version: EntryVersion?, of key: EntryKey) {
        check(version, of: key) { version == nil ? $0 == nil : $0 != nil }
    }

    private func see(_ version: EntryVersion?, _ value: [UInt8]?, of key: EntryKey) {
        check(version, of: key) { $0 == value }
    }

    private func check(
        _ version: EntryVersion?, of key: EntryKey, _ source: String = "a read of",
        _ oracle: Violation.Oracle = .reads, _ mayBe: ([UInt8]?) -> Bool
    ) {
        time += 1
        var register = register(key)
        if register.versions[version] == nil, register.replaced == nil {
            let candidates = register.writes.filter { mayBe($0.value.value) }
            guard let first = candidates.keys.min() else {
                return report(oracle, "\(source) \(key) shows neither the last write nor one of unknown outcome")
            }
            // A write of unknown outcome has one version.
            if candidates.allSatisfy({ $0.value.ended != nil }) { register.writes[first] = nil }
        }
        register.versions[version] = time
        registers[key] = register
    }

    /// Records that a client outside of the run changed an entry.
    func didPut(_ key: EntryKey) {
        time += 1
        var register = register(key)
        register.versions = [:]
        register.replaced = time
        registers[key] = register
    }

    /// Records that the contents were replaced.
    func didReplace() {
        (registers, feed, wasReplaced) = ([:], ChangeFeedReader(), true)
    }

    /// Follows the change feed, which must report the last write to `key`.
    func follow(_ store: StoreContents, _ key: EntryKey?) async {
        do throws(BackendError) {
            if try await feed.follow(store) { report(.changes, "a cursor expired although nothing was replaced") }
            let cursor = feed.cursor
            if try await store.latestCursor().outcome != cursor {
                report(.changes, "the latest cursor is not the one of the last page")
            }
        } catch {
            return report(.changes, "the change feed failed: \(error)")
        }
        guard let key else { return }
        let version = feed.versions[key]
        check(version, of: key, "the page of changes after a write to", .changes) {
            version == nil ? $0 == nil : $0 != nil
        }
    }

    /// Checks that following the feed from the beginning has shown every change.
    func checkEnd(_ store: StoreContents) async {
        await follow(store, nil)
        for key in Set(feed.versions.keys).union(store.keys).sorted() {
            do throws(BackendError) {
                let version = feed.versions[key]
                let outcome = try await store.read(key, unless: version).outcome
                if outcome == (version == nil ? .absent : .unchanged) { continue }
                report(.changes, "a reader of the feed does not know the last change of \(key)")
            } catch {
                report(.changes, "reading \(key) failed: \(error)")
            }
        }
    }
}
