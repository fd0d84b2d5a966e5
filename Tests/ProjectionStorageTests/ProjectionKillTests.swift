import CurlTransport
import Entitlements
import Foundation
import HTTPStorage
import HTTPTypes
import PostgreSQLTestSupport
import ProjectionStorage
import SQLiteStorage
import SyncCore
import SyncCoreTesting
import SyncProtocol
import Synchronization
import TestSupport
import Testing

@testable import SyncService

#if PostgreSQL
import PostgreSQLStorage
#endif

/// Servers over one store that project it, and clients that buy.
private final class KilledServers: Sendable {
    /// The products that clients buy: time that ends within a second, time that stays, and ownership.
    static let catalogue = Array(
        """
        {"products":[{"id":"blink","type":"nonRenewing","group":"short","duration":"PT1S"},
          {"id":"month","type":"nonRenewing","group":"nights","duration":"P30D"},
          {"id":"owl","type":"nonConsumable"}],
         "entitlements":[{"id":"nights","grantedBy":["group:nights"]},{"id":"owl","grantedBy":["product:owl"]},
          {"id":"short","grantedBy":["group:short"]}]}
        """.utf8)
    private static let clientCount = 8
    /// The number of purchases after which a client goes on with another account.
    private static let accountSize = 200

    /// The transactions that were answered with 200, by account.
    struct Progress {
        var acknowledged: [String: Set<String>] = [:]
        var isOver = false
        var count: Int { acknowledged.values.reduce(0) { $0 + $1.count } }
    }

    let store: any KeyValueBackend
    let database: any ProjectionDatabase
    let progress = Mutex(Progress())
    private let servers: Mutex<[ServerProcess]>
    private let url: String
    private let options: [String]
    private let ports: [Int]
    private let transport: CurlClient
    private let folder: TemporaryFolder

    init(_ kind: DatabaseKind) throws {
        folder = try TemporaryFolder()
        let catalog = folder.path(of: "catalog.json")
        try Data(Self.catalogue).write(to: URL(filePath: catalog))
        // Without a name, tokens would end with the first process.
        options = [
            "--name", "http://127.0.0.1", "--catalog", catalog, "--projection", "--log-level", "error", "--limit",
            "account-writes=none", "--limit", "sign-ups=none",
        ]
        var count = 1
        switch kind {
        case .sqlite:
            let path = folder.path(of: "store.sqlite")
            (url, store) = ("sqlite:\(path)", SQLiteBackend(path: path, creating: .never))
            database = try SQLiteProjection(path: folder.path(of: "store.projection.sqlite"))
        #if PostgreSQL
        case .postgreSQL:
            count = 3
            let server = try PostgreSQLServer.shared()
            url = server.url(schema: server.freshSchema())
            let configuration = try PostgreSQLBackend.Configuration(url)
            store = PostgreSQLBackend(configuration)
            database = PostgreSQLProjection(configuration)
        #endif
        }
        transport = try CurlClient()
        let (url, options) = (url, options)
        let started = try (0..<count).map { _ in try ServerProcess(store: url, options: options) }
        ports = started.map(\.port)
        servers = Mutex(started)
    }

