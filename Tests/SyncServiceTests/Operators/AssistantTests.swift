import Entitlements
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Testing

@testable import SyncService

@Suite("Tools for assistants")
struct AssistantTests {
    private let store = MemoryBackend()
    private let clock = TestClock(1_800_000_000_000)
    private let service: EntitlementService
    private let tokens: OperatorTokens
    private let token: String

    init() async throws {
        service = try await .open(
            store, clock: clock, configure: { $0.catalog = try? Catalog(json: Array(EvidenceStage.catalog.utf8)) })
        tokens = OperatorTokens(store, host: clock.host)
        for name in ["alice", "bob"] { try #require(await AccountOwner(service, name).signUp().status == 201) }
        token = try await tokens.create("helpdesk", scope: .support, expires: nil).text
    }

    private func send(_ text: String, token: String? = nil, _ fields: [String: String] = [:]) async -> Reply {
        var head: HTTPFields = [.contentType: "application/json"]
        for (name, value) in fields { if let name = HTTPField.Name(name) { head[name] = value } }
        return await service.ask(.post, "/mcp", token: token ?? self.token, head, body: Array(text.utf8))
    }

    private func error(_ reply: Reply) throws -> (code: Int64, message: String) {
        let error = try JSON(parsing: reply.body)["error"]
        guard case .number(let code)? = error?["code"] else { return (0, String(decoding: reply.body, as: UTF8.self)) }
        return (code, error?["message"]?.string ?? "")
    }

    /// The text and the content of a tool's result.
    private func call(
        _ tool: String, _ arguments: [String: JSON], token: String? = nil
    ) async throws -> (text: String, content: JSON) {
        let params = JSON.object(["name": .string(tool), "arguments": .object(arguments)])
        let message = JSON.object([
            "jsonrpc": .string("2.0"), "id": .number(1), "method": .string("tools/call"),
            "params": params,
        ])
        let reply = await send(message.line, token: token)
        let result = try #require(try JSON(parsing: reply.body)["result"], "\(reply)")
        let text = try #require(result["content"]?.elements?.first?["text"]?.string)
        #expect((result["isError"] == .bool(true)) == (result["structuredContent"] == nil))
        return (text, result["structuredContent"] ?? .null)
    }

    @Test(
        "A message that is none is refused with the code of JSON-RPC",
        arguments: [
            ("{", 400, -32_700, "line 1, column 2"), ("", 400, -32_700, "the text ends"),
            ("[]", 400, -32_600, "batches are not supported"), ("7", 400, -32_600, "must be an object, not a number"),
            (#"{"id": 1, "method": "ping"}"#, 400, -32_600, "jsonrpc must be"),
            (#"{"jsonrpc": "2.0", "id": 1}"#, 400, -32_600, "method is required"),
            (#"{"jsonrpc": "2.0", "id": null, "method": "ping"}"#, 400, -32_600, "id must be a text or a number"),
            (#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}"#, 400, -32_600, "params must be an object"),
            (#"{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}"#, 200, -32_601, "unknown method"),
            (#"{"jsonrpc": "2.0", "id": 1, "method": "initialize"}"#, 200, -32_602, "protocolVersion is required"),
            (#"{"jsonrpc": "2.0", "id": 1, "method": "server/discover"}"#, 200, -32_601, "unknown method"),
            (#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}"#, 200, -32_602, "name is required"),
            (
                #"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}"#, 200, -32_602,
                "unknown tool \"x\""
            ),
        ] as [(String, Int, Int64, String)])
    func malformed(text: String, status: Int, code: Int64, message: String) async throws {
        let reply = await send(text)
        let found = try error(reply)
        #expect(reply.status == status && found.code == code && found.message.contains(message), "\(found)")
    }

    @Test("A message longer than 1 MiB is refused; notifications and responses are accepted without an answer")
    func lengthsAndNotifications() async throws {
        let start = #"{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": ""#
        let fits = start + String(repeating: "y", count: RPCMessage.byteCount - start.utf8.count - 3) + #""}}"#
        #expect(fits.utf8.count == RPCMessage.byteCount)
        #expect(await send(fits).status == 200)
        let long = await send(fits + " ")
        #expect(try long.status == 400 && error(long).message.contains("at most 1048576 bytes, not 1048577"))
        for silent in [
            #"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#,
            #"{"jsonrpc": "2.0", "id": 1, "result": {}}"#,
        ] {
            let reply = await send(silent)
            #expect(reply.status == 202 && reply.body.isEmpty)
        }
    }

    @Test("The revision of a handshake is the client's if the server knows it, else the server's latest")
    func negotiation() async throws {
        for (asked, agreed) in [
            ("2025-03-26", "2025-03-26"), ("2025-06-18", "2025-06-18"), ("2025-11-25", "2025-11-25"),
            ("2024-11-05", "2025-11-25"), ("2099-01-01", "2025-11-25"),
        ] {
            let reply = await send(
                #"{"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": {"protocolVersion": "\#(asked)"}}"#)
            let answer = try JSON(parsing: reply.body)
            #expect(answer["id"] == .string("a") && answer["result"]?["protocolVersion"]?.string == agreed)
        }
        let ping = #"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#
        #expect(await send(ping, ["MCP-Protocol-Version": "2025-06-18"]).status == 200)
        let unknown = await send(ping, ["MCP-Protocol-Version": "1999-01-01"])
        #expect(try unknown.status == 400 && error(unknown).code == -32_022)
    }

    @Test("Without a handshake, a request states its revision and capabilities, and its header fields repeat them")
    func stateless() async throws {
        func message(
            _ version: String, _ capabilities: String = #", "\#("io.modelcontextprotocol/clientCapabilities")": {}"#
        ) -> String {
            #"{"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": "#
                + #"{"io.modelcontextprotocol/protocolVersion": "\#(version)"\#(capabilities)}}}"#
        }
        func fields(_ version: String) -> [String: String] {
            ["MCP-Protocol-Version": version, "Mcp-Method": "server/discover"]
        }
        let known = "2026-07-28"
        let answer = await send(message(known), fields(known))
        let result = try JSON(parsing: answer.body)["result"]
        #expect(answer.status == 200 && result?["supportedVersions"]?.elements?.first?.string == known)
        #expect(result?["resultType"]?.string == "complete" && result?["cacheScope"]?.string == "private")
        let mute = await send(message(known))
        #expect(
            try mute.status == 400
                && error(mute) == (-32_020, "the header MCP-Protocol-Version must repeat the value in the message"))
        let other = await send(message(known), fields(known).merging(["Mcp-Method": "ping"]) { $1 })
        #expect(try other.status == 400 && error(other).code == -32_020)
        let incapable = await send(message(known, ""), fields(known))
        #expect(try incapable.status == 400 && error(incapable).code == -32_602)
        let later = await send(message("2099-01-01"), fields("2099-01-01"))
        #expect(try later.status == 400 && error(later).code == -32_022)
    }

    @Test("Pages of other origins are refused, and those of permitted ones may send the header fields of the protocol")
    func origins() async throws {
        let preflight: HTTPFields = [.origin: "https://a.example", .accessControlRequestMethod: "POST"]
        let allowed = await service.ask(.options, "/mcp", preflight).fields[.accessControlAllowHeaders] ?? ""
        for name in ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"] { #expect(allowed.contains(name), "\(name)") }
        let ping = #"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#
        #expect(await send(ping, ["Origin": "https://evil.example"]).status == 403)
        #expect(await send(ping, ["Origin": service.configuration.name]).status == 200)
    }

    @Test("Each tool has a schema, and the acts are listed for the scope support only")
    func list() async throws {
        let read = try await tokens.create("reader", scope: .read, expires: nil).text
        let list = #"{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}"#
        func names(_ token: String) async throws -> [String] {
            let tools = try JSON(parsing: await send(list, token: token).body)["result"]?["tools"]?.elements ?? []
            for tool in tools {
                for schema in ["inputSchema", "outputSchema"] { #expect(tool[schema]?["type"]?.string == "object") }
            }
            return tools.compactMap { $0["name"]?.string }
        }
        #expect(try await names(read) == AssistantTool.questions.map(\.name))
        #expect(try await names(token) == AssistantTool.all.map(\.name))
        for act in AssistantTool.acts {
            let reply = await send(
                #"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "\#(act.name)"}}"#,
                token: read)
            #expect(try error(reply).message.contains("needs a token with the scope \"support\""))
        }
    }

    private static let gift: [String: JSON] = [
        "account": .string("alice"), "entitlement": .string("nights"), "for": .string("P1M"), "reason": .string("r"),
    ]

    private func confirmed(_ arguments: [String: JSON], _ confirmation: String) -> [String: JSON] {
        arguments.merging(["confirmation": .string(confirmation)]) { $1 }
    }

    /// The entries of the audit list, but for those of tokens.
    private func acts() async throws -> [AuditLog.Entry] {
        try await AuditLog(store: store).entries().filter { $0.act != "token" }
    }

    @Test("A dry run writes nothing; its confirmation acts once, and tells a repetition")
    func confirmation() async throws {
        let before = try await store.list(prefix: "server/", after: nil, limit: 1_000).outcome.items
        let trial = try await call("grant_access", Self.gift)
        #expect(try await store.list(prefix: "server/", after: nil, limit: 1_000).outcome.items == before)
        let confirmation = try #require(trial.content["confirmation"]?.string, "\(trial.text)")
        let done = try await call("grant_access", confirmed(Self.gift, confirmation))
        #expect(done.content["dryRun"] == .bool(false) && done.content["repeated"] == .bool(false), "\(done.text)")
        clock.advance(seconds: 599)
        let again = try await call("grant_access", confirmed(Self.gift, confirmation))
        #expect(again.content["repeated"] == .bool(true) && again.content["entry"] == done.content["entry"])
        #expect(try await acts().map(\.act) == ["grant"])
        clock.advance(seconds: 1)
        let late = try await call("grant_access", confirmed(Self.gift, confirmation))
        #expect(late.content["repeated"] == .bool(true) && late.content["entry"] == done.content["entry"])
        #expect(try await acts().map(\.act) == ["grant"])
    }

    @Test("A confirmation that is used by several calls at once acts once")
    func concurrentCalls() async throws {
        let text = try #require(try await call("grant_access", Self.gift).content["confirmation"]?.string)
        let entries = try await withThrowingTaskGroup(of: JSON.self) { group in
            for _ in 0..<8 {
                group.addTask { try await call("grant_access", confirmed(Self.gift, text)).content["entry"] ?? .null }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(entries.count == 8 && entries.allSatisfy { $0 == entries[0] })
        #expect(try await acts().map(\.act) == ["grant"])
    }

    @Test("A confirmation is refused after its end, for other arguments, with another token and after a change")
    func refusedConfirmations() async throws {
        let trial = try await call("grant_access", Self.gift)
        let text = try #require(trial.content["confirmation"]?.string)
        let other = try await tokens.create("night-shift", scope: .support, expires: nil).text
        let wrong = "belongs to another act, customer, argument, reason or token"
        for (name, value) in [("account", "bob"), ("for", "P1Y"), ("reason", "s"), ("entitlement", "days")] {
            let arguments = Self.gift.merging([name: .string(value)]) { $1 }
            #expect(try await call("grant_access", confirmed(arguments, text)).text.contains(wrong), "\(name)")
        }
        #expect(try await call("grant_access", confirmed(Self.gift, text), token: other).text.contains(wrong))
        for (place, character) in [(text.startIndex, "9"), (text.index(text.endIndex, offsetBy: -1), "x")] {
            var forged = text
            forged.replaceSubrange(place...place, with: character)
            let reply = try await call("grant_access", confirmed(Self.gift, forged))
            #expect(reply.text.contains("nothing was done"), "\(reply.text)")
        }
        for malformed in ["", "1", "1.2.3", "\(text).x", "0\(text)"] where !malformed.isEmpty {
            let reply = try await call("grant_access", confirmed(Self.gift, malformed))
            #expect(reply.text.contains("is not one that a dry run returned"), "\(reply.text)")
        }
        // Another act of support on the customer.
        let parameters = try ActParameters(
            ["entitlement": .string("nights"), "for": .string("P1D")], known: OperatorAct.Kind.grant.members)
        _ = try await OperatorActs(service).perform(
            OperatorAct(.grant, account: "alice", actor: "olga", reason: "r", parameters: parameters), key: "k")
        let changed = try await call("grant_access", confirmed(Self.gift, text))
        #expect(changed.text.contains("a state of the customer that has changed since; nothing was done"))
        let second = try #require(try await call("grant_access", Self.gift).content["confirmation"]?.string)
        clock.advance(seconds: 600)
        let late = try await call("grant_access", confirmed(Self.gift, second))
        #expect(late.text.contains("confirmation\" expired at 2027-01-15T08:10:00.000Z; nothing was done"))
        #expect(try await acts().map(\.actor) == ["olga"])
    }

    @Test("An erasure, which waits for other requests, does not wait for its own")
    func erasure() async throws {
        let arguments: [String: JSON] = ["account": .string("bob"), "reason": .string("r")]
        let trial = try await call("erase_customer", arguments)
        let text = try #require(trial.content["confirmation"]?.string, "\(trial.text)")
        let done = try await call("erase_customer", confirmed(arguments, text))
        #expect(done.content["act"]?.string == "erasure" && done.content["dryRun"] == .bool(false), "\(done.text)")
        #expect(try await call("show_customer", ["account": .string("bob")]).text.contains("was erased"))
    }

    @Test("Invisible characters are written as escapes, and long results are cut and say so")
    func bounds() {
        #expect("a\u{202E}b\u{0}\u{E0041}\u{200B}é👍".visible(atMost: 100) == "a\\u{202e}b\\u{0}\\u{e0041}\\u{200b}é👍")
        #expect("abc".visible(atMost: 2) == "ab…")
        let facts = JSON.array((0..<100_000).map { .object([("id", .string("fact \($0)"))]) })
        let cut = ToolResult(summary: "s", members: [("facts", facts)]).json
        #expect(cut.line.utf8.count <= ToolResult.byteCount)
        #expect(cut["facts"]?.elements?.count == 50 && cut["omitted"]?["facts"] == .number(99_950))
        let long = (0..<60).map { ("m\($0)", JSON.string(String(repeating: "é", count: 5_000))) }
        let bare = ToolResult(summary: "s", members: long).json
        #expect(bare.line.utf8.count <= ToolResult.byteCount && bare["omitted"]?["members"] == .number(60))
    }
}
