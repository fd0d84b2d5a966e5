import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Testing

@Suite("An erased account and its successor of the same name")
struct ErasedAccountViewTests {
    private let store = MemoryBackend()
    private let clock = TestClock(1_800_000_000_000)
    private let service: EntitlementService
    private let former: Reply
    private let next: Reply
    private let owner: AccountOwner

    init() async throws {
        service = try await .open(store, clock: clock)
        let alice = AccountOwner(service)
        former = await alice.signUp()
        #expect(await alice.erase(token: former["access_token"]).status == 204)
        owner = AccountOwner(service, password: "another person")
        next = await owner.signUp()
        #expect(next.status == 201)
    }

    @Test("The former owner's log-out everywhere ends only the former owner's sessions")
    func logOut() async throws {
        let everywhere = "/v1/sessions?everywhere=true"
        #expect(await service.ask(.delete, everywhere, token: former["access_token"]).status == 204)
        #expect(await service.status(of: next["access_token"]) == 200)
        #expect(await service.refresh(next["refresh_token"]).status == 200)
        #expect(await service.refresh(former["refresh_token"]).status == 400, "its own session ended")
    }

    @Test("The former owner's devices learn of their own erasure, and of no other incarnation of the name")
    func seeing() async throws {
        let entry = "/v1/kv/accounts/alice/account"
        let told = await service.ask(.get, entry, token: former["access_token"])
        #expect(told.status == 200)
        let lines = String(decoding: told.body, as: UTF8.self).split(separator: "\n").dropFirst().dropLast()
        #expect(lines == ["erased \(former["incarnation"] ?? "")"])
        let tag = try #require(told.fields[.eTag])
        let known = await service.ask(.get, entry, token: former["access_token"], [.ifNoneMatch: tag])
        #expect(known.status == 304)
        let current = await service.ask(.get, entry, token: next["access_token"])
        #expect(String(decoding: current.body, as: UTF8.self).contains("incarnation \(next["incarnation"] ?? "")"))
        let put = await service.ask(.put, entry, token: former["access_token"], [.ifMatch: "*"], body: told.body)
        #expect(put.status == 403)
        #expect(await owner.erase(token: next["access_token"]).status == 204)
        let marker = "/v1/kv/accounts/alice/\(next["incarnation"] ?? "")/ledger"
        #expect(await service.ask(.get, marker, token: former["access_token"]).status == 403)
        #expect(await service.ask(.get, marker, token: next["access_token"]).status == 200)
        #expect(await service.ask(.get, entry, token: former["access_token"]).body == told.body)
    }

    @Test("The former owner's devices learn of the erasure whatever the next owner does with the sessions")
    func hearing() async throws {
        #expect(await owner.changePassword(to: "battery staple", token: next["access_token"]).status == 204)
        let everywhere = "/v1/sessions?everywhere=true"
        #expect(await service.ask(.delete, everywhere, token: next["access_token"]).status == 204)
        #expect(await service.refresh(next["refresh_token"]).status == 400)
        let owner = AccountOwner(service, password: "battery staple")
        for _ in 0..<101 { #expect(await owner.logIn().status == 200) }
        let session = await service.refresh(former["refresh_token"])
        #expect(session.status == 200)
        let ledger = "/v1/kv/accounts/alice/\(former["incarnation"] ?? "")/ledger"
        let marker = await service.ask(.get, ledger, token: session["access_token"])
        #expect(marker.status == 200 && marker.body == LedgerDocumentBytes.erased)
    }
}
