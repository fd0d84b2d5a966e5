#if PostgreSQL
import PostgreSQLStorage
import PostgreSQLTestSupport
import Testing

/// A primary with a synchronous standby, and a store on them.
struct ServerPair {
    let primary: PostgreSQLServer
    let standby: PostgreSQLServer
    let schema: String

    init() async throws {
        let primary = try PostgreSQLServer()
        self.primary = primary
        standby = try PostgreSQLServer(standbyOf: primary, name: "second")
        schema = primary.freshSchema()
        try primary.sql("ALTER SYSTEM SET synchronous_standby_names = 'second'")
        try primary.sql("SELECT pg_reload_conf()")
        try await waitUntil("the standby") {
            try primary.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1"
        }
    }

    /// The URL of the store, with both servers as hosts.
    var url: String {
        "postgres://postgres@/postgres?host=\(primary.folder),\(standby.folder)&port=\(primary.port),\(standby.port)"
            + "&schema=\(schema)"
    }

    /// Makes the primary read-only. Its connections stay open.
    func retirePrimary() async throws {
        try primary.sql("ALTER SYSTEM SET default_transaction_read_only = on")
        try primary.sql("SELECT pg_reload_conf()")
        // A server that gives the setting to a new connection has told the others.
        try await waitUntil("the setting") { try primary.sql("SHOW default_transaction_read_only") == "on" }
    }

    /// Promotes the standby, which has all commits of the primary.
    func promoteStandby() throws { try standby.sql("SELECT pg_promote()") }

    /// The number of connections of stores to the former primary that still have to notice.
    func connectionsToFormer() throws -> Int? {
        Int(try primary.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'EntitlementSync'"))
    }
}
#endif
