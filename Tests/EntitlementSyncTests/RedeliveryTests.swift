import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import Synchronization
import Testing

@Suite("Repeated deliveries")
struct RedeliveryTests {
    @Test("A transaction delivered to four devices counts once, under both expiry rules")
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

    @Test("A restored transaction that is reported again agrees with its own statement")
    func restoredCopy() async throws {
        let device = try await Household().offlineDevice()
        func reported(_ id: TransactionID, _ date: String, signedAt: String? = nil) throws -> Evidence {
            .reported(
                Owls.nightOwl, transaction: id, date: try Timestamp(date), original: "100", store: .appStore,
                signedAt: try signedAt.map { try Timestamp($0) })
        }
        try await device.record(reported("100", "2026-01-01"))
        try await device.record(reported("177", "2026-06-01", signedAt: "2026-06-01"))
        try await device.record(reported("177", "2026-06-01"))
        await #expect { try await device.record(reported("177", "2026-01-01")) } throws: { error in
            (error as? EntitlementError)?.kind == .contradiction
        }
    }

    @Test("An idempotency key that has spent a unit does not grant an entitlement that units cannot grant")
    func keyOfAnotherEntitlement() async throws {
        let device = try await Household().offlineDevice()
        try await device.record(.reported(Owls.randomOwls))
        _ = try await device.use(Owls.access, id: "key")
        await #expect { _ = try await device.use(Owls.nightOwlAccess, id: "key") } throws: { error in
            (error as? EntitlementError)?.kind == .contradiction
        }
    }

    @Test("An earlier refund counts even if a later one was recorded before")
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

    @Test("A write of unknown outcome is repeated, even if its data is already visible")
    func seenIsNotDurable() async throws {
        let counting = CountingBackend(MemoryBackend())
        let isFirst = Mutex(true)
        // Loses the response to the first write of the ledger, which follows the write of the replica's id.
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
