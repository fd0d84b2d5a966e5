import ServiceTestSupport
import SyncCore
import SyncService
import Testing

@Suite("Devices that wait to be approved")
struct DeviceGrantTests {
    private let store = MemoryBackend()
    private let clock = SetClock(1_800_000_000_000)
    private let service: Service
    private let alice: AccountPerson

    init() async throws {
        service = try await .open(store, clock: clock)
        alice = AccountPerson(service)
    }

    @Test("an approval is over when its account ends all sessions, or gets another password")
    func endedMeanwhile() async throws {
        let token = await alice.signUp()["access_token"]
        let first = await service.ask(.post, "/v1/devices")
        #expect(await alice.approve(first["user_code"], token: token).status == 204)
        #expect(await alice.changePassword(to: "battery staple", token: token).status == 204)
        #expect(await service.redeem(first["device_code"]).problem?.error == "invalid_grant")
        let owner = AccountPerson(service, password: "battery staple")
        let second = await service.ask(.post, "/v1/devices")
        #expect(await owner.approve(second["user_code"], token: token).status == 204)
        #expect(await service.ask(.delete, "/v1/sessions?everywhere=true", token: token).status == 204)
        #expect(await service.redeem(second["device_code"]).problem?.error == "invalid_grant")
    }

    @Test("an approval of an erased account lets nobody into the next one of its name")
    func erasedMeanwhile() async throws {
        let token = await alice.signUp()["access_token"]
        let device = await service.ask(.post, "/v1/devices")
        #expect(await alice.approve(device["user_code"], token: token).status == 204)
        #expect(await alice.erase(token: token).status == 204)
        #expect(await AccountPerson(service, password: "another person").signUp().status == 201)
        #expect(await service.redeem(device["device_code"]).problem?.error == "invalid_grant")
    }
}
