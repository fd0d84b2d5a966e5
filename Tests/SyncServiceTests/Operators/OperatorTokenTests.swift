import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Testing

@testable import SyncService

@Suite("Tokens of the operator")
struct OperatorTokenTests {
    private let store = MemoryBackend()
    private let clock = TestClock(1_800_000_000_000)

    private func open() async throws -> EntitlementService { try await .open(store, clock: clock) }

    private func create(
        _ service: EntitlementService, _ json: [String: any Sendable], token: String = .operatorToken
    ) async -> Reply {
        await service.ask(.post, "/v1/tokens", token: token, json: json)
    }

    @Test("The secret is in the answer to the creation only; the store and the list have its digest or nothing")
    func creation() async throws {
        let service = try await open()
        let made = await create(service, ["name": "ci", "scope": "read", "for": "P90D"])
        #expect(made.status == 201 && made["scope"] == "read" && made["expires"] == "2027-04-15T08:00:00.000Z")
        let (text, id) = (try #require(made["token"]), try #require(made["id"]))
        #expect(text.hasPrefix("est_\(id)_") && text.utf8.count == 4 + 16 + 1 + 64)
        let secret = String(text.suffix(64))
        for item in try await store.list(prefix: "", after: nil, limit: 1_000).outcome.items {
            let value = try await store.read(item.key).outcome.entry?.value ?? []
            #expect(!String(decoding: value, as: UTF8.self).contains(secret), "\(item.key.text)")
        }
        let list = await service.ask(.get, "/v1/tokens", token: .operatorToken)
        #expect(list.status == 200 && !String(decoding: list.body, as: UTF8.self).contains(secret))
        #expect(await service.ask(.get, "/v1/accounts", token: text).status == 200)
        let wrong = text.dropLast() + (text.hasSuffix("0") ? "1" : "0")
        #expect(await service.ask(.get, "/v1/accounts", token: String(wrong)).status == 401)
    }

    @Test("The audit list has who created and revoked a token, and its scope and end, but no refused attempt")
    func audit() async throws {
        let service = try await open()
        let made = await create(service, ["name": "ci", "scope": "admin", "until": "2027-04-15T08:00:00Z"])
        let (text, id) = (try #require(made["token"]), try #require(made["id"]))
        #expect(await create(service, ["name": "ci", "scope": "read"], token: text).status == 409)
        #expect(await create(service, ["name": "desk", "scope": "support"], token: text).status == 201)
        for _ in 0..<2 {
            #expect(await service.ask(.delete, "/v1/tokens/\(id)", token: .operatorToken).status == 200)
        }
        let entries = try await AuditLog(store: store).entries()
        #expect(
            entries.map(\.act) == ["token", "token", "token"] && entries.map(\.actor) == ["operator", "ci", "operator"])
        #expect(
            entries[0].detail == "created token \(id) \"ci\" with the scope admin, until 2027-04-15T08:00:00.000Z")
        #expect(entries[1].detail.hasSuffix("\"desk\" with the scope support, without an end"))
        #expect(entries[2].detail == "revoked token \(id) \"ci\"")
        #expect(!entries.contains { $0.detail.contains(text.suffix(64)) })
    }

