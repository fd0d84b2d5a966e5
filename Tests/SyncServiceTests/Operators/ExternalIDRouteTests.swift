import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Testing

@testable import SyncService

@Suite("The routes of external ids")
struct ExternalIDRouteTests {
    private let store = MemoryBackend()
    private let service: EntitlementService
    private let support: String

    init() async throws {
        service = try await .open(store)
        support = try await OperatorTokens(store).create("helpdesk", scope: .support, expires: nil).text
        for name in ["alice", "bob"] { _ = await AccountOwner(service, name).signUp() }
    }

    private func put(_ id: String, to account: String, reason: String = "ticket 7") async -> Reply {
        await service.ask(
            .put, "/v1/customers/\(account)/external-id", token: support, json: ["externalId": id, "reason": reason])
    }

    private func delete(_ account: String) async -> Reply {
        await service.ask(
            .delete, "/v1/customers/\(account)/external-id", token: support, json: ["reason": "ticket 8"])
    }

    @Test("An id is attached, found in a path, kept from others, and detached, with an entry for each act")
    func acts() async throws {
        let attached = await put("user/1", to: "alice")
        #expect(attached.status == 200 && attached["externalId"] == "user/1" && attached["account"] == "alice")
        #expect(await put("user/1", to: "user%2F1").status == 200)
        let other = await put("user/1", to: "bob")
        #expect(other.status == 409 && other.problem?.detail.contains("account \"alice\"; transfer") == true)
        #expect(await delete("user%2F1").status == 204)
        #expect(await delete("alice").status == 204)
        #expect(await put("user/1", to: "bob").status == 200)
        let entries = try await AuditLog(store: store).entries().filter { $0.act != "token" }
        #expect(entries.map(\.account) == ["alice", "alice", "bob"])
        #expect(entries.allSatisfy { $0.act == "external-id" && $0.actor == "helpdesk" })
        #expect(
            entries.map { String($0.detail.prefix(16)) } == [
                "attached sha256:", "detached sha256:", "attached sha256:",
            ])
        #expect(entries[1].reason == "ticket 8" && !entries.contains { $0.detail.contains("user/1") })
    }

    @Test("A customer who signs up with the external id of another is not taken for that customer")
    func impostor() async throws {
        #expect(await put("42", to: "alice").status == 200)
        #expect(await AccountOwner(service, "42").signUp().status == 201)
        let path = "/v1/customers/42/external-id"
        let reply = await service.ask(.delete, path, token: support, json: ["reason": "ticket 8"])
        #expect(reply.status == 409)
        #expect(reply.problem?.detail.contains("external id of the account \"alice\"") == true, "\(reply)")
        #expect(await put("user-42", to: "alice").status == 200)
        #expect(await put("user-43", to: "42").status == 200)
    }

    @Test("An act without a reason, with a wrong id or for an unknown account is refused and leaves no entry")
    func refusals() async throws {
        for reason in ["", "  ", String(repeating: "x", count: 1_001)] {
            #expect(await put("u", to: "alice", reason: reason).status == 400)
        }
        #expect(await put("a\nb", to: "alice").status == 400)
        #expect(await put(String(repeating: "x", count: 256), to: "alice").status == 400)
        #expect(await put("u", to: "nobody").status == 404)
        #expect(await delete("nobody").status == 404)
        let path = "/v1/customers/alice/external-id"
        #expect(await service.ask(.put, path, token: support, json: ["externalId": "u"]).status == 400)
        #expect(await service.ask(.delete, path, token: support).status == 400)
        #expect(try await AuditLog(store: store).entries().filter { $0.act != "token" }.isEmpty)
    }

    @Test("An account's own token sets no external id, and log-in knows none")
    func own() async throws {
        let token = await AccountOwner(service).logIn()["access_token"]
        let reply = await service.ask(
            .put, "/v1/customers/alice/external-id", token: token, json: ["externalId": "u", "reason": "me"])
        #expect(reply.status == 403)
        #expect(await put("u", to: "alice").status == 200)
        #expect(await AccountOwner(service, "u").logIn().status == 400)
    }
}
