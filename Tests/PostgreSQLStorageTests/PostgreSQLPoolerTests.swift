#if PostgreSQL
import PostgreSQLStorage
import PostgreSQLTestSupport
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("A PostgreSQL store behind a pooler", .serialized)
struct PostgreSQLPoolerTests {
    private let key: EntryKey

    init() throws { key = try EntryKey("k") }

    @Test(
        "refuses one that changes the server's process between transactions, and names the setting",
        .enabled(if: Pooler.isInstalled, "PgBouncer is not installed"), arguments: ["transaction", "statement"])
    func changing(mode: String) async throws {
        let server = try PostgreSQLServer.shared()
        let pooler = try Pooler(before: server, mode: mode)
        for _ in 0..<2 {
            let backend = try PostgreSQLBackend(pooler.url(schema: server.freshSchema()))
            let error = await expectKind(.unsupported) { try await backend.write([1], to: key, if: .any) }
            #expect(error?.disposition == .permanent && error?.message.contains("pool_mode = session") == true)
        }
    }

    @Test(
        "accepts one that keeps it, and refuses it when that changes",
        .enabled(if: Pooler.isInstalled, "PgBouncer is not installed"))
    func keeping() async throws {
        let server = try PostgreSQLServer.shared()
        let pooler = try Pooler(before: server, mode: "session")
        let url = pooler.url(schema: server.freshSchema())
        let backend = try PostgreSQLBackend(url)
        for number in 0..<20 {
            _ = try await backend.write([1], to: EntryKey("k/\(number)"), if: .absent)
        }
        #expect(try await backend.list(prefix: "", after: nil, limit: 100).outcome.items.count == 20)
        #expect(try await backend.changes(since: nil, limit: 100).outcome.changes.count == 20)
        try pooler.reload(mode: "transaction")
        await expectKind(.unsupported) { try await PostgreSQLBackend(url).read(key) }
    }

    @Test(
        "writes durably although another client has changed a setting of the session",
        arguments: [Defects(), .durableBySession])
    func durability(defects: Defects) async throws {
        let store = try TestStore()
        let backend = try store.open { $0.defects = defects }
        _ = try await backend.write([0], to: key, if: .any)
        // The first of two writes leaves the session with another setting, as a stranger's transaction does.
        try store.sql(
            """
            CREATE TABLE @.seen (key bytea, setting text);
            CREATE FUNCTION @.spoil() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF NEW.key = 'spoil' THEN PERFORM set_config('synchronous_commit', 'off', false); END IF;
                INSERT INTO @.seen VALUES (NEW.key, current_setting('synchronous_commit'));
                RETURN NEW;
            END $$;
            CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON @.waiting DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION @.spoil()
            """)
        _ = try await backend.write([1], to: EntryKey("spoil"), if: .any)
        _ = try await backend.write([2], to: key, if: .any)
        #expect(try store.sql("SELECT setting FROM @.seen WHERE key = 'k'") == (defects.isEmpty ? "on" : "off"))
    }
}
#endif
