import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Testing

@testable import SyncService

@Suite("Devices that wait for approval")
struct DeviceAuthorizationTests {
    private let store = MemoryBackend()
    private let clock = TestClock(1_800_000_000_000)
    private let service: EntitlementService
    private let alice: AccountOwner

    init() async throws {
        service = try await .open(store, clock: clock)
        alice = AccountOwner(service)
    }

    @Test("An approval is void after a log-out everywhere or a password change")
    func endedMeanwhile() async throws {
        let token = await alice.signUp()["access_token"]
        let first = await service.ask(.post, "/v1/devices")
        #expect(await alice.approve(first["user_code"], token: token).status == 204)
        #expect(await alice.changePassword(to: "battery staple", token: token).status == 204)
        #expect(await service.redeem(first["device_code"]).problem?.error == "invalid_grant")
        let owner = AccountOwner(service, password: "battery staple")
        let second = await service.ask(.post, "/v1/devices")
        #expect(await owner.approve(second["user_code"], token: token).status == 204)
        #expect(await service.ask(.delete, "/v1/sessions?everywhere=true", token: token).status == 204)
        #expect(await service.redeem(second["device_code"]).problem?.error == "invalid_grant")
    }

    @Test("An erasure deletes the approvals of the account, and no others")
    func erasure() async throws {
        let token = await alice.signUp()["access_token"]
        let (approved, waiting) = (
            await service.ask(.post, "/v1/devices"), await service.ask(.post, "/v1/devices")
        )
        #expect(await alice.approve(approved["user_code"], token: token).status == 204)
        let json = ["password": "correct horse"]
        #expect(await service.ask(.post, "/v1/accounts/self/erasure", token: token, json: json).status == 204)
        let left = try await store.list(prefix: "server/devices/", after: nil, limit: 10).outcome.items
        #expect(left.count == 1)
        #expect(await service.redeem(approved["device_code"]).problem?.error == "invalid_grant")
        #expect(await service.redeem(waiting["device_code"]).problem?.error == "authorization_pending")
    }

    @Test("Approving a device needs the password or a recent token of another issuer; an access token is not enough")
    func presence() async throws {
        let token = await alice.signUp()["access_token"]
        let device = await service.ask(.post, "/v1/devices")
        let path = "/v1/devices/approvals"
        var body: [String: any Sendable] = ["user_code": device["user_code"] ?? "", "approve": true]
        let bare = await service.ask(.post, path, token: token, json: body)
        #expect(bare.status == 400 && bare.problem?.error == "invalid_request")
        body["password"] = "wrong password"
        #expect(await service.ask(.post, path, token: token, json: body).status == 400)
        #expect(await service.redeem(device["device_code"]).problem?.error == "authorization_pending")
        body["password"] = "correct horse"
        #expect(await service.ask(.post, path, token: token, json: body).status == 204)
        #expect(await service.redeem(device["device_code"]).status == 200)
        let refused = await service.ask(.post, "/v1/devices")
        let refusal: [String: any Sendable] = ["user_code": refused["user_code"] ?? "", "approve": false]
        #expect(await service.ask(.post, path, token: token, json: refusal).status == 204, "denying needs a token only")

        let issuing = try await EntitlementService.open(store, clock: clock, issuer: "https://login.example.com")
        let carols = await issuing.ask(.post, "/v1/devices")
        let now = clock.now / 1_000
        for (issued, status) in [(nil, 403), (now - 301, 403), (now - 300, 204)] as [(Int64?, Int)] {
            let reply = await issuing.ask(
                .post, path, token: .external("carol", now + 600, issued: issued),
                json: ["user_code": carols["user_code"] ?? "", "approve": true, "password": "correct horse"])
            #expect(reply.status == status, "\(issued ?? 0)")
        }
        #expect(await issuing.redeem(carols["device_code"])["account"] == "carol")
    }