    /// Lets clients buy, and kills a random server after each `pace` purchases, until `duration` has passed.
    func run(for duration: Duration, pace: Int, using random: inout some RandomNumberGenerator) async throws -> Int {
        let (acknowledgements, acknowledge) = AsyncStream.makeStream(of: Void.self)
        var kills = 0
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<Self.clientCount {
                group.addTask {
                    // Also after an error, so that the killing ends.
                    defer { acknowledge.finish() }
                    var round = 0
                    while !self.progress.withLock({ $0.isOver }) {
                        round += 1
                        // A sign-up without an answer may have created the account, which then buys nothing.
                        let name = "client\(number)-\(round)"
                        guard let token = try? await self.signUp(name, at: number + round) else { continue }
                        try await self.buy(as: name, token, number) { acknowledge.yield() }
                    }
                }
            }
            var iterator = acknowledgements.makeAsyncIterator()
            let end = ContinuousClock.now + duration
            killing: while ContinuousClock.now < end {
                for _ in 0..<pace {
                    guard await iterator.next() != nil else { break killing }
                }
                try restart(Int.random(in: 0..<ports.count, using: &random))
                kills += 1
            }
            progress.withLock { $0.isOver = true }
            try await group.waitForAll()
        }
        return kills
    }

    /// Kills a server, and starts it again.
    private func restart(_ index: Int) throws {
        let server = servers.withLock { $0[index] }
        #expect(server.kill() == -SIGKILL)
        let next = try ServerProcess(store: url, options: options + ["--listen", "127.0.0.1:\(ports[index])"])
        servers.withLock { $0[index] = next }
    }

    func stop() { for server in servers.withLock({ $0 }) { #expect(server.stop() == 0) } }

    /// Waits until a query of the projection answers `value`.
    func wait(for sql: String, _ value: Int) async throws {
        let end = ContinuousClock.now + Patience.limit
        while true {
            // The servers may not have created the tables yet.
            let answer = (try? await database.read([SQLStatement(sql)]))?[0][0][0].integer
            if answer == Int64(value) { return }
            guard ContinuousClock.now < end else {
                Issue.record("\(sql) answers \(answer ?? -1), not \(value)")
                return
            }
            await Task.yield()
        }
    }

    // MARK: clients

    private func signUp(_ name: String, at turn: Int) async throws -> String {
        let client = try AccountClient(server: "http://127.0.0.1:\(ports[turn % ports.count])", transport: transport)
        return try await client.signUp(name, password: "correct horse battery").session.accessToken
    }

    /// Buys for a while. A purchase is repeated, at another server, until it is answered.
    private func buy(as name: String, _ token: String, _ number: Int, onAnswer: () -> Void) async throws {
        var (turn, count) = (number, 0)
        while count < Self.accountSize, count < 3 || !progress.withLock({ $0.isOver }) {
            let (id, product) = ("\(name)-\(count)", count % 40 == 2 ? "blink" : ["owl", "month"][count % 2])
            let item = """
                {"evidence":[{"kind":"reported","product":"\(product)","transaction":"\(id)",\
                "date":"\(Timestamp(milliseconds: HostServices.system.now()))"}]}
                """
            while true {
                turn += 1
                let status = try? await send(item, token, to: ports[turn % ports.count])
                if status == 200 { break }
                if let status, ![429, 500, 502, 503].contains(status) {
                    throw BackendError(.other, message: "a purchase was answered with \(status)")
                }
                await Task.yield()
            }
            progress.withLock { _ = $0.acknowledged[name, default: []].insert(id) }
            count += 1
            onAnswer()
        }
    }

    private func send(_ text: String, _ token: String, to port: Int) async throws -> Int {
        var request = HTTPRequest(
            method: .post, scheme: "http", authority: "127.0.0.1:\(port)", path: "/v1/transactions")
        request.headerFields[.authorization] = "Bearer \(token)"
        request.headerFields[.contentType] = "application/json"
        return try await transport.send(
            request, body: Array(text.utf8), timeout: Patience.limit, maximumByteCount: 1 << 20
        ).response.status.code
    }
}

@Suite("Servers that are killed while they project", .timeLimit(.minutes(30)))
struct ProjectionKillTests {
    @Test("Rows equal a fresh rebuild, and each transition has its events once", arguments: DatabaseKind.allCases)
    func killing(kind: DatabaseKind) async throws {
        let servers = try KilledServers(kind)
        var random = SystemRandomNumberGenerator()
        // Accounts that the first rebuild finds give no events.
        try await servers.wait(for: "SELECT count(*) FROM state WHERE catalogue IS NOT NULL", 1)
        let began = ContinuousClock.now
        let kills = try await servers.run(
            for: .seconds(Soak.isLong ? 300 : 3), pace: Soak.isLong ? 400 : 60, using: &random)
        let elapsed = (ContinuousClock.now - began) / .seconds(1)
        let progress = servers.progress.withLock { $0 }
        // A server that was killed in the end may hold the lease for a while. Then the last time ends.
        try await servers.wait(for: "SELECT count(*) FROM purchases", progress.count)
        try await servers.wait(
            for: "SELECT count(*) FROM subscriptions WHERE product_group = 'short' AND active = 1", 0)
        servers.stop()
        let text = String(format: "%d purchases, %.0f a second", progress.count, Double(progress.count) / elapsed)
        print("\(kind.rawValue): \(kills) servers killed, \(text)")
        let events = try await check(servers.database, progress)
        try await compare(servers, kind)
        print("\(kind.rawValue): \(events) events")
    }

    /// Checks the events: ids without gaps, each purchase once, and for each account a chain of states.
    private func check(_ database: any ProjectionDatabase, _ progress: KilledServers.Progress) async throws -> Int {
        let rows = try await database.read([SQLStatement("SELECT id, account, kind, body FROM events ORDER BY id")])[0]
        #expect(rows.map { $0[0].integer } == (0..<rows.count).map { Int64($0 + 1) })
        var recorded: [String: [String]] = [:]
        var kinds: [String: [String]] = [:]
        var access: [String: JSON] = [:]
        for row in rows {
            let (account, kind) = (row[1].text ?? "", row[2].text ?? "")
            let body = try JSON(parsing: Array((row[3].text ?? "").utf8))
            let (before, after) = (body["entitlementsBefore"] ?? .null, body["entitlements"] ?? .null)
            kinds[account, default: []].append(kind)
            // The events of one transition have the same states, and after many of them none.
            let known = access[account] ?? .array([])
            #expect(before == known || after == known || after == .null, "\(account) \(kind)")
            if after != .null { access[account] = after }
            let purchase = body["purchase"] ?? body["facts"]?.elements?.first
            if kind == "purchase.recorded", let id = purchase?["transaction"]?.string {
                recorded[account, default: []].append(id)
            }
        }
        for (account, ids) in progress.acknowledged {
            #expect(recorded[account]?.count == ids.count && Set(recorded[account] ?? []) == ids, "\(account)")
            #expect(kinds[account]?.first == "account.created")
            #expect(kinds[account]?.count { $0 == "account.created" } == 1)
            // Access to what ends alternates.
            let granted = kinds[account]?.count { $0 == "access.granted" } ?? 0
            let revoked = kinds[account]?.count { $0 == "access.revoked" } ?? 0
            // Two entitlements stay granted.
            #expect(granted == revoked + 2, "\(account)")
        }
        return rows.count
    }

    private func compare(_ servers: KilledServers, _ kind: DatabaseKind) async throws {
        let folder = try TemporaryFolder()
        let fresh = try ProjectionStage.database(kind, folder)
        let projector = Projector(
            servers.store, into: fresh, catalog: try Catalog(json: KilledServers.catalogue),
            json: KilledServers.catalogue, host: .system
        ) { Issue.record("\($0)") }
        // The servers have given their lease up.
        var lease = ProjectorLease(servers.store, host: .system)
        try await projector.project(&lease)
        let (content, expected) = (
            try await ProjectionStage.content(of: servers.database), try await ProjectionStage.content(of: fresh)
        )
        for (table, rows) in expected.sorted(by: { $0.key < $1.key }) {
            #expect(content[table] == rows, "\(table)")
        }
        #expect(expected["purchases"]?.isEmpty == false)
    }
}
