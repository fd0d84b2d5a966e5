import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Statements from stores and other systems")
struct StatementTests {
    private static let first = TransactionReference(store: .appStore, id: "1")

    @Test("A refund recorded on another device before its purchase arrives there still takes back that period")
    func refundFirst() async throws {
        let home = try Household(at: "2026-03-01T00:00:00Z")
        let support = try await home.device()
        try await support.refund(TransactionReference(id: "A"), at: date("2026-03-01"))
        try await support.sync()
        let phone = try await home.device()
        try await phone.record([
            .reported(Owls.threeMonths, transaction: "A", date: date("2026-01-01")),
            .reported(Owls.threeMonths, transaction: "B", date: date("2026-02-01")),
        ])
        #expect(try await phone.end() == date("2026-07-01"))
        try await phone.sync()
        #expect(try await phone.end() == date("2026-06-01"))
        try await support.sync()
        #expect(try await support.end() == date("2026-06-01"))
    }

    @Test("A renewal state of a purchase that does not renew is rejected, also in the recording of that purchase")
    func renewalOfNonRenewing() async throws {
        let phone = try await Household(at: "2026-02-01T00:00:00Z").device()
        let purchase = Evidence.reported(Owls.threeMonths, transaction: "A", date: try date("2026-01-01"))
        let renewal = Evidence.renewal(of: TransactionReference(id: "A"), willRenew: true)
        #expect(await kind { try await phone.record([purchase, renewal]) } == .invalid)
        #expect(try await phone.end() == nil)
        try await phone.record(purchase)
        #expect(await kind { try await phone.record(renewal) } == .invalid)
    }

    @Test("Reversing a refund restores the time on every device")
    func reversed() async throws {
        let home = try Household(at: "2026-02-01T00:00:00Z")
        let phone = try await home.device()
        let transaction = TransactionReference(id: "A")
        try await phone.record(.reported(Owls.threeMonths, transaction: "A", date: date("2026-01-01")))
        #expect(try await phone.reinstate(transaction) == nil)
        try await phone.refund(transaction)
        try await phone.sync()
        #expect(try await phone.access(to: Owls.access) == .denied(.revoked(date("2026-02-01"))))
        let tablet = try await home.device()
        try await tablet.restore()
        #expect(try await tablet.reinstate(transaction) != nil)
        try await tablet.sync()
        try await phone.sync()
        #expect(try await phone.end() == date("2026-04-01"))
        #expect(try await phone.reinstate(transaction) == nil)
    }

    @Test("An unsigned statement neither revokes nor reinstates what a store has signed")
    func signed() async throws {
        let store = try await Household(at: "2026-02-01T00:00:00Z").offlineDevice()
        let bought = Evidence.reported(
            Owls.threeMonths, transaction: "1", date: try date("2026-01-01"), store: .appStore,
            signedAt: try date("2026-01-01"))
        try await store.record(bought)
        #expect(await kind { try await store.refund(Self.first) } == .contradiction)
        #expect(try await store.access(to: Owls.access).isGranted)
        try await store.record(.refunded(Self.first, at: date("2026-01-15"), signedAt: date("2026-01-16")))
        #expect(try await store.access(to: Owls.access) == .denied(.revoked(date("2026-01-15"))))
        #expect(await kind { try await store.reinstate(Self.first) } == .contradiction)
        #expect(try await !store.access(to: Owls.access).isGranted)
        try await store.record(.reinstated(Self.first, signedAt: date("2026-01-20")))
        #expect(try await store.access(to: Owls.access).isGranted)
        // The store delivers an old copy of the refund again.
        let again = try await store.record(
            .refunded(Self.first, at: date("2026-01-15"), signedAt: date("2026-01-16")))
        #expect(try await store.access(to: Owls.access).isGranted)
        #expect(again.newFacts.isEmpty)
    }

    @Test("An unsigned refund that came first has no effect once the store's signed purchase arrives")
    func unsignedRefundFirst() async throws {
        let store = try await Household(at: "2026-02-01T00:00:00Z").offlineDevice()
        try await store.refund(Self.first)
        try await store.record(
            .reported(
                Owls.threeMonths, transaction: "1", date: date("2026-01-01"), store: .appStore,
                signedAt: date("2026-01-01")))
        #expect(try await store.access(to: Owls.access).isGranted)
        let explanation = try await store.replay().explanation(of: Owls.access, at: date("2026-02-01"))
        let effects = explanation?.sections.flatMap(\.lines).compactMap { line in
            if case .revocation = line.fact { line.effect } else { nil }
        }
        #expect(effects == [.setAside(.unsigned)])
    }