    @Test("Expired codes are deleted, and the number of waiting devices is limited")
    func many() async throws {
        func left() async throws -> Int {
            try await store.list(prefix: "server/", after: nil, limit: 1_000).outcome.items
                .filter { $0.key.hasPrefix("server/devices/") || $0.key.hasPrefix("server/expiries/") }.count
        }
        let service = try await EntitlementService.open(
            store, clock: clock,
            configure: {
                ($0.callerLimits.waitingDevices, $0.callerLimits.addressWaitingDevices) = (100, nil)
            })
        // Later than the time at which the server began, so that the clock can be set back.
        clock.advance(seconds: 100_000)
        for _ in 0..<50 { #expect(await service.ask(.post, "/v1/devices").status == 200) }
        clock.advance(seconds: 300)
        for _ in 0..<50 { #expect(await service.ask(.post, "/v1/devices").status == 200) }
        let refused = await service.ask(.post, "/v1/devices")
        #expect(refused.status == 503 && refused.fields[.retryAfter] == "300")
        #expect(try await left() == 200)
        clock.advance(seconds: 300)
        // Each new code removes up to 32 expired ones: the first 50 are deleted, and none of the waiting ones.
        let device = await service.ask(.post, "/v1/devices")
        _ = await service.ask(.post, "/v1/devices")
        #expect(try await left() == 104)
        let token = await alice.signUp()["access_token"]
        #expect(await alice.approve(device["user_code"], token: token).status == 204)
        #expect(await service.redeem(device["device_code"]).status == 200)
        clock.advance(seconds: -86_400)
        #expect(await service.ask(.post, "/v1/devices").status == 200, "a clock that was set back blocks no client")
    }

    @Test("An approval by an erased account gives no access to its successor of the same name")
    func erasedMeanwhile() async throws {
        let token = await alice.signUp()["access_token"]
        let device = await service.ask(.post, "/v1/devices")
        #expect(await alice.approve(device["user_code"], token: token).status == 204)
        #expect(await alice.erase(token: token).status == 204)
        #expect(await AccountOwner(service, password: "another person").signUp().status == 201)
        #expect(await service.redeem(device["device_code"]).problem?.error == "invalid_grant")
    }

    @Test("An address can fill only its own share of the waiting devices; loopback addresses have no share")
    func shares() async throws {
        let service = try await EntitlementService.open(
            store, clock: clock, configure: { $0.callerLimits.waitingDevices = 200 })
        func begin(_ peer: String) async -> Reply { await service.ask(.post, "/v1/devices", peer: peer) }
        var begun: [Reply] = []
        for _ in 0..<64 { begun.append(await begin("198.51.100.1")) }
        #expect(begun.allSatisfy { $0.status == 200 })
        clock.advance(seconds: 60)
        let refused = await begin("198.51.100.1")
        #expect(refused.status == 429 && refused.fields[.retryAfter] == "540")
        #expect(await begin("198.51.100.2").status == 200)
        // All addresses of a /64 count as one.
        for number in 0..<64 { #expect(await begin("2001:db8::\(String(number, radix: 16))").status == 200) }
        #expect(await begin("2001:db8::ffff").status == 429)
        for _ in 0..<71 { #expect(await begin("127.0.0.1").status == 200) }
        let full = await begin("198.51.100.2")
        #expect(full.status == 503 && full.fields[.retryAfter] == "540")
        #expect(await begin("127.0.0.1").status == 503)
        clock.advance(seconds: 540)
        #expect(await begin("198.51.100.1").status == 200, "the first 64 have expired")
        #expect(service.devices.slots.count == 137)
    }

    @Test("A code that was redeemed or denied releases its place and leaves nothing in the store")
    func places() async throws {
        let service = try await EntitlementService.open(
            store, clock: clock, configure: { $0.callerLimits.addressWaitingDevices = 2 })
        let token = await alice.signUp()["access_token"]
        let (first, second) = (await service.ask(.post, "/v1/devices"), await service.ask(.post, "/v1/devices"))
        #expect(await service.ask(.post, "/v1/devices").status == 429)
        #expect(await alice.approve(first["user_code"], token: token).status == 204)
        #expect(await service.ask(.post, "/v1/devices").status == 429, "an approved device still waits")
        #expect(await service.redeem(first["device_code"]).status == 200)
        let third = await service.ask(.post, "/v1/devices")
        #expect(third.status == 200)
        let refusal: [String: any Sendable] = ["user_code": second["user_code"] ?? "", "approve": false]
        #expect(await service.ask(.post, "/v1/devices/approvals", token: token, json: refusal).status == 204)
        #expect(await service.redeem(second["device_code"]).problem?.error == "access_denied")
        #expect(service.devices.slots.count == 1)
        let keys = try await store.list(prefix: "server/", after: nil, limit: 100).outcome.items.map(\.key.text)
        #expect(keys.count { $0.hasPrefix("server/devices/") || $0.hasPrefix("server/expiries/") } == 2)
    }

    @Test("A small step back of the clock releases no place of a waiting device")
    func steppedBack() async throws {
        clock.advance(seconds: 1_000)
        for _ in 0..<2 { #expect(await service.ask(.post, "/v1/devices").status == 200) }
        clock.advance(seconds: -300)
        #expect(await service.ask(.post, "/v1/devices").status == 200)
        #expect(service.devices.slots.count == 3)
    }
}
