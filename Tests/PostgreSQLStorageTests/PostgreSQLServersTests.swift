#if PostgreSQL
import CurlTransport
import Foundation
import HTTPStorage
import HTTPTypes
import PostgreSQLTestSupport
import SyncProtocol
import TestSupport
import Testing

/// Real `syncd serve` processes.
@Suite("Servers over one PostgreSQL store", .serialized, .timeLimit(.minutes(15)))
struct PostgreSQLServersTests {
    private static let password = "correct horse"
    private let database: PostgreSQLServer
    private let schema: String
    private let transport: CurlClient

    init() throws {
        database = try PostgreSQLServer.shared()
        schema = database.freshSchema()
        transport = try CurlClient()
    }

    /// Starts a server over the store, to which it connects through `port`.
    private func server(through port: Int, _ options: [String] = []) throws -> ServerProcess {
        try ServerProcess(
            store: "postgres://postgres@127.0.0.1:\(port)/postgres?sslmode=disable&schema=\(schema)",
            options: ["--name", "http://localhost"] + options, environment: ["PGPASSWORD": PostgreSQLServer.password])
    }

    /// The status of a request with `token`.
    private func status(_ path: String, _ token: String, at server: ServerProcess) async throws -> Int {
        var request = HTTPRequest(method: .get, scheme: "http", authority: "127.0.0.1:\(server.port)", path: path)
        request.headerFields[.authorization] = "Bearer \(token)"
        // Longer than the server waits for the database.
        let answer = try await transport.send(request, body: [], timeout: Patience.limit, maximumByteCount: 1 << 20)
        return answer.response.status.code
    }

    @Test("One whose clock differs from the database's does not start; the others write on")
    func clocks() async throws {
        let right = try server(through: database.port)
        for (hours, word) in [(2.0, "ahead of"), (-2, "behind")] {
            let time = Date(timeIntervalSinceNow: hours * 3_600).formatted(.iso8601)
            let failure = #expect(throws: ServerProcess.Failure.self) {
                try server(through: database.port, ["--at", time])
            }
            #expect(failure?.description.contains("s \(word) the store's own clock: set it right") == true)
        }
        let client = try AccountClient(server: right.url, transport: transport)
        let session = try await client.signUp("alice", password: Self.password).session
        #expect(try await status("/v1/accounts/self", session.accessToken, at: right) == 200)
        #expect(right.stop() == 0)
    }

    @Test("One that is cut off answers 503, and then refuses what was revoked meanwhile; the others write on")
    func cutOff() async throws {
        let line = try CuttableLine(to: database.port)
        let servers = [try server(through: database.port), try server(through: line.port)]
        let clients = try servers.map { try AccountClient(server: $0.url, transport: transport) }
        let session = try await clients[0].signUp("alice", password: Self.password).session
        let own = "/v1/accounts/self"
        for server in servers { #expect(try await status(own, session.accessToken, at: server) == 200) }

        line.cut()
        try await clients[0].logOut { _ in session.accessToken }
        try await waitUntil("the end of trust") {
            try await status(own, session.accessToken, at: servers[1]) == 503
        }
        #expect(try await status(own, session.accessToken, at: servers[1]) == 503)
        try await waitUntil("not ready") { try await status("/readyz", "", at: servers[1]) == 503 }
        let next = try await clients[0].logIn("alice", password: Self.password)
        #expect(try await status(own, next.accessToken, at: servers[0]) == 200)

        line.mend()
        try await waitUntil("the next contact") {
            let status = try await status(own, session.accessToken, at: servers[1])
            #expect(status == 503 || status == 401)
            return status == 401
        }
        try await waitUntil("readiness") { try await status("/readyz", "", at: servers[1]) == 200 }
        #expect(try await status(own, next.accessToken, at: servers[1]) == 200)
        for server in servers { #expect(server.stop() == 0) }
    }

    @Test("Those whose primary becomes read-only with their connections open go on at the new one, without a restart")
    func switchover() async throws {
        let pair = try await ServerPair()
        let servers = try (0..<2).map { _ in
            try ServerProcess(store: pair.url, options: ["--name", "http://localhost"])
        }
        let clients = try servers.map { try AccountClient(server: $0.url, transport: transport) }
        let session = try await clients[0].signUp("alice", password: Self.password).session
        let own = "/v1/accounts/self"
        for server in servers { #expect(try await status(own, session.accessToken, at: server) == 200) }

        try await pair.retirePrimary()
        for server in servers {
            try await waitUntil("not ready") { try await status("/readyz", "", at: server) == 503 }
            try await waitUntil("a refused read") { try await status(own, session.accessToken, at: server) == 503 }
        }
        try pair.promoteStandby()
        for server in servers {
            try await waitUntil("readiness") { try await status("/readyz", "", at: server) == 200 }
            #expect(try await status(own, session.accessToken, at: server) == 200)
        }
        let next = try await clients[1].logIn("alice", password: Self.password)
        try await clients[0].logOut { _ in session.accessToken }
        try await waitUntil("the end of the session") {
            try await status(own, session.accessToken, at: servers[1]) == 401
        }
        for server in servers {
            #expect(try await status(own, next.accessToken, at: server) == 200)
            #expect(server.stop() == 0)
        }
    }
}
#endif
