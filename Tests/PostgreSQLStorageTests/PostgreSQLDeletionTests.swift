#if PostgreSQL
import PostgreSQLStorage
import PostgreSQLTestSupport
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Deletions in a PostgreSQL store")
struct PostgreSQLDeletionTests {
    private let store: TestStore

    init() throws { store = try TestStore() }

    @Test("keep no row of the key, and go from the changes once no cursor needs them")
    func removal() async throws {
        let backend = try store.open()
        for number in 0..<20 {
            let key = try EntryKey("k/\(number)")
            _ = try await backend.write([1], to: key, if: .absent)
            _ = try await backend.delete(key, if: .any)
        }
        #expect(try store.sql("SELECT count(*) FROM @.entry") == "0")
        let page = try await backend.changes(since: nil, limit: 100).outcome
        #expect(page.changes.count == 20 && page.changes.allSatisfy { $0.version == nil })
        let sweeping = try store.open { $0.retention = .seconds(2) }
        _ = try await sweeping.write([1], to: EntryKey("last"), if: .absent)
        // The latest change remains, as the position of readers at the end.
        try await waitUntil("the sweep") { try store.sql("SELECT count(*) FROM @.change") == "1" }
        await expectKind(.cursorExpired) { try await backend.changes(since: page.cursor, limit: 10) }
        let end = try await backend.changes(since: nil, limit: 10).outcome
        #expect(end.changes.map(\.key.text) == ["last"])
        _ = try await backend.write([2], to: EntryKey("later"), if: .absent)
        #expect(try await backend.changes(since: end.cursor, limit: 10).outcome.changes.map(\.key.text) == ["later"])
    }

    @Test("that were removed expire older cursors, but not those of a reader that began later")
    func walks() async throws {
        let backend = try store.open()
        for number in 0..<10 { _ = try await backend.write([1], to: EntryKey("a/\(number)"), if: .absent) }
        let old = try #require(try await backend.changes(since: nil, limit: 5).outcome.cursor)
        _ = try await backend.delete(EntryKey("a/9"), if: .any)
        for number in 0..<10 { _ = try await backend.write([1], to: EntryKey("b/\(number)"), if: .absent) }
        #expect(try await backend.latestCursor().outcome?.sequence == 21)
        #expect(try await backend.changes(since: old, limit: 100).outcome.changes.count == 15)
        // As a day later.
        try store.sql(
            """
            DELETE FROM @.change WHERE n IN (10, 11);
            UPDATE @.sweep SET n = 15;
            INSERT INTO @.mark VALUES (now(), 21)
            """)
        await expectKind(.cursorExpired) { try await backend.changes(since: old, limit: 100) }
        var (keys, cursor, hasMore) = ([String](), ChangeCursor?.none, true)
        while hasMore {
            let page = try await backend.changes(since: cursor, limit: 1).outcome
            keys += page.changes.map(\.key.text)
            (cursor, hasMore) = (page.cursor, page.hasMore)
            if keys.count == 3 { _ = try await backend.delete(EntryKey("a/0"), if: .any) }
        }
        let expected = (0..<9).map { "a/\($0)" } + (0..<10).map { "b/\($0)" } + ["a/0"]
        #expect(keys == expected)
        #expect(try await backend.latestCursor().outcome == cursor)
        let middle = try #require(try await backend.changes(since: nil, limit: 3).outcome.cursor)
        #expect(try await backend.changes(since: middle, limit: 1).outcome.changes.map(\.key.text) == ["a/4"])
        try store.sql("DELETE FROM @.mark")
        await expectKind(.cursorExpired) { try await backend.changes(since: middle, limit: 1) }
    }

