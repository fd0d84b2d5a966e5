import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Testing

@Suite("Names of accounts")
struct AccountNameTests {
    private let service: Service

    init() async throws { service = try await .open(MemoryBackend()) }

    @Test("an ampersand in a path belongs to the name: what is meant for a&b does not reach a")
    func ampersands() async throws {
        for name in ["a", "a&b", "a&name=c", "c"] {
            #expect(await AccountPerson(service, name).signUp().status == 201)
        }
        for (path, name) in [("a&b", "a&b"), ("a%26name%3Dc", "a&name=c"), ("a&name=c", "a&name=c")] {
            let code = await service.ask(.post, "/v1/accounts/\(path)/recovery-code", token: .operatorToken)
            #expect(await service.recover(name, code["recovery_code"], newPassword: "correct horse").status == 200)
        }
        for path in ["a&b", "a&name=c"] {
            #expect(await service.ask(.post, "/v1/accounts/\(path)/erasure", token: .operatorToken).status == 204)
        }
        for (name, status) in [("a", 200), ("c", 200), ("a&b", 400), ("a&name=c", 400)] {
            #expect(await AccountPerson(service, name).logIn().status == status, "\(name)")
        }
    }
}
