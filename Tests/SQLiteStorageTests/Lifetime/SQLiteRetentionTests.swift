import Foundation
import SQLiteRecovery
import SQLiteStorage
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Retention of deleted keys in an SQLite store")
struct SQLiteRetentionTests {
    private static let retainedCount: Int64 = 1_000

    private let folder: TemporaryFolder
    private let path: String
    private let store: SQLiteBackend
    /// Another object, which has no changes of ``store`` in memory and therefore reads them from SQLite.
    private let reader: SQLiteBackend

    init() throws {
        folder = try TemporaryFolder(inMemory: true)
        path = folder.path(of: "store.sqlite")
        store = SQLiteBackend(path: path, retainedChangeCount: Self.retainedCount)
        reader = SQLiteBackend(path: path, retainedChangeCount: Self.retainedCount)
    }

    private func write(_ names: [String], to store: SQLiteBackend? = nil) async throws {
        _ = try await (store ?? self.store).write(names.map { WriteRequest(try EntryKey($0), value: [1], if: .any) })
    }

    private func delete(_ names: [String]) async throws {
        _ = try await store.write(names.map { WriteRequest(try EntryKey($0), value: nil, if: .any) })
    }

    /// Makes `count` changes of one key.
    private func passTime(_ count: Int) async throws {
        for start in stride(from: 0, to: count, by: 50) {
            try await write(Array(repeating: "hot", count: min(50, count - start)))
        }
    }

    /// Reads all changes from `cursor` on, in pages of `limit`.
    private func changes(since cursor: ChangeCursor?, limit: Int = 100) async throws
        -> ([EntryKey: EntryVersion?], ChangeCursor?)
    {
        var (changes, position): ([EntryKey: EntryVersion?], ChangeCursor?) = ([:], cursor)
        while true {
            let page = try await reader.changes(since: position, limit: limit).outcome
            for change in page.changes { changes[change.key] = .some(change.version) }
            position = page.cursor
            if !page.hasMore { return (changes, position) }
        }
    }

