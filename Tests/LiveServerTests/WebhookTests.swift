import CurlTransport
import Entitlements
import Foundation
import HTTPStorage
import HTTPTypes
import SyncProtocol
import TestSupport
import Testing

/// A server process and a receiver process.
@Suite("Webhooks of a server process", .timeLimit(.minutes(15)))
struct WebhookTests {
    private static let catalog = """
        {"products":[{"id":"month","type":"nonRenewing","group":"nights","duration":"P30D"}],
         "entitlements":[{"id":"nights","grantedBy":["group:nights"]}]}
        """
    private static let secrets = [
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    ]

    private let folder: TemporaryFolder
    private let receiver: WebhookReceiver
    private let transport: CurlClient

    init() throws {
        folder = try TemporaryFolder()
        receiver = try WebhookReceiver(secrets: Self.secrets)
        transport = try CurlClient()
        try Data(Self.catalog.utf8).write(to: URL(filePath: folder.path(of: "catalog.json")))
        try writeSecret(ServerProcess.operatorToken, to: "token")
    }

    private func writeSecret(_ text: String, to name: String) throws {
        let path = folder.path(of: name)
        try Data(text.utf8).write(to: URL(filePath: path))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
    }

    /// Writes the file of webhooks: one for each path of the receiver, named like it.
    private func configure(_ names: [String], secrets: [Int]) throws {
        let keys = secrets.map { "\"\(Self.secrets[$0])\"" }.joined(separator: ",")
        let list = names.map { name in
            let isOpen = name != "refused"
            return """
                {"name":"\(name)","url":"\(isOpen ? "http" : "https")://127.0.0.1:\(receiver.port)/\(name)",
                 "secrets":[\(keys)],"allowPrivateAddresses":\(isOpen)}
                """
        }
        try writeSecret("[\(list.joined(separator: ","))]", to: "webhooks.json")
    }

    private func start(port: Int = 0) throws -> ServerProcess {
        try ServerProcess(
            store: "sqlite:\(folder.path(of: "store.sqlite"))",
            options: [
                "--catalog", folder.path(of: "catalog.json"), "--projection", "--webhooks",
                folder.path(of: "webhooks.json"), "--listen", "127.0.0.1:\(port)", "--name", "https://sync.example.com",
            ])
    }

    private func webhook(_ server: ServerProcess, _ words: String...) throws -> JSON {
        let process = Process()
        let (end, output) = (ProcessEnd(of: process), Pipe.closedOnExec())
        process.executableURL = URL(filePath: BuiltProgram.path(of: "syncd"))
        process.arguments =
            ["webhook"] + words + ["--remote", server.url, "--token-file", folder.path(of: "token"), "--json"]
        process.standardOutput = output
        try process.run()
        let text = output.textToEnd()
        end.wait()
        return try JSON(parsing: Array(text.utf8))
    }

    /// The description of each webhook by its name.
    private func list(_ server: ServerProcess) throws -> [String: JSON] {
        let webhooks = try #require(try webhook(server, "list")["webhooks"]?.elements)
        return Dictionary(webhooks.map { ($0["name"]?.string ?? "", $0) }) { $1 }
    }

    /// Waits until the server delivers to `names`.
    private func waitForStart(_ server: ServerProcess, _ names: [String]) async throws {
        while true {
            let states = try list(server)
            if names.allSatisfy({ states[$0]?["state"]?.string != "new" }) { return }
            await Task.yield()
        }
    }

    private func signUp(_ server: ServerProcess, _ name: String) async throws -> String {
        try await AccountClient(server: server.url, transport: transport).signUp(name, password: "a long password")
            .session.accessToken
    }

