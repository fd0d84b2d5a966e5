import Foundation
import SQLiteStorage
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Recent changes in the memory of an SQLite store")
struct RecentChangesTests {
    private let folder: TemporaryFolder
    private let path: String
    private let store: SQLiteBackend

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path(of: "store.sqlite")
        store = SQLiteBackend(path: path)
    }

    private func keys(_ page: ChangePage?) -> [String]? { page?.changes.map(\.key.text) }

    private func put(_ value: UInt8, _ key: String, by store: SQLiteBackend) async throws {
        _ = try await store.write([value], to: EntryKey(key), if: .any)
    }

    @Test("An object's own changes are in memory, once for each key, as long as no other connection commits")
    func remembering() async throws {
        for key in ["a", "b", "a"] { try await put(1, key, by: store) }
        let whole = store.rememberedChanges(since: nil, limit: 10)
        #expect(keys(whole) == ["b", "a"] && whole?.hasMore == false)
        let part = store.rememberedChanges(since: nil, limit: 1)
        #expect(keys(part) == ["b"] && part?.hasMore == true)
        #expect(keys(store.rememberedChanges(since: part?.cursor, limit: 1)) == ["a"])
        let end = try #require(whole?.cursor)
        #expect(store.rememberedChanges(since: end, limit: 1) == ChangePage(changes: [], cursor: end, hasMore: false))
        _ = try await store.delete(EntryKey("b"), if: .any)
        let deleted = store.rememberedChanges(since: end, limit: 1)
        #expect(deleted?.changes == [ChangePage.Change(key: try EntryKey("b"), version: nil)])
        // A cursor of another history.
        #expect(store.rememberedChanges(since: ChangeCursor(sequence: end.sequence, tag: ~end.tag), limit: 1) == nil)
        #expect(store.rememberedChanges(since: ChangeCursor(sequence: 99, tag: 0), limit: 1) == nil)
        #expect(store.rememberedChanges(since: ChangeCursor(sequence: 0, tag: 0), limit: 1) == nil)
        #expect(store.rememberedChanges(since: ChangeCursor(sequence: .max, tag: 0), limit: 1) == nil)
    }

    @Test("A commit of another connection drops the changes, and later ones are kept again")
    func forgetting() async throws {
        try await put(1, "a", by: store)
        let first = try #require(store.rememberedChanges(since: nil, limit: 10)?.cursor)
        let other = SQLiteBackend(path: path)
        try await put(1, "b", by: other)
        #expect(store.rememberedChanges(since: first, limit: 10) == nil)
        let seen = try await store.changes(since: first, limit: 10).outcome
        #expect(keys(seen) == ["b"])
        try await put(1, "c", by: store)
        #expect(store.rememberedChanges(since: first, limit: 10) == nil)
        #expect(keys(store.rememberedChanges(since: seen.cursor, limit: 10)) == ["c"])
        #expect(keys(try await store.changes(since: first, limit: 10).outcome) == ["b", "c"])
    }

    @Test("Only the latest changes are kept, up to a maximum")
    func bound() async throws {
        let small = SQLiteBackend(path: path, cachedByteCount: 8 << 10)
        for number in 0..<40 { try await put(1, "k\(number)", by: small) }
        #expect(small.rememberedChanges(since: nil, limit: 100) == nil)
        let whole = try await small.changes(since: nil, limit: 100).outcome
        #expect(whole.changes.count == 40)
        let page = try await small.changes(since: nil, limit: 32).outcome
        #expect(keys(small.rememberedChanges(since: page.cursor, limit: 100)) == (32..<40).map { "k\($0)" })
        let none = SQLiteBackend(path: path, cachedByteCount: 0)
        try await put(1, "a", by: none)
        #expect(none.rememberedChanges(since: whole.cursor, limit: 100) == nil)
    }

    @Test("Changes from memory are the same as those from SQLite, regardless of the writer", arguments: 0..<8)
    func sameAsStored(round: Int) async throws {
        let seed = printedSeed("RecentChangesTests \(round)")
        var generator = SeededGenerator(seed: seed)
        // Every other store keeps so few changes that most of them are dropped during the test.
        let store = SQLiteBackend(path: path, cachedByteCount: round.isMultiple(of: 2) ? 1 << 20 : 16 << 10)
        let (other, plain) = (SQLiteBackend(path: path), SQLiteBackend(path: path, cachedByteCount: 0))
        var cursors: [ChangeCursor?] = [nil]
        var rememberedCount = 0
        for step in 0..<400 {
            // The other object commits occasionally: often enough to have an effect, rarely enough to keep some
            // changes.
            try await change(by: step % 50 == 49 ? other : store, &generator)
            if step % 70 == 69 { _ = try ForeignConnection(path: path).number("PRAGMA wal_checkpoint(TRUNCATE)") }
            let cursor = cursors.randomElement(using: &generator) ?? nil
            let limit = Int.random(in: 1...15, using: &generator)
            let page = try await store.changes(since: cursor, limit: limit).outcome
            #expect(page == (try await plain.changes(since: cursor, limit: limit).outcome), "seed \(seed)")
            if store.rememberedChanges(since: cursor, limit: limit) != nil { rememberedCount += 1 }
            cursors.append(page.cursor)
            cursors = cursors.suffix(20)
        }
        #expect(rememberedCount > 40, "seed \(seed)")
    }

    /// One write or deletion, a conflict, or a batch that may have one key several times.
    private func change(by store: SQLiteBackend, _ generator: inout SeededGenerator) async throws {
        func key() throws -> EntryKey { try EntryKey("k\(Int.random(in: 0..<12, using: &generator))") }
        switch Int.random(in: 0..<6, using: &generator) {
        case 0: _ = try await store.delete(key(), if: .any)
        case 1: _ = try await store.write([0], to: key(), if: .absent)
        case 2:
            let writes = try (0..<4).map { WriteRequest(try key(), value: [$0], if: .any) }
            _ = try await store.write(writes)
        default: _ = try await store.write([UInt8.random(in: 0...255, using: &generator)], to: key(), if: .any)
        }
    }
}
