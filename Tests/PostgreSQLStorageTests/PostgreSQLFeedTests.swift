#if PostgreSQL
import PostgreSQLStorage
import PostgreSQLTestSupport
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("The changes of a PostgreSQL store")
struct PostgreSQLFeedTests {
    private let store: TestStore
    private let backend: PostgreSQLBackend

    init() throws {
        store = try TestStore()
        backend = try store.open()
    }

    private func put(_ key: String, _ value: [UInt8] = [1], on other: PostgreSQLBackend? = nil) async throws {
        _ = try await (other ?? backend).write(value, to: EntryKey(key), if: .any)
    }

    private func keys(
        since cursor: ChangeCursor?, prefix: String = "", limit: Int = 1_000
    ) async throws -> (keys: [String], cursor: ChangeCursor?) {
        var (keys, cursor, hasMore) = ([String](), cursor, true)
        while hasMore {
            let page = try await backend.changes(since: cursor, prefix: prefix, limit: limit).outcome
            #expect(page.changes.count <= limit)
            keys += page.changes.map(\.key.text)
            (cursor, hasMore) = (page.cursor, page.hasMore)
        }
        return (keys, cursor)
    }

    @Test("begin after the latest cursor, which carries the time of the database server")
    func databaseTime() async throws {
        for isChanged in [false, true] {
            if isChanged { try await put("first") }
            let milliseconds = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
            let before = try #require(Int64(try store.sql(milliseconds)))
            let latest = try await backend.latestCursor()
            let after = try #require(Int64(try store.sql(milliseconds)))
            #expect((before...after).contains(try #require(latest.serverTime)))
            #expect((latest.outcome != nil) == isChanged)
        }
    }

    @Test("include each acknowledged write in the next page beside a slow transaction, and that transaction later")
    func slowCommitter() async throws {
        try await put("first")
        try store.sql("CREATE TABLE @.hold AS SELECT 1")
        let slow = try store.server.startSQL(
            """
            BEGIN;
            INSERT INTO \(store.schema).entry VALUES ('slow', '\\x01', 'v');
            INSERT INTO \(store.schema).pending (tag, key, version) VALUES (7, 'slow', '\\x01');
            DO $$ BEGIN
                WHILE EXISTS (SELECT FROM \(store.schema).hold) LOOP PERFORM pg_sleep(0.01); END LOOP;
            END $$;
            COMMIT
            """)
        try await waitUntil("the slow transaction") {
            try store.sql(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%@.hold%'") != "0"
        }
        let other = try store.open()
        var (seen, cursor) = ([String](), ChangeCursor?.none)
        // A reader that waits for the slow transaction never gets a page, because it ends only after these.
        for number in 0..<50 {
            try await put("fast/\(number)", on: other)
            let page = try await keys(since: cursor)
            #expect(page.keys.contains("fast/\(number)"))
            (seen, cursor) = (seen + page.keys, page.cursor)
        }
        #expect(!seen.contains("slow"))
        try store.sql("DELETE FROM @.hold")
        #expect(slow.wait() == 0)
        seen += try await keys(since: cursor).keys
        #expect(Set(seen) == Set(["first", "slow"] + (0..<50).map { "fast/\($0)" }) && seen.count == 52)
    }

    @Test("of a prefix leave out all others, and the cursor moves past them", arguments: [1, 3, 1_000])
    func prefixes(limit: Int) async throws {
        for number in 0..<10 {
            try await put("a/\(number)")
            try await put("b/\(number)")
        }
        _ = try await backend.delete(EntryKey("a/3"), if: .any)
        let all = try await keys(since: nil, prefix: "a/", limit: limit)
        #expect(all.keys == [0, 1, 2, 4, 5, 6, 7, 8, 9, 3].map { "a/\($0)" })
        #expect(try await backend.latestCursor().outcome == all.cursor)
        try await put("b/0")
        let later = try await keys(since: all.cursor, prefix: "a/", limit: limit)
        #expect(later.keys.isEmpty)
        #expect(try await backend.latestCursor().outcome == later.cursor)
    }

    @Test("of a prefix with few keys are found by key, however many others there are")
    func distantPrefix() async throws {
        try await put("a/1")
        let start = try #require(try await backend.latestCursor().outcome)
        for batch in 0..<12 {
            let requests = try (0..<500).map { number in
                WriteRequest(try EntryKey("b/\(batch)/\(number)"), value: [1], if: .any)
            }
            for result in try await backend.write(requests).outcome { _ = try result.get() }
            if batch == 6 { try await put("a/2") }
        }
        try await put("a/1")
        for limit in [1, 10] {
            let page = try await backend.changes(since: start, prefix: "a/", limit: limit).outcome
            #expect(page.changes.map(\.key.text) == ["a/2", "a/1"].prefix(limit).map(\.self))
            #expect(page.hasMore == (limit == 1))
        }
        let rest = try await keys(since: start, prefix: "a/", limit: 1)
        #expect(rest.keys == ["a/2", "a/1"])
        #expect(try await backend.latestCursor().outcome == rest.cursor)
        // A prefix of many keys is read in the order of the changes.
        #expect(try await keys(since: nil, prefix: "b/").keys.count == 6_000)
        #expect(try await keys(since: nil).keys.count == 6_002)
    }

    @Test("begin without a position, which follows the first change")
    func latestCursor() async throws {
        #expect(try await backend.latestCursor().outcome == nil)
        try await put("k")
        let first = try #require(try await backend.latestCursor().outcome)
        #expect(first.sequence == 1)
        try await put("k")
        #expect(try await backend.latestCursor().outcome?.sequence == 2)
        #expect(try await keys(since: first).keys == ["k"])
    }

    @Test("that were superseded are removed after a while, and the others stay")
    func sweep() async throws {
        let sweeping = try store.open { $0.retention = .seconds(2) }
        for number in 0..<20 { try await put("k/\(number % 4)", [UInt8(number)], on: sweeping) }
        try await waitUntil("the sweep") { try store.sql("SELECT count(*) FROM @.change") == "4" }
        #expect(try await keys(since: nil).keys == (0..<4).map { "k/\($0)" })
        let expired = ChangeCursor(sequence: 1, tag: 1)
        await expectKind(.cursorExpired) { try await backend.changes(since: expired, limit: 10) }
        _ = sweeping
    }

    @Test("are numbered without a reader, so that the table of pending changes stays small")
    func pending() async throws {
        for number in 0..<10 { try await put("k/\(number)") }
        try await waitUntil("the numbering") { try store.sql("SELECT count(*) FROM @.pending") == "0" }
        #expect(try store.sql("SELECT n FROM @.feed") == "10")
    }
}
#endif