    /// Reports a purchase. Returns `false` if the server did not acknowledge it.
    private func buy(_ url: String, _ transaction: String, token: String) async throws -> Bool {
        let body = """
            {"evidence":[{"kind":"reported","product":"month","transaction":"\(transaction)",
              "date":"\(Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000)))"}]}
            """
        let request = HTTPRequest(
            method: .post, scheme: "http", authority: String(url.dropFirst("http://".count)), path: "/v1/transactions",
            headerFields: [.contentType: "application/json", .authorization: "Bearer \(token)"])
        let status: HTTPResponse.Status
        do throws(TransportError) {
            let answer = try await transport.send(
                request, body: Array(body.utf8), timeout: .seconds(20), maximumByteCount: 100_000)
            status = answer.response.status
        } catch {
            return false
        }
        try #require(status != .unauthorized)
        return status == .ok
    }

    @Test("Receivers that fail, redirect, send a gigabyte, are silent or close delay no other one")
    func misbehaviour() async throws {
        let names = ["ok", "fail", "redirect", "huge", "silent", "close", "refused"]
        try configure(names, secrets: [0])
        let server = try start()
        try await waitForStart(server, names)
        for name in ["ann", "bob"] {
            let token = try await signUp(server, name)
            #expect(try await buy(server.url, "t-\(name)", token: token))
        }
        await receiver.wait { receiver in
            receiver.arrivals(at: "/ok").count == 8 && receiver.arrivals(at: "/huge").count == 8
                && receiver.words(after: "HUGE").count == 8
                && ["/fail", "/redirect", "/silent", "/close"].allSatisfy { receiver.arrivals(at: $0).count >= 2 }
        }
        let kinds = ["account.created", "purchase.recorded", "subscription.started", "access.granted"]
        for name in ["ann", "bob"] {
            for path in ["/ok", "/huge"] {
                let own = receiver.arrivals(at: path).filter { $0.account == name }
                #expect(own.map(\.type) == kinds && own.allSatisfy { $0.secrets == "0" }, "\(own)")
                #expect(own.dropFirst().allSatisfy { $0.transaction == "t-\(name)" })
            }
            // The account waits for its first event.
            for path in ["/fail", "/redirect", "/silent", "/close"] {
                let own = receiver.arrivals(at: path).filter { $0.account == name }
                #expect(Set(own.map(\.type)) == ["account.created"] && Set(own.map(\.id)).count == 1, "\(path) \(own)")
            }
        }
        // Buffers of the system are sent, and not the gigabyte.
        #expect(receiver.words(after: "HUGE").allSatisfy { (Int($0) ?? .max) < 32 << 20 })
        #expect(receiver.words(after: "GET").isEmpty && receiver.arrivals(at: "/refused").isEmpty)
        var states = try list(server)
        while !["fail", "redirect", "close", "refused"].allSatisfy({ states[$0]?["state"]?.string == "failing" })
            || states["ok"]?["pending"] != .number(0)
        {
            states = try list(server)
        }
        #expect(states["ok"]?["delivered"] == .number(8) && states["ok"]?["state"] == .string("healthy"))
        #expect(states["fail"]?["error"] == .string("the answer was 500"))
        #expect(states["redirect"]?["error"] == .string("the answer was 302; redirects are not followed"))
        #expect(states["refused"]?["error"] == .string("the host is at 127.0.0.1, which is not public"))
        #expect(states["fail"]?["url"] == .string("http://127.0.0.1:\(receiver.port)"))
        let metrics = try await transport.send(
            HTTPRequest(
                method: .get, scheme: "http", authority: "127.0.0.1:\(server.port)", path: "/metrics",
                headerFields: [.authorization: "Bearer \(ServerProcess.operatorToken)"]), body: [],
            timeout: .seconds(20), maximumByteCount: 1 << 20)
        let text = String(decoding: metrics.body, as: UTF8.self)
        #expect(text.contains("webhook_attempts_total{outcome=\"delivered\",webhook=\"ok\"} 8"), "\(text)")
        #expect(server.stop() == 0, "\(server.log)")
    }

