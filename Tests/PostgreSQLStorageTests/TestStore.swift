#if PostgreSQL
import Foundation
import PostgreSQLStorage
import PostgreSQLTestSupport
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

/// A store in a schema of its own on the server that the tests share.
struct TestStore {
    let server: PostgreSQLServer
    let schema: String

    init(on server: PostgreSQLServer? = nil) throws {
        let server = if let server { server } else { try PostgreSQLServer.shared() }
        (self.server, schema) = (server, server.freshSchema())
    }

    var url: String { server.url(schema: schema) }

    /// Opens the store.
    func open(
        user: String = "postgres", _ change: (inout PostgreSQLBackend.Configuration) -> Void = { _ in }
    ) throws -> PostgreSQLBackend {
        var configuration = try PostgreSQLBackend.Configuration(server.url(schema: schema, user: user))
        configuration.maximumValueByteCount = 1 << 21
        change(&configuration)
        return PostgreSQLBackend(configuration)
    }

    /// Runs SQL, with `@` for the schema.
    @discardableResult
    func sql(_ text: String) throws -> String {
        try server.sql(text.replacingOccurrences(of: "@", with: schema))
    }

    /// Locks the rows of all entries, until ``releaseRows()``.
    func holdRows() async throws -> ProcessEnd {
        let holder = try server.startSQL(
            "BEGIN; UPDATE \(schema).entry SET version = version; SELECT pg_sleep(300) AS \"\(schema)\"")
        try await waitUntil("the locks of the rows") {
            try sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND \(Self.isHolder)") != "0"
        }
        return holder
    }

    func releaseRows() throws {
        try sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE \(Self.isHolder)")
    }

    private static let isHolder = "pid <> pg_backend_pid() AND query LIKE '%pg_sleep(300) AS \"@%'"

    func remove() throws { try sql("DROP SCHEMA IF EXISTS @ CASCADE") }

    func dump() throws -> String { try server.dump(schema: schema) }

    func restore(_ file: String) throws { try server.restore(file, schema: schema) }

    /// The command line of a process that writes to the store.
    func writer(_ assignment: String) -> CrashTrial.Command {
        CrashTrial.Command(
            BuiltProgram.path(of: "StoreProbe"), ["write", "\(url)&application_name=\(schema)", assignment])
    }

    /// Opens the store when the server has ended the transactions of the killed writers. Until then it may commit what
    /// they had sent.
    func openAfterKill(
        _ change: (inout PostgreSQLBackend.Configuration) -> Void = { _ in }
    ) async throws -> PostgreSQLBackend {
        try await waitUntil("the end of the writers' connections") {
            try sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = '@'") == "0"
        }
        return try open(change)
    }

    /// The store with all operations that the conformance checks use.
    func underTest(
        _ change: @escaping @Sendable (inout PostgreSQLBackend.Configuration) -> Void = { _ in }
    ) throws -> StoreUnderTest {
        let store = self
        return StoreUnderTest(
            try open(change), reopen: { try store.open(change) }, failing: { try await store.openFailing(change) },
            wipe: {
                try store.remove()
                return try store.open(change)
            },
            backup: {
                let file = try store.dump()
                return {
                    try store.restore(file)
                    return try store.open(change)
                }
            },
            kill: { seed in
                try await CrashTrial.run(
                    rounds: 5, seed: seed, command: { store.writer($0) },
                    reopen: { try await store.openAfterKill(change) })
            },
            lives: {
                var histories = [try await CrashTrial.history { store.writer($0) }]
                let file = try store.dump()
                histories.append(try await CrashTrial.history { store.writer($0) })
                try store.restore(file)
                histories.append(try await CrashTrial.history { store.writer($0) })
                try store.remove()
                histories.append(try await CrashTrial.history { store.writer($0) })
                return histories
            })
    }

    /// Opens the store as a user for whom the server often fails: it refuses statements and commits, and ends
    /// connections before, during and after them.
    private func openFailing(
        _ change: (inout PostgreSQLBackend.Configuration) -> Void
    ) async throws -> PostgreSQLBackend {
        let user = "failing_\(schema)"
        // Creates the tables.
        _ = try await open().latestCursor()
        try sql(
            """
            CREATE ROLE \(user) LOGIN;
            GRANT USAGE ON SCHEMA @ TO \(user);
            GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA @ TO \(user);
            CREATE FUNCTION @.fail(share float) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
            BEGIN
                IF random() < share THEN
                    IF random() < 0.5 THEN RAISE 'chance' USING ERRCODE = '40001'; END IF;
                    PERFORM pg_terminate_backend(pg_backend_pid());
                    PERFORM pg_sleep(0.01);
                END IF;
                RETURN true;
            END $$;
            CREATE FUNCTION @.fail_for_user() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF current_user LIKE 'failing_%' THEN PERFORM @.fail(0.1); END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER before_write BEFORE INSERT OR UPDATE ON @.entry
                FOR EACH ROW EXECUTE FUNCTION @.fail_for_user();
            CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT OR UPDATE ON @.entry DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION @.fail_for_user();
            ALTER TABLE @.entry ENABLE ROW LEVEL SECURITY;
            CREATE POLICY failing ON @.entry FOR SELECT TO \(user) USING (@.fail(0.05));
            CREATE POLICY failing_inserts ON @.entry FOR INSERT TO \(user) WITH CHECK (true);
            CREATE POLICY failing_updates ON @.entry FOR UPDATE TO \(user) USING (true) WITH CHECK (true);
            """)
        return try open(user: user, change)
    }
}
#endif
