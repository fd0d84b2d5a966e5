#if PostgreSQL
import Foundation
import PostgreSQLStorage
import PostgreSQLTestSupport
import SyncCore
import SyncCoreTesting
import Synchronization
import TestSupport
import Testing

@Suite("A PostgreSQL store of which a part fails", .serialized)
struct PostgreSQLHealthTests {
    private let key: EntryKey

    init() throws { key = try EntryKey("k") }

    @Test("writes over the connection that is open while another one cannot be opened")
    func missingWriter() async throws {
        let store = try TestStore()
        _ = try await store.open().latestCursor()
        let user = "few_\(store.schema)"
        try store.sql(
            """
            CREATE ROLE \(user) LOGIN;
            GRANT USAGE ON SCHEMA @ TO \(user);
            GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA @ TO \(user)
            """)
        let backend = try store.open(user: user)
        _ = try await backend.write([0], to: key, if: .any)
        let count = "SELECT count(*) FROM pg_stat_activity WHERE usename = '\(user)'"
        // One that writes, one that follows, one that watches.
        try await waitUntil("the connections") { try store.sql(count) == "3" }
        try store.sql("ALTER ROLE \(user) CONNECTION LIMIT 3")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<20 {
                group.addTask {
                    for number in 0..<10 {
                        _ = try await backend.write([1], to: EntryKey("\(task)/\(number)"), if: .absent)
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try store.sql("SELECT count(*) FROM @.entry") == "201")
        #expect(try store.sql(count) == "3")
    }

    @Test("answers within seconds that a frozen server is unavailable, and goes on when it continues")
    func frozen() async throws {
        let server = try PostgreSQLServer()
        let store = try TestStore(on: server)
        let backend = try store.open()
        _ = try await backend.write([0], to: key, if: .any)
        _ = try await backend.read(key)
        _ = try await backend.list(prefix: "", after: nil, limit: 1)
        let cursor = try await backend.latestCursor().outcome
        server.freeze()
        defer { server.thaw() }
        for round in 0..<3 {
            let begin = ContinuousClock.now
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<8 {
                    group.addTask { await expectKind(.unavailable) { try await backend.read(key) } }
                    group.addTask { await expectKind(.unavailable) { try await backend.write([1], to: key, if: .any) } }
                }
                group.addTask {
                    await expectKind(.unavailable) { try await backend.list(prefix: "", after: nil, limit: 1) }
                }
                group.addTask { await expectKind(.unavailable) { try await backend.changes(since: cursor, limit: 1) } }
            }
            let time = begin.duration(to: .now)
            // 2 s without other load. Before, the first call took 30 s, and each later one 5 s.
            #expect(time < .seconds(10), "round \(round) took \(time)")
            print("frozen, round \(round): \(time)")
        }
        server.thaw()
        try await waitUntil("the next write") {
            (try? await backend.write([2], to: key, if: .any)) != nil
        }
        guard case .found(let entry) = try await backend.read(key).outcome else {
            Issue.record("the entry is absent")
            return
        }
        #expect(entry.value == [2])
    }

    @Test("reads keys while listings take all of their connections")
    func listings() async throws {
        let store = try TestStore()
        let owner = try store.open()
        for name in ["slow", "fast"] { _ = try await owner.write([1], to: EntryKey(name), if: .any) }
        let user = "lister_\(store.schema)"
        try store.sql(
            """
            CREATE ROLE \(user) LOGIN;
            CREATE TABLE @.hold AS SELECT 1;
            CREATE FUNCTION @.wait(key bytea) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
            BEGIN
                WHILE key = 'slow' AND EXISTS (SELECT FROM @.hold) LOOP PERFORM pg_sleep(0.01); END LOOP;
                RETURN true;
            END $$;
            GRANT USAGE ON SCHEMA @ TO \(user);
            GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA @ TO \(user);
            ALTER TABLE @.entry ENABLE ROW LEVEL SECURITY;
            CREATE POLICY waiting ON @.entry TO \(user) USING (@.wait(key))
            """)
        let backend = try store.open(user: user)
        async let pages = withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<8 {
                group.addTask { try await backend.list(prefix: "slow", after: nil, limit: 1).outcome.items.count }
            }
            return try await group.reduce(0, +)
        }
        let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE usename = '\(user)' AND wait_event = 'PgSleep'"
        // A listing on each connection.
        try await waitUntil("the listings") { try store.sql(sleeping) == "2" }
        let read = Mutex(false)
        let fast = try EntryKey("fast")
        async let reading = { () async throws -> ReadOutcome in
            defer { read.withLock { $0 = true } }
            return try await backend.read(fast).outcome
        }()
        // Ends the listings in any case, so that a failed test ends.
        defer { _ = try? store.sql("DELETE FROM @.hold") }
        let limit = ContinuousClock.now + .seconds(10)
        while !read.withLock({ $0 }), ContinuousClock.now < limit { await Task.yield() }
        #expect(read.withLock { $0 })
        #expect(try store.sql(sleeping) == "2")
        try store.sql("DELETE FROM @.hold")
        #expect(try await reading != .absent)
        #expect(try await pages == 8)
    }

    @Test("leaves a former primary that runs on, and a new process never reads from it")
    func formerPrimary() async throws {
        let pair = try await ServerPair()
        let backend = try PostgreSQLBackend(pair.url)
        _ = try await backend.write([1], to: key, if: .absent)
        _ = try await backend.read(key)
        // Nothing fences the primary, which waits for its lost standby from now on.
        try pair.promoteStandby()
        let other = try PostgreSQLBackend(pair.standby.url(schema: pair.schema))
        try await waitUntil("the new primary") { (try? await other.write([2], to: key, if: .any)) != nil }
        try await waitUntil("a read of the new value") {
            guard case .found(let entry)? = try? await backend.read(key).outcome else { return false }
            return entry.value == [2]
        }
        let fresh = try PostgreSQLBackend(pair.url)
        guard case .found(let entry) = try await fresh.read(key).outcome else {
            Issue.record("the entry is absent")
            return
        }
        #expect(entry.value == [2])
        _ = try await backend.write([3], to: EntryKey("later"), if: .absent)
        #expect(try await other.read(EntryKey("later")).outcome != .absent)
        let alone = try PostgreSQLBackend(
            "postgres://postgres@/postgres?host=\(pair.primary.folder)&port=\(pair.primary.port)&schema=\(pair.schema)")
        #expect(try await alone.read(key).outcome != .absent, "one host alone has nothing to compare")
    }
}
#endif
