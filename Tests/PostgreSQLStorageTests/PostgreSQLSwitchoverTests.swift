#if PostgreSQL
import PostgreSQLStorage
import PostgreSQLTestSupport
import SyncCore
import TestSupport
import Testing

/// Real servers. The former primary runs on, as after the switchover of a managed service.
@Suite("A PostgreSQL store whose primary becomes read-only with its connections open", .serialized)
struct PostgreSQLSwitchoverTests {
    private let key: EntryKey

    init() throws { key = try EntryKey("k") }

    /// Reads the key several times at once, so that each connection that reads is used.
    private func readAtOnce(_ backend: PostgreSQLBackend) async throws -> [[UInt8]?] {
        try await withThrowingTaskGroup(of: [UInt8]?.self) { group in
            for _ in 0..<32 {
                group.addTask {
                    guard case .found(let entry) = try await backend.read(key).outcome else { return nil }
                    return entry.value
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }

    @Test(
        "reads nothing there, and goes on at the new primary",
        arguments: [false, true])
    func switchover(asksForRole: Bool) async throws {
        let pair = try await ServerPair()
        var configuration = try PostgreSQLBackend.Configuration(pair.url)
        configuration.asksForRole = asksForRole
        let backend = PostgreSQLBackend(configuration)
        let written = try await backend.write([1], to: key, if: .absent).outcome
        guard case .written(let version) = written else {
            Issue.record("\(written)")
            return
        }
        #expect(try await readAtOnce(backend) == Array(repeating: [1], count: 32))
        let cursor = try await backend.latestCursor().outcome

        try await pair.retirePrimary()
        for _ in 0..<4 {
            let refused = await expectKind(.unavailable) { try await backend.read(key) }
            #expect(refused?.disposition == .transient && refused?.message.contains("accepts no writes") == true)
        }
        await expectKind(.unavailable) { try await backend.list(prefix: "", after: nil, limit: 1) }
        await expectKind(.unavailable) { try await backend.changes(since: cursor, limit: 1) }
        let write = await expectKind(.unavailable) { try await backend.write([9], to: key, if: .matches(version)) }
        #expect(write?.disposition == .transient)

        try pair.promoteStandby()
        let other = try PostgreSQLBackend(pair.standby.url(schema: pair.schema))
        _ = try await other.write([2], to: key, if: .matches(version))
        #expect(try await readAtOnce(backend) == Array(repeating: [2], count: 32))
        let page = try await backend.changes(since: cursor, limit: 10).outcome
        #expect(page.changes.map(\.key) == [key])
        _ = try await backend.write([3], to: EntryKey("later"), if: .absent)
        #expect(
            try await other.list(prefix: "", after: nil, limit: 10).outcome.items.map(\.key.text) == ["k", "later"])
        #expect(try pair.primary.sql("SELECT count(*) FROM \(pair.schema).entry") == "1")
    }

    @Test("refuses a read if the server does not answer the question whether it accepts writes")
    func unanswered() async throws {
        let server = try PostgreSQLServer()
        let schema = server.freshSchema()
        _ = try await PostgreSQLBackend(server.url(schema: schema)).write([1], to: key, if: .absent)
        try server.sql(
            """
            CREATE ROLE app LOGIN;
            GRANT USAGE ON SCHEMA \(schema) TO app;
            GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \(schema) TO app
            """)
        var configuration = try PostgreSQLBackend.Configuration(server.url(schema: schema, user: "app"))
        configuration.asksForRole = true
        let backend = PostgreSQLBackend(configuration)
        #expect(try await readAtOnce(backend) == Array(repeating: [1], count: 32))
        // The question fails, and the read before it succeeds.
        try server.sql("REVOKE EXECUTE ON FUNCTION pg_catalog.current_setting(text) FROM PUBLIC")
        await expectKind(.permissionDenied) { try await backend.read(key) }
        withExtendedLifetime(server) {}
    }

    @Test("repeats a read or a write that meets it, if the new primary already works")
    func repeated() async throws {
        let pair = try await ServerPair()
        let backends = try (0..<2).map { _ in try PostgreSQLBackend(pair.url) }
        for (number, backend) in backends.enumerated() {
            _ = try await backend.write([1], to: EntryKey("\(number)"), if: .absent)
            _ = try await backend.read(key)
        }
        #expect(try pair.connectionsToFormer() != 0)
        try await pair.retirePrimary()
        try pair.promoteStandby()
        #expect(try await backends[0].read(EntryKey("1")).outcome != .absent)
        _ = try await backends[0].write([2], to: EntryKey("0"), if: .any)
        // Several writes of one transaction, and deletions, which may only read.
        let requests = try ["0", "1", "2"].map { WriteRequest(try EntryKey($0), value: [3], if: .any) }
        for result in try await backends[1].write(requests).outcome { _ = try result.get() }
        #expect(try await backends[1].delete(key, if: .absent).outcome == .deleted)
        #expect(try pair.primary.sql("SELECT count(*) FROM \(pair.schema).entry WHERE value = '\\x01'") == "2")
        #expect(try pair.standby.sql("SELECT count(*) FROM \(pair.schema).entry WHERE value = '\\x03'") == "3")
    }
}
#endif