    @Test("Tombstone rows are removed once no valid cursor can need them")
    func purging() async throws {
        let names = (0..<500).map { "gone/\($0)" }
        for start in stride(from: 0, to: 500, by: 50) {
            try await write(Array(names[start..<(start + 50)]))
            try await delete(Array(names[start..<(start + 50)]))
        }
        try await write(["kept"])
        #expect(try await store.entryRowCount() == 501)
        let (before, cursor) = try await changes(since: nil)
        #expect(before.count == 501)
        try await passTime(Int(Self.retainedCount) + 64)
        #expect(try await store.entryRowCount() == 2)
        let rows = try await store.changeRowCount()
        #expect(rows <= Self.retainedCount + 64 + 2 && rows >= Self.retainedCount)
        await expectKind(.cursorExpired) { try await reader.changes(since: cursor, limit: 1) }
        let (after, _) = try await changes(since: nil, limit: 1)
        #expect(Set(after.keys.map(\.text)) == ["kept", "hot"])
        for name in ["gone/7", "kept"] {
            let outcome = try await store.write([2], to: EntryKey(name), if: .absent).outcome
            if case .written = outcome { #expect(name == "gone/7") } else { #expect(name == "kept") }
        }
        #expect(try await store.integrityCheck().isIntact)
    }

    @Test("A valid cursor misses no deletion, and all others have expired")
    func neverMissed() async throws {
        let seed = printedSeed("SQLiteRetentionTests")
        var generator = SeededGenerator(seed: seed)
        // The cursors, with the keys that have an entry according to their readers.
        var readers: [(cursor: ChangeCursor?, known: Set<EntryKey>)] = [(nil, [])]
        var (expired, followed) = (0, 0)
        for step in 0..<220 {
            let names = (0..<20).map { _ in "k/\(Int.random(in: 0..<60, using: &generator))" }
            if Bool.random(using: &generator) { try await write(names) } else { try await delete(names) }
            if step % 40 == 0 { try await write(["cold/\(step)"]) }
            let present = Set(try await store.list(prefix: "", after: nil, limit: 1_000).outcome.items.map(\.key))
            for _ in 0..<3 {
                let index = Int.random(in: 0..<readers.count, using: &generator)
                var (cursor, known) = readers[index]
                do throws(BackendError) {
                    var hasMore = true
                    // Some readers stop halfway and continue later.
                    var pages = Int.random(in: 1...12, using: &generator)
                    while hasMore, pages > 0 {
                        let page = try await reader.changes(since: cursor, limit: 12).outcome
                        for change in page.changes {
                            if change.version == nil { known.remove(change.key) } else { known.insert(change.key) }
                        }
                        (cursor, hasMore) = (page.cursor, page.hasMore)
                        pages -= 1
                    }
                    if !hasMore { #expect(known == present, "seed \(seed), step \(step)") }
                    followed += hasMore ? 0 : 1
                    readers.append((cursor, known))
                } catch {
                    #expect(error.kind == .cursorExpired && cursor != nil, "seed \(seed): \(error)")
                    expired += 1
                    readers[index] = (nil, [])
                }
            }
        }
        #expect(expired > 10 && followed > 100, "seed \(seed): \(expired) expired, \(followed) followed to the end")
    }

    @Test("A walk through the changes is valid for as many changes as are retained since its start")
    func walking() async throws {
        try await write((0..<300).map { "live/\($0)" })
        try await passTime(1_500)
        var cursor: ChangeCursor?
        var seen: Set<String> = []
        for round in 0..<31 {
            let page = try await reader.changes(since: cursor, limit: 10).outcome
            seen.formUnion(page.changes.map(\.key.text))
            cursor = page.cursor
            if round < 30 { try await delete(["live/\(round)"]) }
            try await passTime(29)
        }
        #expect((0..<300).allSatisfy { seen.contains("live/\($0)") })
        // A second walk is started and then left for too long.
        let start = try await reader.changes(since: nil, limit: 10).outcome.cursor
        try await passTime(900)
        _ = try await reader.changes(since: start, limit: 10)
        try await passTime(300)
        await expectKind(.cursorExpired) { try await reader.changes(since: start, limit: 10) }
    }

    @Test("Removing a tombstone row keeps other keys with the same hash readable")
    func collisions() async throws {
        let store = SQLiteBackend(
            path: path, retainedChangeCount: Self.retainedCount, numbering: { $0.first == 0x68 ? 77 : 1_000 })
        let keys = try ["a", "b", "c"].map { try EntryKey($0) }
        for key in keys { _ = try await store.write([1], to: key, if: .absent) }
        _ = try await store.delete(keys[0], if: .any)
        for _ in 0..<24 { try await write(Array(repeating: "hot", count: 50), to: store) }
        #expect(try await store.read(keys[0]).outcome == .absent)
        for key in keys[1...] { #expect(try await store.read(key).outcome != .absent) }
    }

    @Test("Removed keys do not reappear when the file is recovered")
    func salvaged() async throws {
        // Removing the first keys frees pages. The remaining keys of those pages move to neighbouring pages.
        let (first, second) = ((0..<900).map { "first/\($0)" }, (0..<100).map { "second/\($0)" })
        try await write(first + second)
        try await delete(first)
        try await passTime(1_200)
        try await delete(second)
        try await write(["kept"])
        try await passTime(1_200)
        let copy = folder.path(of: "copy")
        try await store.backup(to: copy)
        let freeCount = try ForeignConnection(path: copy).number("PRAGMA freelist_count")
        #expect((freeCount ?? 0) > 0, "there are pages with removed rows")
        let report = try await SQLiteBackend(path: copy).recover(to: folder.path(of: "whole"))
        #expect(report.recoveredCount == 2 && report.lostKeys.isEmpty && report.missingCount == 0)
        let whole = SQLiteBackend(path: folder.path(of: "whole"))
        #expect(try await whole.changes(since: nil, limit: 1_000).outcome.changes.count == 2)
    }

    @Test("Rows are removed in small steps: at most those that became old with this write and 63 others")
    func steps() async throws {
        let names = (0..<300).map { "gone/\($0)" }
        try await write(names)
        try await delete(names)
        try await passTime(600)
        var largest: Int64 = 0
        for _ in 0..<600 {
            let before = try await store.entryRowCount()
            try await write(["hot"])
            largest = max(largest, before - (try await store.entryRowCount()))
        }
        #expect(largest > 0 && largest <= 64)
    }
}
