import EntitlementSync
import Entitlements
import SyncCore
import TestSupport
import Testing

@Suite("Access to content")
struct AccessTests {
    private let home: Household
    private let local = MemoryBackend()

    init() throws {
        home = try Household(at: "2026-01-10T12:00:00Z")
    }

    @Test("A subscription grants random-owls up to its last millisecond, but not at its end")
    func subscription() async throws {
        let store = try await home.offlineDevice()
        try await store.record(.reported(Owls.threeMonths))
        let end = try date("2026-04-10T12:00:00Z")
        let granted = Access.granted(Access.Grant(until: end, source: .group(Owls.random)))
        #expect(try await store.access(to: Owls.access) == granted)
        try home.machine.set("2026-04-10T11:59:59.999Z")
        #expect(try await store.access(to: Owls.access) == granted)
        #expect(try await store.snapshot()[group: Owls.random]?.daysRemaining == 1)
        try home.machine.set("2026-04-10T12:00:00Z")
        #expect(try await store.access(to: Owls.access) == .denied(.expired(end)))
    }

    @Test("Units grant random-owls")
    func units() async throws {
        let store = try await home.offlineDevice()
        try await store.record(.reported(Owls.randomOwls))
        let grant = Access.Grant(until: nil, source: .units(Owls.randomOwls), units: 5)
        #expect(try await store.access(to: Owls.access) == .granted(grant))
    }

    @Test("A purchase dated next year unlocks nothing today")
    func future() async throws {
        let store = try await home.offlineDevice()
        try await store.record(.reported(Owls.threeMonths, date: date("2027-01-01")))
        #expect(try await store.access(to: Owls.access) == .denied(.notPurchased))
        #expect(try await store.snapshot()[group: Owls.random]?.isActive == false)
        try home.machine.set("2027-01-01T00:00:00Z")
        #expect(try await store.access(to: Owls.access).isGranted)
    }

    @Test("Access is denied as restore needed until the first contact with the remote")
    func restoreNeeded() async throws {
        let store = try await home.device()
        #expect(try await store.access(to: Owls.access) == .denied(.restoreNeeded))
        try await store.sync()
        #expect(try await store.access(to: Owls.access) == .denied(.notPurchased))
    }

    @Test("Without an account, access to a product sold only to accounts is denied as sign-in needed")
    func signInNeeded() async throws {
        let home = try Household(catalog: try Owls.catalogForAccounts())
        let anonymous = try await home.anonymousDevice(remote: home.remote)
        #expect(try await anonymous.access(to: Owls.access) == .denied(.signInNeeded))
        let alice = try await home.offlineDevice()
        #expect(try await alice.access(to: Owls.access) == .denied(.notPurchased))
    }

    @Test("An anonymous store never asks for a restore, because anonymous purchases are on no remote")
    func anonymousNeedsNoRestore() async throws {
        let anonymous = try await home.anonymousDevice(remote: home.remote)
        #expect(try await anonymous.access(to: Owls.access) == .denied(.notPurchased))
    }

    @Test("Access is denied as expired, with the end of the last period")
    func expired() async throws {
        let store = try await home.offlineDevice()
        try await store.record(.reported(Owls.threeMonths, date: date("2025-01-01")))
        #expect(try await store.access(to: Owls.access) == .denied(.expired(date("2025-04-01"))))
    }

    @Test("Access is denied as revoked, with the date of the refund")
    func revoked() async throws {
        let store = try await home.offlineDevice()
        try await store.record(.reported(Owls.nightOwl, transaction: "t", date: date("2026-01-01")))
        try await store.refund(TransactionReference(id: "t"), at: date("2026-01-05"))
        #expect(try await store.access(to: Owls.nightOwlAccess) == .denied(.revoked(date("2026-01-05"))))
    }

    @Test("Access is denied as pending approval from the request until the purchase")
    func pendingThenBought() async throws {
        let store = try await home.device(local)
        try await store.record(.deferred(Owls.nightOwl))
        #expect(try await store.access(to: Owls.nightOwlAccess) == .denied(.pendingApproval))
        #expect(try await home.device(local).access(to: Owls.nightOwlAccess) == .denied(.pendingApproval))
        try await store.record(.reported(Owls.nightOwl))
        #expect(try await store.access(to: Owls.nightOwlAccess).isGranted)
        #expect(try await store.snapshot().pending.isEmpty)
    }

    @Test("A withdrawn request is no longer pending, and a repeated one is pending again")
    func pendingThenWithdrawn() async throws {
        let store = try await home.offlineDevice()
        try await store.record(.deferred(Owls.nightOwl))
        try await store.record(.withdrawn(Owls.nightOwl))
        #expect(try await store.access(to: Owls.nightOwlAccess) == .denied(.notPurchased))
        try await store.record(.deferred(Owls.nightOwl))
        #expect(try await store.snapshot().pending == [Owls.nightOwl])
    }

    @Test("Of several statements about one request in one batch, the last counts")
    func pendingInOneInput() async throws {
        let store = try await home.offlineDevice()
        try await store.record([.deferred(Owls.nightOwl), .withdrawn(Owls.nightOwl), .deferred(Owls.couchOwl)])
        #expect(try await store.snapshot().pending == [Owls.couchOwl])
        try await store.record([.deferred(Owls.threeMonths), .reported(Owls.threeMonths)])
        #expect(try await store.snapshot().pending == [Owls.couchOwl])
    }

    @Test("A purchase dated by another device's slow clock ends the request once it is recorded here")
    func pendingAndSlowClock() async throws {
        let phone = try await home.device()
        try await phone.record(.deferred(Owls.threeMonths))
        try home.machine.set("2026-01-10T11:00:00Z")
        let tablet = try await home.device()
        let evidence = try Evidence.reported(Owls.threeMonths, transaction: "t", date: date("2026-01-10T11:00:00Z"))
        try await tablet.record(evidence)
        try await tablet.sync()
        try await phone.sync()
        #expect(try await phone.snapshot().pending == [Owls.threeMonths])
        try await phone.record(evidence)
        #expect(try await phone.snapshot().pending.isEmpty)
    }

    @Test("A request stays on the device that made it")
    func pendingIsNotSent() async throws {
        let phone = try await home.device()
        try await phone.record(.deferred(Owls.nightOwl))
        try await phone.sync()
        #expect(try await contents(of: home.remote).isEmpty)
    }

    @Test("Only transactions of the store's environment count")
    func environment() async throws {
        let store = try await home.offlineDevice(local)
        try await store.record(.reported(Owls.nightOwl, environment: .sandbox))
        #expect(try await store.access(to: Owls.nightOwlAccess) == .denied(.notPurchased))
        let tester = try await home.store(local, account: home.alice, environment: .sandbox)
        #expect(try await tester.access(to: Owls.nightOwlAccess).isGranted)
    }

    @Test("Reading or using an entitlement that is not in the catalogue is an error")
    func unknown() async throws {
        let store = try await home.offlineDevice()
        #expect(await kind { try await store.access(to: "no-such") } == .unknownEntitlement)
        #expect(await kind { try await store.use("no-such") } == .unknownEntitlement)
    }
}