    @Test(
        "A token that cannot be made is refused with the value and what to do",
        arguments: [
            (["name": "x", "scope": "owner"], 400, "scope must be one of read, support, admin, not \"owner\""),
            (["name": "", "scope": "read"], 400, "1 to 64 visible characters"),
            (["name": "a\nb", "scope": "read"], 400, "1 to 64 visible characters"),
            (["name": "operator", "scope": "read"], 400, "reserved"),
            (["name": "x", "scope": "read", "until": "2020-01-01"], 400, "must expire in the future"),
            (["name": "x", "scope": "read", "until": "tomorrow"], 400, "until: "),
            (["name": "x", "scope": "read", "for": "90"], 400, "for: "),
            (["name": "x", "scope": "read", "for": "P1D", "until": "2030-01-01"], 400, "either \"until\" or \"for\""),
            (["name": "taken", "scope": "read"], 409, "there is a token \"taken\" already"),
            (["scope": "read"], 400, "\"name\" must be present"),
        ] as [([String: String], Int, String)])
    func refusals(json: [String: String], status: Int, text: String) async throws {
        let service = try await open()
        #expect(await create(service, ["name": "taken", "scope": "read"]).status == 201)
        let reply = await create(service, json)
        #expect(
            reply.status == status && reply.problem?.detail.contains(text) == true, "\(reply.problem?.detail ?? "")")
    }

    @Test("A token is revoked by its id although the record of another one is damaged")
    func damage() async throws {
        let tokens = OperatorTokens(store, host: clock.host)
        let made = try await tokens.create("ci", scope: .read, expires: nil)
        let key = try EntryKey(OperatorTokens.prefix + "0123456789abcdef")
        _ = try await store.write([1, 2, 3], to: key, if: .any)
        #expect(try await tokens.revoke(made.record.id).map(\.id) == [made.record.id])
        let error = await #expect(throws: BackendError.self) { try await tokens.revoke("ci") }
        #expect(error?.kind == .damaged && error?.key == key)
    }

    @Test("The routes without a reason need the scope admin, and are entered into the audit list")
    func withoutReason() async throws {
        let service = try await open()
        #expect(await AccountOwner(service, "Owl").signUp().status == 201)
        let support = try await OperatorTokens(store, host: clock.host).create("desk", scope: .support, expires: nil)
        for path in ["/v1/accounts/owl/recovery-code", "/v1/accounts/owl/erasure"] {
            #expect(await service.ask(.post, path, token: support.text).status == 403, "\(path)")
        }
        let code = await service.ask(.post, "/v1/accounts/owl/recovery-code", token: .operatorToken)
        #expect(code.status == 200 && code["account"] == "Owl")
        #expect(await service.ask(.post, "/v1/accounts/owl/erasure", token: .operatorToken).status == 204)
        let entries = try await AuditLog(store: store).entries(after: 1)
        #expect(entries.map(\.act) == ["recovery", "erasure"] && entries.map(\.actor) == ["operator", "operator"])
        #expect(entries.map(\.account) == ["Owl", "Owl"])
    }

    @Test("A revoked token is refused at once, and at another server after it has followed the changes")
    func revocation() async throws {
        let (first, second) = (try await open(), try await open())
        let text = try #require(await create(first, ["name": "ci", "scope": "read"])["token"])
        for service in [first, second] {
            #expect(await service.ask(.get, "/v1/accounts", token: text).status == 200)
        }
        #expect(await first.ask(.delete, "/v1/tokens/nobody", token: .operatorToken).status == 404)
        let revoked = await first.ask(.delete, "/v1/tokens/ci", token: .operatorToken)
        #expect(revoked.status == 200)
        #expect(await first.ask(.get, "/v1/accounts", token: text).status == 401)
        // It is cached, and the changes are fresh.
        #expect(await second.ask(.get, "/v1/accounts", token: text).status == 200)
        await second.followChanges()
        #expect(await second.ask(.get, "/v1/accounts", token: text).status == 401)
        let again = await first.ask(.delete, "/v1/tokens/ci", token: .operatorToken)
        #expect(again.body == revoked.body)
    }

    @Test("A server that does not follow the changes reads the token again after two seconds")
    func staleness() async throws {
        let (first, second) = (try await open(), try await open())
        let text = try #require(await create(first, ["name": "ci", "scope": "read"])["token"])
        #expect(await second.ask(.get, "/v1/accounts", token: text).status == 200)
        #expect(await first.ask(.delete, "/v1/tokens/ci", token: .operatorToken).status == 200)
        clock.pass(seconds: 3)
        #expect(await second.ask(.get, "/v1/accounts", token: text).status == 401)
    }

    @Test("A cached token is refused when it expires")
    func expiry() async throws {
        let service = try await open()
        let text = try #require(await create(service, ["name": "ci", "scope": "read", "for": "PT1S"])["token"])
        #expect(await service.ask(.get, "/v1/accounts", token: text).status == 200)
        clock.pass(seconds: 1)
        let reply = await service.ask(.get, "/v1/accounts", token: text)
        #expect(reply.status == 401 && reply.problem?.detail.contains("\"ci\" expired at") == true)
        // Its name is free again.
        #expect(await create(service, ["name": "ci", "scope": "read"]).status == 201)
    }

    @Test("A scope of a later version of the server is refused by name")
    func newerScope() async throws {
        let service = try await open()
        let made = await create(service, ["name": "ci", "scope": "read"])
        let key = try EntryKey("server/operator-tokens/\(try #require(made["id"]))")
        let record = try await store.read(key).outcome.entry?.value ?? []
        let newer = String(decoding: record, as: UTF8.self).replacing("\"read\"", with: "\"audit\"")
        _ = try await store.write(Array(newer.utf8), to: key, if: .any)
        let reply = await service.ask(.get, "/v1/accounts", token: made["token"])
        #expect(reply.status == 401 && reply.problem?.detail.contains("\"audit\", unknown to this server") == true)
    }

    @Test("The log has the name of the token, and the account that it asked about")
    func log() async throws {
        let service = try await open()
        let text = try #require(await create(service, ["name": "helpdesk", "scope": "admin"])["token"])
        var head = HTTPRequest(
            method: .post, scheme: "http", authority: "x", path: "/v1/accounts/nobody/recovery-code")
        head.headerFields[.authorization] = "Bearer \(text)"
        let response = await service.respond(to: ServiceRequest(head, peer: "192.0.2.1"))
        #expect(response.caller == "helpdesk" && response.subject == "nobody" && response.head.status == .notFound)
    }

    @Test("A stream of changes ends when its token is revoked")
    func stream() async throws {
        let service = try await open()
        let text = try #require(await create(service, ["name": "mirror", "scope": "admin"])["token"])
        var head = HTTPRequest(method: .get, scheme: "http", authority: "x", path: "/v1/changes")
        head.headerFields[.authorization] = "Bearer \(text)"
        head.headerFields[.accept] = "text/event-stream"
        let response = await service.respond(to: ServiceRequest(head, peer: "192.0.2.1"))
        guard case .stream(let pieces, _) = response.body else { throw CancellationError() }
        #expect(await service.ask(.delete, "/v1/tokens/mirror", token: .operatorToken).status == 200)
        await service.followChanges()
        var rest = ""
        for await piece in pieces { rest += String(decoding: piece, as: UTF8.self) }
        #expect(rest.hasPrefix("retry: ") && !rest.contains("event: change"))
    }
}
