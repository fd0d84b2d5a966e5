import CurlTransport
import Foundation
import HTTPStorage
import HTTPTypes
import SQLiteStorage
import SyncCore
import SyncProtocol
import TestSupport
import Testing

@Suite("Two servers over one SQLite store", .timeLimit(.minutes(15)))
struct TwoServersTests {
    private static let password = "correct horse"
    private let folder: TemporaryFolder
    private let path: String
    private let transport: CurlClient

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path(of: "store.sqlite")
        transport = try CurlClient()
    }

    /// Starts a server over the shared store.
    private func server(_ options: [String] = []) throws -> ServerProcess {
        // Servers over one store have one name.
        try ServerProcess(store: "sqlite:\(path)", options: ["--name", "http://localhost"] + options)
    }

    private func client(_ server: ServerProcess) throws -> AccountClient {
        try AccountClient(server: server.url, transport: transport)
    }

    /// The error of a request with `token`; `nil` if the server accepts it.
    private func refusal(of token: String, at client: AccountClient) async -> AccountError.Kind? {
        do throws(AccountError) {
            _ = try await client.ownAccount { _ in token }
            return nil
        } catch {
            return error.kind
        }
    }

    /// The time until all of `clients` refuse `token`.
    private func timeUntilRefusal(of token: String, at clients: [AccountClient]) async -> Duration {
        await ContinuousClock().measure {
            for client in clients {
                var refusal: AccountError.Kind?
                while refusal == nil {
                    refusal = await self.refusal(of: token, at: client)
                    await Task.yield()
                }
                #expect(refusal == .sessionOver)
            }
        }
    }

    private func get(_ path: String, at server: ServerProcess) async throws -> (status: Int, text: String) {
        let request = HTTPRequest(
            method: .get, scheme: "http", authority: "127.0.0.1:\(server.port)", path: path)
        let answer = try await transport.send(request, body: [], timeout: Patience.limit, maximumByteCount: 1 << 20)
        return (answer.response.status.code, String(decoding: answer.body, as: UTF8.self))
    }

    /// The bound is two seconds at the server. The client needs time as well.
    private static let bound = Duration.seconds(20)

    @Test("A session that ends at one server, and a removed signing key, are soon refused by both")
    func revocation() async throws {
        let servers = [try server(), try server()]
        let clients = try servers.map(client)
        let session = try await clients[0].signUp("alice", password: Self.password).session
        for client in clients { #expect(await refusal(of: session.accessToken, at: client) == nil) }
        try await clients[0].logOut { _ in session.accessToken }
        let revoked = await timeUntilRefusal(of: session.accessToken, at: clients)
        expectFigure(revoked <= Self.bound)

        let next = try await clients[1].logIn("alice", password: Self.password)
        for client in clients { #expect(await refusal(of: next.accessToken, at: client) == nil) }
        _ = try await SQLiteBackend(path: path).delete(EntryKey("server/keys"), if: .any)
        let removed = await timeUntilRefusal(of: next.accessToken, at: clients)
        expectFigure(removed <= Self.bound)
        let last = try await clients[0].logIn("alice", password: Self.password)
        for client in clients { #expect(await refusal(of: last.accessToken, at: client) == nil) }
        print("refused by both after \(revoked) (session) and \(removed) (signing key)")
    }

    /// The time of the machine, shifted, as `--at` takes it.
    private func time(shifted seconds: Int) -> String {
        Date(timeIntervalSinceNow: Double(seconds)).formatted(.iso8601)
    }

    @Test("A server whose clock is two hours off stops, and the other one writes on and keeps its sessions")
    func clocks() async throws {
        let right = try server()
        let client = try client(right)
        var session = try await client.signUp("alice", password: Self.password).session
        let ahead = try server(["--at", time(shifted: 7_200)])
        while try await get("/readyz", at: ahead).status == 200 { await Task.yield() }
        let error = await #expect(throws: AccountError.self) {
            _ = try await self.client(ahead).refresh(session.refreshToken)
        }
        #expect(error?.kind == .unreachable || error?.kind == .server, "\(error as Any)")
        session = try await client.refresh(session.refreshToken)
        #expect(try await get("/readyz", at: right).status == 200)
        #expect(ahead.log.contains("s ahead of another server over the store"))
        ahead.stop()
        let failure = #expect(throws: ServerProcess.Failure.self) { try server(["--at", time(shifted: -7_200)]) }
        #expect(failure?.description.contains("s behind the latest time in the store") == true)
        session = try await client.refresh(session.refreshToken)
        #expect(await refusal(of: session.accessToken, at: client) == nil)
        #expect(try await get("/metrics", at: right).text.contains("change_feed_age_seconds "))
    }

    @Test("An erasure at one server while the other one writes leaves only the marker")
    func erasure() async throws {
        let servers = [try server(), try server()]
        let clients = try servers.map(client)
        let session = try await clients[0].signUp("alice", password: Self.password).session
        let home = "accounts/alice/\(session.incarnation)/"
        let (url, transport) = (servers[1].url, transport)
        let token: HTTPBackend.Token = { _ throws(BackendError) in session.accessToken }
        let (acknowledgements, acknowledge) = AsyncStream.makeStream(of: Void.self)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 0..<8 {
                group.addTask {
                    let backend = try HTTPBackend(server: url, transport: transport, token: token)
                    var number = 0
                    do throws(BackendError) {
                        while true {
                            _ = try await backend.write([1], to: EntryKey("\(home)\(writer)-\(number)"), if: .absent)
                            acknowledge.yield()
                            number += 1
                        }
                    } catch {
                        #expect(error.kind == .permissionDenied, "only the erasure ends a writer: \(error)")
                    }
                }
            }
            var iterator = acknowledgements.makeAsyncIterator()
            for _ in 0..<100 { await iterator.next() }
            try await clients[0].erase(password: Self.password, token: token)
            try await group.waitForAll()
        }
        let store = SQLiteBackend(path: path)
        let left = try await store.list(prefix: home, after: nil, limit: 1_000).outcome.items.map(\.key.text)
        #expect(left == [home + "ledger"])
        let due = try await store.list(prefix: "server/erasures/", after: nil, limit: 10).outcome.items
        #expect(due.count == 1, "a second sweep is scheduled")
    }
}