    @Test("New signatures of an unchanged transaction cause no write, and a signed correction counts")
    func redelivered() async throws {
        let counting = CountingBackend(MemoryBackend())
        let store = try await Household(at: "2026-02-01T00:00:00Z").offlineDevice(counting)
        func deliver(_ product: ProductID, signed: String) async throws -> Int {
            let writes = counting.counts.writes
            try await store.record(
                .reported(
                    product, transaction: "1", date: date("2026-01-01"), store: .appStore, signedAt: date(signed)))
            return counting.counts.writes - writes
        }
        _ = try await deliver(Owls.threeMonths, signed: "2026-01-01")
        for day in 10...20 { #expect(try await deliver(Owls.threeMonths, signed: "2026-01-\(day)") == 0) }
        #expect(try await deliver(Owls.sixMonths, signed: "2026-01-21") == 1)
        #expect(try await store.replay().facts[Self.first]?.product == Owls.sixMonths)
        // A statement that the store signed earlier is weaker.
        _ = try await deliver(Owls.threeMonths, signed: "2026-01-02")
        #expect(try await store.replay().facts[Self.first]?.product == Owls.sixMonths)
    }

    @Test("An echo of the derived expiry is not recorded, and a later refund still counts")
    func echo() async throws {
        let home = try Household(at: "2026-01-01T00:00:00Z")
        let store = try await home.offlineDevice()
        try await store.record(.reported(Owls.threeMonths, transaction: "A"))
        for day in 1...28 {
            try home.machine.set("2026-01-\(day < 10 ? "0" : "")\(day)T12:00:00Z")
            let end = try #require(try await store.end())
            let receipt = try await store.record(.asserted(Owls.random, until: end, source: "parse"))
            #expect(receipt.newFacts.isEmpty)
        }
        #expect(try await store.end() == date("2026-04-01"))
        try await store.refund(TransactionReference(id: "A"), at: date("2026-01-15"))
        #expect(try await store.end() == date("2026-01-15"))
    }

    @Test("A migrated buyer's next purchase is appended in full")
    func migrated() async throws {
        let home = try Household(at: "2026-01-01T00:00:00Z")
        let store = try await home.offlineDevice()
        try await store.record(.asserted(Owls.random, until: date("2026-02-10"), source: "parse"))
        try home.machine.set("2026-01-01T00:00:00.001Z")
        try await store.record(.reported(Owls.threeMonths, transaction: "A"))
        #expect(try await store.end() == date("2026-05-10"))
        #expect(
            await kind { try await store.record(.asserted("no", until: date("2026-02-10"), source: "p")) }
                == .unknownProduct)
        #expect(
            await kind { try await store.record(.asserted(Owls.random, until: date("2026-02-10"), source: "")) }
                == .invalid)
    }

    @Test("A store's sale of an unknown product is kept, and counts once the catalogue has the product")
    func unknownProduct() async throws {
        var home = try Household(at: "2026-01-01T00:00:00Z")
        let local = MemoryBackend()
        let store = try await home.offlineDevice(local)
        try await store.record(.reported("next-years-owl", transaction: "1", store: .appStore))
        #expect(await kind { try await store.record(.reported("next-years-owl", transaction: "1")) } == .unknownProduct)
        home.catalog = try Catalog(
            products: home.catalog.products + [Product(id: "next-years-owl", kind: .nonConsumable)])
        #expect(try await home.offlineDevice(local).snapshot().owned == ["next-years-owl"])
    }

    @Test("A test environment can be reset on every device, production cannot")
    func reset() async throws {
        let home = try Household(catalog: try Owls.catalog(consumables: .shared))
        let local = MemoryBackend()
        func open(_ local: MemoryBackend, _ environment: EnvironmentID) async throws -> EntitlementStore {
            try await home.store(local, remote: home.remote, account: home.alice, environment: environment)
        }
        let tester = try await open(local, .sandbox)
        try await tester.record([.reported(Owls.nightOwl), .reported(Owls.randomOwls), .reported(Owls.threeMonths)])
        try await tester.flag(Owls.couchOwl)
        _ = try await tester.sync()
        let buyer = try await open(local, .production)
        try await buyer.record(.reported(Owls.couchOwl))
        try await tester.reset(.sandbox)
        let snapshot = try await tester.snapshot()
        #expect(snapshot.owned.isEmpty && snapshot[balance: Owls.randomOwls] == 0)
        #expect(snapshot[group: Owls.random]?.expires == nil)
        try await tester.record(.reported(Owls.nightOwl))
        #expect(try await tester.snapshot().owned == [Owls.nightOwl])
        try await tester.sync()
        let second = try await open(MemoryBackend(), .sandbox)
        try await second.restore()
        #expect(try await second.snapshot().owned == [Owls.nightOwl])
        #expect(try await buyer.snapshot().owned == [Owls.couchOwl])
        #expect(await kind { try await buyer.reset(.production) } == .invalid)
    }

    @Test("Two versions of a transaction in one batch are a contradiction; a sandbox signature does not move the clock")
    func contradictoryBatch() async throws {
        let store = try await Household(at: "2026-02-01T00:00:00Z").offlineDevice()
        let versions: [Evidence] = [
            .reported(Owls.threeMonths, transaction: "1", store: .appStore),
            .reported(Owls.threeMonths, transaction: "1", store: .appStore, signedAt: try date("2026-01-01")),
        ]
        #expect(await kind { try await store.record(versions) } == .contradiction)
        try await store.record(
            .reported(
                Owls.nightOwl, transaction: "2", store: .appStore, environment: .sandbox,
                signedAt: date("2031-01-01")))
        #expect(try store.clockStatus.now == date("2026-02-01"))
    }
}