    @Test("Secrets are rotated on SIGHUP, a test event says what happened, and an event can be sent again")
    func acts() async throws {
        try configure(["ok", "fail"], secrets: [0])
        let server = try start()
        try await waitForStart(server, ["ok", "fail"])
        _ = try await signUp(server, "ann")
        await receiver.wait { $0.arrivals(at: "/ok").count == 1 }
        let event = try #require(receiver.arrivals(at: "/ok").first)
        for secrets in [[1, 0], [1]] {
            try configure(["ok", "fail"], secrets: secrets)
            server.reload()
            let expected = secrets.sorted().map { "\($0)" }.joined(separator: ",")
            repeat {
                let result = try webhook(server, "test", "ok")
                #expect(result["delivered"] == .bool(true) && result["error"] == .null)
            } while receiver.arrivals(at: "/ok").last?.secrets != expected
        }
        #expect(receiver.arrivals(at: "/ok").last?.type == "webhook.test")
        let failure = try webhook(server, "test", "fail")
        #expect(failure["delivered"] == .bool(false) && failure["error"] == .string("the answer was 500"))
        #expect(try webhook(server, "send", "ok", "--event", event.id)["events"] == .number(1))
        await receiver.wait { $0.arrivals(at: "/ok").filter { $0.id == event.id }.count == 2 }
        #expect(try webhook(server, "send", "ok", "--dead-letters")["events"] == .number(0))
        // A wrong file changes nothing.
        try writeSecret("[{}]", to: "webhooks.json")
        server.reload()
        while !server.log.contains("webhooks.json: [0].name: this is missing") { await Task.yield() }
        #expect(try webhook(server, "test", "ok")["delivered"] == .bool(true))
        #expect(!server.log.contains("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
        #expect(server.stop() == 0, "\(server.log)")
    }

    @Test("Every event arrives, in order for each account, after kill -9 in the middle; doubles have the same id")
    func killing() async throws {
        let (rounds, accounts, purchases) = (Soak.isLong ? 12 : 1, 4, Soak.isLong ? 150 : 12)
        try configure(["ok"], secrets: [0, 1])
        var server = try start()
        let (url, port) = (server.url, server.port)
        try await waitForStart(server, ["ok"])
        var tokens: [String] = []
        for number in 0..<accounts { tokens.append(try await signUp(server, "u\(number)")) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (number, token) in tokens.enumerated() {
                group.addTask {
                    for purchase in 0..<purchases {
                        while try await !buy(url, "u\(number)-\(1_000 + purchase)", token: token) { await Task.yield() }
                    }
                }
            }
            for round in 0..<rounds {
                let count = accounts * purchases * (round + 1) / (rounds + 1)
                await receiver.wait { Set($0.arrivals.map(\.id)).count >= count }
                #expect(server.kill() == -SIGKILL)
                server = try start(port: port)
            }
            try await group.waitForAll()
        }
        await receiver.wait { receiver in
            Set(receiver.arrivals.filter { $0.type == "purchase.recorded" }.map(\.id)).count == accounts * purchases
        }
        while try list(server)["ok"]?["oldest"] != .null { await Task.yield() }
        let arrivals = receiver.arrivals
        #expect(arrivals.allSatisfy { $0.secrets == "0,1" })
        // The ids of the outbox have no gaps, so nothing is missing.
        let numbers = Set(arrivals.compactMap(\.number))
        #expect(numbers == Set(1...(numbers.max() ?? 1)))
        #expect(Set(arrivals.map(\.id)).count == numbers.count)
        for number in 0..<accounts {
            var first: [WebhookReceiver.Arrival] = []
            for arrival in arrivals where arrival.account == "u\(number)" {
                if !first.contains(where: { $0.id == arrival.id }) { first.append(arrival) }
            }
            let order = first.compactMap(\.number)
            #expect(order == order.sorted() && first.first?.type == "account.created")
            let bought = first.filter { $0.type == "purchase.recorded" }.map(\.transaction)
            #expect(bought == (0..<purchases).map { "u\(number)-\(1_000 + $0)" })
        }
        print("\(rounds) kills, \(numbers.count) events, \(arrivals.count - numbers.count) doubles")
        #expect(server.stop() == 0, "\(server.log)")
    }
}
