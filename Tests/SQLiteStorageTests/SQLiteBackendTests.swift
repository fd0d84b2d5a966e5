import Foundation
import GRDB
import SQLiteStorage
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("The SQLite store")
struct SQLiteBackendTests {
    private let folder: TemporaryFolder
    private let store: SQLiteBackend

    init() throws {
        folder = try TemporaryFolder()
        store = SQLiteBackend(path: folder.path(of: "store.sqlite"))
    }

    private func contents() throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: folder.path).sorted()
    }

    @Test("The store passes the conformance checks behind retries over a faulty connection")
    func conformanceBehindRetries() async {
        let folder = folder
        let seed = printedSeed("retry over faulty SQLite store")
        await expectConformance(of: "retry over faulty SQLite") {
            FaultyBackend(
                SQLiteBackend(path: try folder.freshFolder() + "/s"),
                plan: .seeded(seed, rate: 0.2, faults: [.transient])
            ).retrying(RetryPolicy(maximumAttempts: 40), host: ManualHost(seed: seed).host)
        }
    }

    @Test("Nothing is created before the first write")
    func untouched() async throws {
        let key = try EntryKey("a/b")
        #expect(try await store.read(key).outcome == .absent)
        #expect(try await store.read([ReadRequest(key)]).outcome.count == 1)
        #expect(try await store.list(prefix: "", after: nil, limit: 1).outcome.items.isEmpty)
        #expect(try await store.changes(since: nil, limit: 1).outcome.cursor == nil)
        #expect(try await store.delete(key, if: .any).outcome == .deleted)
        #expect(try contents() == [])
    }

    @Test("Every commit is synced: after a write, the writing connection has synchronous = FULL")
    func synchronous() async throws {
        #expect(try await store.synchronousPragma() == nil, "no writing connection is open yet")
        _ = try await store.write([1], to: EntryKey("k"), if: .absent)
        #expect(try await store.synchronousPragma() == 2)
        #expect(try await store.journalMode() == "wal")
    }

    @Test("A store can be opened again by another object after it was closed")
    func reopening() async throws {
        let key = try EntryKey("accounts/Ä/ledger")
        let written = try await store.write([1, 2], to: key, if: .absent).outcome
        let other = SQLiteBackend(path: folder.path(of: "store.sqlite"))
        guard case .written(let version) = written else {
            Issue.record("\(written)")
            return
        }
        #expect(try await other.read(key).outcome == .found(Entry(value: [1, 2], version: version)))
        #expect(try await other.read(key, unless: version).outcome == .unchanged)
    }

    @Test("A missing store is an error if it is a remote, and is not created")
    func remote() async throws {
        let key = try EntryKey("k")
        let remote = store.requiringExisting
        let error = await expectKind(.missing) { try await remote.read(key) }
        #expect(error?.disposition == .transient)
        await expectKind(.missing) { try await remote.write([1], to: key, if: .any) }
        await expectKind(.missing) { try await remote.delete(key, if: .any) }
        await expectKind(.missing) { try await remote.changes(since: nil, limit: 1) }
        #expect(try contents() == [])
        #expect(FileManager.default.createFile(atPath: folder.path(of: "store.sqlite"), contents: nil))
        await expectKind(.missing) { try await remote.write([1], to: key, if: .any) }
        _ = try await store.write([1], to: key, if: .absent)
        #expect(try await remote.read(key).outcome != .absent)
    }

    @Test("A file that is replaced or removed while in use is detected, and the new file is used")
    func replaced() async throws {
        let (key, path) = (try EntryKey("k"), folder.path(of: "store.sqlite"))
        _ = try await store.write([1], to: key, if: .absent)
        for suffix in ["", "-wal", "-shm"] { try FileManager.default.removeItem(atPath: path + suffix) }
        #expect(try await store.read(key).outcome == .absent)
        _ = try await store.write([2], to: key, if: .absent)
        let other = SQLiteBackend(path: path)
        guard case .found(let entry) = try await other.read(key).outcome else {
            Issue.record("the write went to a file that was removed")
            return
        }
        #expect(entry.value == [2])
    }

    @Test("Keys with the same hash are kept apart, also after deletions")
    func collisions() async throws {
        let keys = try ["a", "b", "c", "d"].map { try EntryKey($0) }
        let store = SQLiteBackend(
            path: folder.path(of: "store.sqlite"), retainedChangeCount: 100_000, numbering: { _ in Int64.max })
        for (index, key) in keys.enumerated() { _ = try await store.write([UInt8(index)], to: key, if: .absent) }
        _ = try await store.delete(keys[1], if: .any)
        for (index, key) in keys.enumerated() where index != 1 {
            guard case .found(let entry) = try await store.read(key).outcome else {
                Issue.record("\(key) is missing")
                continue
            }
            #expect(entry.value == [UInt8(index)])
        }
        #expect(try await store.read(keys[1]).outcome == .absent)
        #expect(try await store.read(EntryKey("e")).outcome == .absent)
        let listed = try await store.list(prefix: "", after: nil, limit: 9).outcome.items.map(\.key)
        #expect(listed == [keys[0], keys[2], keys[3]])
        #expect(
            try await store.changes(since: nil, limit: 9).outcome.changes.map(\.key) == [0, 2, 3, 1].map { keys[$0] })
    }

    @Test("Superseded changes are removed, but none that a valid cursor needs")
    func boundedChanges() async throws {
        let store = SQLiteBackend(path: folder.path(of: "store.sqlite"), retainedChangeCount: 10_000)
        let hot = try EntryKey("hot")
        _ = try await store.write([1], to: EntryKey("cold"), if: .any)
        _ = try await store.write([1], to: hot, if: .any)
        let early = try await store.changes(since: nil, limit: 10).outcome.cursor
        _ = try await store.write([1], to: EntryKey("later"), if: .any)
        let batch = (0..<1_000).map { WriteRequest(hot, value: [UInt8($0 % 251)], if: .any) }
        for _ in 0..<14 { _ = try await store.write(batch) }
        let recent = try await store.changes(since: nil, limit: 10).outcome
        #expect(recent.changes.map(\.key.text) == ["cold", "later", "hot"])
        await expectKind(.cursorExpired) { try await store.changes(since: early, limit: 10) }
        _ = try await store.write([2], to: EntryKey("cold"), if: .any)
        let after = try await store.changes(since: recent.cursor, limit: 10).outcome
        #expect(after.changes.map(\.key.text) == ["cold"])
        let rows = try await store.changeRowCount()
        #expect(rows <= 10_000 + 64 + 3 && rows >= 10_000)
    }

    @Test("A restored copy reports cursorExpired, also when the sequence number of the cursor is used again")
    func restored() async throws {
        let path = folder.path(of: "store.sqlite")
        let key = try EntryKey("k")
        _ = try await store.write([1], to: key, if: .any)
        let old = try await store.changes(since: nil, limit: 10).outcome.cursor
        try await store.backup(to: folder.path(of: "copy.sqlite"))
        _ = try await store.write([2], to: key, if: .any)
        let new = try await store.changes(since: nil, limit: 10).outcome.cursor
        for suffix in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: path + suffix) }
        #expect(rename(folder.path(of: "copy.sqlite"), path) == 0)
        #expect(try await store.changes(since: old, limit: 10).outcome.changes.isEmpty)
        await expectKind(.cursorExpired) { try await store.changes(since: new, limit: 10) }
        _ = try await store.write([3], to: key, if: .any)
        let again = try await store.changes(since: old, limit: 10).outcome.cursor
        #expect(again?.sequence == new?.sequence && again?.tag != new?.tag)
        await expectKind(.cursorExpired) { try await store.changes(since: new, limit: 10) }
    }

    @Test(
        "A store of schema 1 is read unchanged and migrated by its first write, with and without a log",
        arguments: [false, true])
    func migration(isClosed: Bool) async throws {
        let path = folder.path(of: "store.sqlite")
        let (first, second) = (try EntryKey("a"), try EntryKey("b"))
        _ = try await store.write([1], to: first, if: .any)
        let cursor = try await store.changes(since: nil, limit: 10).outcome.cursor
        if isClosed { try await store.close() }
        let foreign = try ForeignConnection(path: path)
        try foreign.execute("PRAGMA user_version = 1")
        if isClosed { try foreign.execute("PRAGMA journal_mode = DELETE") }

        let opened = SQLiteBackend(path: path)
        guard case .found(let entry) = try await opened.read(first).outcome else {
            Issue.record("the entry is missing")
            return
        }
        #expect(entry.value == [1])
        #expect(try await opened.changes(since: cursor, limit: 10).outcome.changes.isEmpty)
        #expect(try foreign.number("PRAGMA user_version") == 1)
        _ = try await opened.write([2], to: second, if: .absent)
        #expect(try foreign.number("PRAGMA user_version") == 2)
        #expect(try await opened.read(first).outcome == .found(entry))
        #expect(try await opened.changes(since: cursor, limit: 10).outcome.changes.map(\.key) == [second])
        #expect(try await opened.integrityCheck().isIntact)
    }
}
