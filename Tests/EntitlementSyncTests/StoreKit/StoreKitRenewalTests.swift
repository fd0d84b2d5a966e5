import EntitlementSync
import EntitlementSyncStoreKit
import Entitlements
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Renewal states from StoreKit")
struct StoreKitRenewalTests {
    private let household: Household
    private let local = MemoryBackend()
    private static let catalogue = """
        {"products":[{"id":"cinema.monthly","type":"autoRenewable","group":"cinema","level":1,"duration":"P1M"}],
         "entitlements":[{"id":"cinema","grantedBy":["group:cinema"]}]}
        """

    init() throws {
        household = try Household(at: "2026-02-10T12:00:00Z", catalog: Catalog(json: Self.catalogue.utf8))
    }

    /// A month that ended on February 10.
    private func source() throws -> FakeStoreKit {
        FakeStoreKit([
            StoreKitTransaction(
                id: 1, product: "cinema.monthly", productType: .autoRenewable, purchaseDate: try date("2026-01-10"),
                expirationDate: try date("2026-02-10"), signedDate: try date("2026-01-10T12:00:00Z"),
                jws: "header.1.signature")
        ])
    }

    private func renewal(
        signedAt: String = "2026-02-10T12:00:00Z", willRenew: Bool = true, graceEnd: String? = "2026-02-16",
        failure: String? = nil
    ) throws -> StoreKitRenewal {
        StoreKitRenewal(
            originalID: 1, willRenew: willRenew, graceEnd: try graceEnd.map { try date($0) },
            isInBillingRetry: graceEnd != nil, signedDate: try date(signedAt), verificationFailure: failure)
    }

    private func feed(_ source: FakeStoreKit, _ store: EntitlementStore) -> StoreKitFeed {
        StoreKitFeed(store, source: source, host: household.machine.host)
    }

    @Test("In a billing grace period access continues, and an update ends it")
    func grace() async throws {
        let (source, store) = (try source(), try await household.offlineDevice(local))
        await feed(source, store).run()
        #expect(try await !store.access(to: "cinema").isGranted)
        source.set([try renewal()])
        await feed(source, store).run()
        #expect(try await store.access(to: "cinema").isGranted)
        #expect(try await store.snapshot()[group: "cinema"]?.renewal?.willRenew == true)
        source.set([])
        source.deliver([try renewal(signedAt: "2026-02-11T12:00:00Z", willRenew: false, graceEnd: nil)])
        await feed(source, store).run()
        #expect(try await !store.access(to: "cinema").isGranted)
    }

    @Test("A state that is known, or that StoreKit does not accept, writes nothing")
    func unchanged() async throws {
        let (source, store) = (try source(), try await household.offlineDevice(local))
        source.set([try renewal()])
        await feed(source, store).run()
        let before = try await contents(of: local)
        source.set([
            try renewal(signedAt: "2026-02-11T12:00:00Z"),
            try renewal(signedAt: "2026-02-12T12:00:00Z", willRenew: false, failure: "the chain ends elsewhere"),
        ])
        await feed(source, store).run()
        #expect(try await contents(of: local) == before)
    }
}
