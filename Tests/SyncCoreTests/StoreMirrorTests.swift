import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Moving a store that is in use")
struct StoreMirrorTests {
    private let source = MemoryBackend()
    private let target = MemoryBackend()

    private func put(_ value: UInt8, at key: String) async throws {
        _ = try await source.write([value], to: EntryKey(key), if: .any)
    }

    private func content(of store: MemoryBackend) async throws -> [String: [UInt8]] {
        var values: [String: [UInt8]] = [:]
        for item in try await store.list(prefix: "", after: nil, limit: 10_000).outcome.items {
            if case .found(let entry) = try await store.read(item.key).outcome { values[item.key.text] = entry.value }
        }
        return values
    }

    @Test("Writes and deletions of clients reach the target, and the mark goes at the end")
    func moving() async throws {
        for number in 0..<1_200 { try await put(1, at: "k\(number)") }
        var mirror = try await StoreMirror(from: source, to: target)
        try await mirror.copy()
        #expect(mirror.isComplete && mirror.report.writtenCount == 1_200)
        try await put(2, at: "k7")
        try await put(2, at: "new")
        _ = try await source.delete(EntryKey("k8"), if: .any)
        #expect(try await mirror.follow() == 3)
        #expect(try await content(of: target).count == 1_201)
        try await put(3, at: "k9")
        try await mirror.finish()
        #expect(try await content(of: target) == content(of: source))
        #expect(mirror.report.deletedCount == 1)
    }

    /// A store in use: clients change it before each page of keys, and it keeps only its latest changes.
    private struct BusyStore: ForwardingBackend {
        static let retainedCount: UInt64 = 1_000
        let base: any KeyValueBackend

        func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
            for number in 0..<400 {
                _ = try await base.write([UInt8(number % 256)], to: EntryKey("hot\(number % 3)"), if: .any)
            }
            return try await base.list(prefix: prefix, after: cursor, limit: limit)
        }

        func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage> {
            let latest = try await base.latestCursor().outcome?.sequence ?? 0
            guard let cursor, latest - cursor.sequence <= Self.retainedCount else {
                throw BackendError(.cursorExpired, message: "forgotten")
            }
            return try await base.changes(since: cursor, limit: limit)
        }
    }

    @Test("A copy keeps up with a store that forgets its changes long before everything is copied")
    func busy() async throws {
        for number in 0..<3_000 { try await put(1, at: "k\(number)") }
        var mirror = try await StoreMirror(from: BusyStore(base: source), to: target)
        try await mirror.copy()
        #expect(try await mirror.follow() <= 3)
        #expect(try await content(of: target).count == 3_004, "with the mark")
        try await mirror.finish()
        #expect(try await content(of: target) == content(of: source))
    }

    @Test("A copy that is interrupted at any call ends with the same entries, although the source changes meanwhile")
    func interrupted() async throws {
        let seed = printedSeed("StoreMirrorTests interrupted")
        var generator = SeededGenerator(seed: seed)
        for number in 0..<700 { try await put(1, at: "k\(number)") }
        var attempts = 0
        while true {
            attempts += 1
            // Each attempt may make one call more than the previous one.
            let broken = FaultyBackend(
                target,
                plan: .scripted(Array(repeating: nil, count: attempts) + [.transient]))
            do throws(BackendError) {
                var mirror = try await StoreMirror(from: source, to: broken)
                try await mirror.copy()
                try await mirror.finish()
                break
            } catch {
                #expect(error.kind == .unavailable)
            }
            for _ in 0..<5 {
                let key = "k\(generator.next() % 710)"
                if generator.next() % 3 == 0 {
                    _ = try await source.delete(EntryKey(key), if: .any)
                } else {
                    try await put(UInt8(truncatingIfNeeded: generator.next()), at: key)
                }
            }
        }
        #expect(attempts > 5)
        #expect(try await content(of: target) == content(of: source))
    }

    @Test("A complete copy continues at its position, and compares everything if the source forgot it")
    func resumed() async throws {
        for number in 0..<50 { try await put(1, at: "k\(number)") }
        var first = try await StoreMirror(from: source, to: target)
        try await first.copy()
        try await put(2, at: "k1")
        var second = try await StoreMirror(from: source, to: target)
        #expect(second.isComplete)
        #expect(try await second.follow() == 1)
        source.putBack(MemoryBackend.Backup())
        try await put(9, at: "k1")
        var third = try await StoreMirror(from: source, to: target)
        #expect(!third.isComplete)
        try await third.copy()
        try await third.finish()
        #expect(try await content(of: target) == ["k1": [9]])
    }

    @Test("A target with other entries is refused and stays as it is")
    func foreignTarget() async throws {
        _ = try await target.write([1], to: EntryKey("own"), if: .absent)
        let error = await #expect(throws: BackendError.self) { try await StoreMirror(from: source, to: target) }
        #expect(error?.kind == .permissionDenied)
        #expect(try await content(of: target) == ["own": [1]])
    }

    @Test("An unfinished copy is not the source of another one")
    func unfinishedSource() async throws {
        try await put(1, at: "k")
        _ = try await StoreMirror(from: source, to: target)
        let error = await #expect(throws: BackendError.self) {
            try await StoreMirror(from: target, to: MemoryBackend())
        }
        #expect(error?.message.contains("target of an unfinished copy") == true)
    }

    @Test("A lost answer to the last step ends the copy as well")
    func lostAnswer() async throws {
        try await put(1, at: "k")
        let losing = FaultyBackend(target) { $0.operation == .delete ? .lostAnswer : nil }
        var mirror = try await StoreMirror(from: source, to: losing)
        try await mirror.copy()
        try await mirror.finish()
        #expect(try await content(of: target) == ["k": [1]])
    }

    @Test("Two copies to one target: the first one stops at its next write")
    func rivals() async throws {
        for number in 0..<5 { try await put(1, at: "k\(number)") }
        var first = try await StoreMirror(from: source, to: target)
        try await first.copy()
        var second = try await StoreMirror(from: source, to: target)
        try await put(2, at: "k1")
        #expect(try await second.follow() == 1)
        try await put(3, at: "k1")
        let error = await #expect(throws: BackendError.self) { try await first.follow() }
        #expect(error?.message.contains("another process writes to the target") == true)
    }
}