    @Test("of a prefix are found by key, however many other changes there are")
    func distantDeletion() async throws {
        let backend = try store.open()
        for name in ["a/1", "a/2", "a/3"] { _ = try await backend.write([1], to: EntryKey(name), if: .absent) }
        let start = try #require(try await backend.latestCursor().outcome)
        _ = try await backend.delete(EntryKey("a/1"), if: .any)
        for name in ["a/2", "a/3"] { _ = try await backend.delete(EntryKey(name), if: .any) }
        _ = try await backend.write([2], to: EntryKey("a/2"), if: .absent)
        for batch in 0..<12 {
            let requests = try (0..<500).map { number in
                WriteRequest(try EntryKey("b/\(batch)/\(number)"), value: [1], if: .any)
            }
            for result in try await backend.write(requests).outcome { _ = try result.get() }
        }
        let page = try await backend.changes(since: start, prefix: "a/", limit: 10).outcome
        #expect(page.changes.map(\.key.text) == ["a/1", "a/3", "a/2"])
        #expect(page.changes.map { $0.version == nil } == [true, true, false])
    }

    @Test("of the former format are migrated with the waiting changes, and former servers are refused")
    func migration() async throws {
        let user = "plain_\(store.schema)"
        try store.sql(Self.formerTables)
        try store.sql(
            """
            CREATE ROLE \(user) LOGIN;
            GRANT USAGE ON SCHEMA @ TO \(user);
            GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA @ TO \(user)
            """)
        let backend = try store.open()
        let page = try await backend.changes(since: ChangeCursor(sequence: 1, tag: 11), limit: 10).outcome
        #expect(page.changes.map(\.key.text) == ["gone", "new"])
        #expect(page.changes.map { $0.version == nil } == [true, false])
        let items = try await backend.list(prefix: "", after: nil, limit: 9).outcome.items
        #expect(items.map(\.key.text) == ["kept", "new"])
        #expect(try store.sql("SELECT count(*) FROM @.entry") == "2")
        let plain = try store.open(user: user)
        _ = try await plain.write([1], to: EntryKey("gone"), if: .absent)
        #expect(try await plain.latestCursor().outcome?.sequence == 4)
        // What a server of the former version has prepared, and what it reads when it connects.
        #expect(throws: PostgreSQLServer.Failure.self) {
            try store.sql("INSERT INTO @.pending (tag, key, version) VALUES (1, 'k', 'v')")
        }
        #expect(try store.sql("SELECT format FROM @.store") == "2")
    }

    /// The tables of format 1, with an entry, a deletion, and a change without a number.
    private static let formerTables = """
        CREATE SCHEMA @;
        CREATE TABLE @.store (id int PRIMARY KEY CHECK (id = 0), format bigint NOT NULL);
        CREATE TABLE @.entry (key bytea PRIMARY KEY, version bytea NOT NULL, value bytea)
            WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02);
        ALTER TABLE @.entry ALTER value SET STORAGE EXTERNAL;
        CREATE TABLE @.pending (
            n bigint GENERATED ALWAYS AS IDENTITY, tag bigint NOT NULL, key bytea NOT NULL, version bytea NOT NULL);
        CREATE TABLE @.change (
            n bigint PRIMARY KEY, tag bigint NOT NULL, key bytea NOT NULL, version bytea NOT NULL);
        CREATE INDEX change_by_key ON @.change (key, n);
        CREATE TABLE @.feed (id int PRIMARY KEY CHECK (id = 0), n bigint NOT NULL) WITH (fillfactor = 10);
        CREATE TABLE @.sweep (id int PRIMARY KEY CHECK (id = 0), n bigint NOT NULL) WITH (fillfactor = 10);
        CREATE TABLE @.mark (at timestamptz PRIMARY KEY, n bigint NOT NULL);
        INSERT INTO @.store VALUES (0, 1);
        INSERT INTO @.feed VALUES (0, 2);
        INSERT INTO @.sweep VALUES (0, 0);
        INSERT INTO @.entry VALUES ('kept', '\\x01', 'v'), ('gone', '\\x02', NULL), ('new', '\\x03', 'v');
        INSERT INTO @.change VALUES (1, 11, 'kept', '\\x01'), (2, 12, 'gone', '\\x02');
        INSERT INTO @.pending (tag, key, version) VALUES (13, 'new', '\\x03');
        """
}
#endif
