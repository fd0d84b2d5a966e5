import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Testing

@Suite("Bodies from unauthenticated clients")
struct BodyLengthTests {
    @Test("A body of 64 KiB is read, and a longer one is refused unread")
    func lengths() async throws {
        let service = try await EntitlementService.open(MemoryBackend())
        let alice = AccountOwner(service)
        #expect(await alice.signUp().status == 201)
        let token = await alice.logIn()["access_token"]
        let body = Array(#"{"grant_type":"password","username":"alice","password":"correct horse"}"#.utf8)
        for (count, status) in [(1 << 16, 200), ((1 << 16) + 1, 413), (4 << 20, 413)] {
            let padded = body + [UInt8](repeating: 0x20, count: count - body.count)
            let reply = await service.ask(
                .post, "/v1/sessions", [.contentType: "application/json"], body: padded)
            #expect(reply.status == status, "\(count)")
        }
        let long = body + [UInt8](repeating: 0x20, count: 1 << 16)
        for path in ["/v1/accounts", "/v1/accounts/self/erasure", "/v1/devices/approvals"] {
            let reply = await service.ask(.post, path, token: path == "/v1/accounts" ? nil : token, body: long)
            #expect(reply.status == 413, "\(path)")
        }
    }
}
