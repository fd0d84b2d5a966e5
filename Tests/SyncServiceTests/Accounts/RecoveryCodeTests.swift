import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Testing

@Suite("Recovery codes after a change of password")
struct RecoveryCodeTests {
    private let service: EntitlementService
    private let alice: AccountOwner

    init() async throws {
        service = try await .open(MemoryBackend())
        alice = AccountOwner(service)
    }

    private func codes(_ reply: Reply) throws -> [String] {
        try #require(reply.members["recovery_codes"] as? [String])
    }

    @Test("A password change voids all recovery codes")
    func changed() async throws {
        let made = await alice.signUp()
        let token = made["access_token"]
        #expect(await alice.changePassword(to: "battery staple", token: token).status == 204)
        #expect(await service.recover("alice", try codes(made)[0]).status == 400)
        let renewed = await service.ask(
            .post, "/v1/accounts/self/recovery-codes", token: token, json: ["password": "battery staple"])
        #expect(await service.recover("alice", try codes(renewed)[0]).status == 200)
    }

    @Test("Using a recovery code voids the others")
    func used() async throws {
        let codes = try codes(await alice.signUp())
        #expect(await service.recover("alice", codes[0]).status == 200)
        for code in codes { #expect(await service.recover("alice", code).status == 400) }
    }
}
