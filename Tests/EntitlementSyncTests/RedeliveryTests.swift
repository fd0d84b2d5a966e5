import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import Synchronization
import Testing

@Suite("The same thing told twice")
struct RedeliveryTests {
    @Test("A transaction that is redelivered to four devices is three months, by either rule")
    func redelivery() async throws {
        for rule in [StackPurchases() as any ExpiryRule, LatestExpiryWins()] {
            let home = try Household(catalog: try Owls.catalog(expiry: rule))
            for _ in 1...4 {
                let device = try await home.device()
                try await device.restore()
                try await device.record(.reported(Owls.threeMonths, transaction: "1000", date: date("2026-01-01")))
                try await device.sync()
                #expect(try await device.end() == date("2026-04-01"), "\(rule.name)")
            }
        }
    }

    @Test("An idempotency key that has spent a unit grants no entitlement that units do not open")
    func keyOfAnotherEntitlement() async throws {
        let device = try await Household().offlineDevice()
        try await device.record(.reported(Owls.randomOwls))
        _ = try await device.use(Owls.access, id: "key")
        await #expect { _ = try await device.use(Owls.nightOwlAccess, id: "key") } throws: { error in
            (error as? EntitlementError)?.kind == .contradiction
        }
    }

    @Test("A refund now counts although a later one was noted before")
    func earlierRefund() async throws {
        let home = try Household()
        let device = try await home.offlineDevice()
        let transaction = TransactionReference(id: "5")
        try await device.record(.reported(Owls.threeMonths, transaction: "5"))
        try await device.refund(transaction, at: date("2026-03-01"))
        #expect(try await device.refund(transaction) != nil)
        #expect(try await !device.access(to: Owls.access).isGranted)
        #expect(try await device.refund(transaction) == nil)
    }

    @Test("A purchase reported to a store of the sandbox is none in production")
    func sandbox() async throws {
        let local = MemoryBackend()
        let catalog = try Owls.catalog()
        let tester = try await EntitlementStore(catalog: catalog, local: local, environment: .sandbox)
        try await tester.record(.reported(Owls.nightOwl))
        #expect(try await tester.access(to: Owls.nightOwlAccess).isGranted)
        let buyer = try await EntitlementStore(catalog: catalog, local: local)
        #expect(try await buyer.access(to: Owls.nightOwlAccess) == .denied(.notPurchased))
    }

    @Test("A write of unknown outcome is written again, although what it wrote can be seen")
    func seenIsNotDurable() async throws {
        let counting = CountingBackend(MemoryBackend())
        let isFirst = Mutex(true)
        // The answer to the first write of the ledger is lost; the replica's id was written before.
        let faulty = FaultyBackend(
            counting,
            plan: FaultyBackend.Plan { call in
                guard call.operation == .write, call.key?.text == "anonymous/ledger" else { return nil }
                return isFirst.withLock { isFirst in
                    defer { isFirst = false }
                    return isFirst ? .lostAnswer : nil
                }
            })
        let store = try await EntitlementStore(catalog: try Owls.catalog(), local: faulty)
        let receipt = try await store.record(.reported(Owls.nightOwl))
        #expect(receipt.newFacts.count == 2)
        #expect(counting.counts.writes == 3)
    }
}
