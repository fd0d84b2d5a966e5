import EntitlementSync
import EntitlementSyncStoreKit
import Entitlements
import SyncCore
import SyncCoreTesting
import Synchronization
import Testing
import TestSupport

@Suite("The feed from StoreKit")
struct StoreKitFeedTests {
    private let household: Household
    private let local = MemoryBackend()
    private let events = FeedEvents()

    init() throws { household = try Household() }

    private func store(_ local: (any KeyValueBackend)? = nil) async throws -> EntitlementStore {
        try await household.offlineDevice(local ?? self.local)
    }

    private func feed(_ source: FakeStoreKit, _ store: EntitlementStore) -> StoreKitFeed {
        let events = events
        return StoreKitFeed(store, source: source, host: household.machine.host) { events.note($0) }
    }

    /// Three months, bought on January 10.
    private func sale(
        _ id: UInt64, of product: ProductID = Owls.threeMonths, type: StoreKitTransaction.ProductType = .nonRenewing,
        signedAt: String = "2026-01-10T12:00:00Z", revokedAt: String? = nil, environment: EnvironmentID = .production
    ) throws -> StoreKitTransaction {
        StoreKitTransaction(
            id: id, product: product, productType: type, purchaseDate: try date("2026-01-10"),
            revocationDate: try revokedAt.map { try date($0) }, environment: environment,
            signedDate: try date(signedAt), jws: "header.\(id).signature")
    }

    @Test("Unfinished transactions are recorded at the start, and finished then")
    func unfinished() async throws {
        let source = FakeStoreKit([
            try sale(1), try sale(2), try sale(3, of: Owls.nightOwl, type: .nonConsumable),
            try sale(4, of: Owls.randomOwls, type: .consumable),
        ])
        let store = try await store()
        await events.run(feed(source, store))
        #expect(source.finished == [1, 2, 3, 4])
        #expect(events.lines == (1...4).map { "\($0) recorded, new" })
        let snapshot = try await store.snapshot()
        #expect(snapshot[group: Owls.random]?.expires == (try date("2026-07-10")))
        #expect(snapshot.owned == [Owls.nightOwl])
        #expect(snapshot[balance: Owls.randomOwls] == 5)
        // A restart delivers nothing, and the history says nothing new.
        let before = try await contents(of: local)
        await events.run(feed(source, try await self.store()))
        #expect(source.finished == [1, 2, 3, 4])
        #expect(try await contents(of: local) == before)
    }

    @Test("Updates in every order, each delivered twice, end in the same state")
    func orders() async throws {
        let transactions = [
            try sale(1), try sale(2), try sale(2, signedAt: "2026-02-01T00:00:00Z", revokedAt: "2026-02-01"),
            try sale(3, of: Owls.nightOwl, type: .nonConsumable),
        ]
        for order in Permutations.of(transactions) {
            let source = FakeStoreKit()
            source.deliver(order + order)
            let store = try await store(MemoryBackend())
            await events.run(feed(source, store))
            let snapshot = try await store.snapshot()
            #expect(snapshot[group: Owls.random]?.expires == (try date("2026-04-10")), "\(order.map(\.id))")
            #expect(snapshot.owned == [Owls.nightOwl])
        }
    }

    @Test("A refund while the app was closed counts at the next start, and its reversal too")
    func refund() async throws {
        let source = FakeStoreKit([try sale(1)])
        let store = try await store()
        await events.run(feed(source, store))
        source.set(try sale(1, signedAt: "2026-02-02T00:00:00Z", revokedAt: "2026-02-01"))
        await events.run(feed(source, store))
        #expect(try await store.end() == date("2026-02-01"))
        source.set(try sale(1, signedAt: "2026-02-03T00:00:00Z"))
        await events.run(feed(source, store))
        #expect(try await store.end() == date("2026-04-10"))
    }

    @Test("A transaction that StoreKit does not accept is neither recorded nor finished, and stops no other")
    func unverified() async throws {
        var forged = try sale(1, of: Owls.nightOwl, type: .nonConsumable)
        forged.verificationFailure = "invalid signature"
        let source = FakeStoreKit([forged, try sale(2)])
        let store = try await store()
        let feed = feed(source, store)
        await events.run(feed)
        #expect(events.lines == ["1 unverified: invalid signature", "2 recorded, new"])
        #expect(source.finished == [2])
        #expect(try await store.snapshot().owned.isEmpty)
        await #expect(throws: StoreKitFeedError.self) { try await feed.take(.purchased(forged), of: Owls.nightOwl) }
        #expect(try await store.snapshot().owned.isEmpty)
    }

    @Test("Purchases of the sandbox and of Xcode do not count in production, and no server gets those of Xcode")
    func environments() async throws {
        let source = FakeStoreKit([
            try sale(1, environment: .sandbox), try sale(2, environment: .xcode),
        ])
        let store = try await store()
        await events.run(feed(source, store))
        #expect(source.finished == [1, 2])
        #expect(try await store.end() == nil)
        #expect(try await store.waitingEvidenceCount() == 1)
        for environment in [EnvironmentID.sandbox, .xcode] {
            let debug = try await household.store(local, account: household.alice, environment: environment)
            #expect(try await debug.end() == date("2026-04-10"))
        }
    }

    @Test("A purchase that cannot be recorded stays unfinished and keeps no other out")
    func invalid() async throws {
        var wrong = try sale(1)
        wrong.quantity = 0
        let source = FakeStoreKit([wrong, try sale(2)])
        let store = try await store()
        await events.run(feed(source, store))
        // Once as an unfinished transaction, and once in the history.
        #expect(events.lines.filter { $0 == "1 failed: invalid" }.count == 2)
        #expect(source.finished == [2])
        #expect(try await store.end() == date("2026-04-10"))
    }

    @Test("While the disk fails, the feed tries again, and finishes only then")
    func failingDisk() async throws {
        let failures = Mutex(3)
        let disk = FaultyBackend(
            local,
            plan: .init { call in
                guard call.operation == .write else { return nil }
                return failures.withLock { count in
                    guard count > 0 else { return nil }
                    count -= 1
                    return .permanent(.unavailable)
                }
            })
        let source = FakeStoreKit([try sale(1)])
        let store = try await store(disk)
        await events.run(feed(source, store))
        #expect(events.lines.filter { $0 == "1 failed: storage, again" }.count > 0)
        #expect(source.finished == [1])
        #expect(try await store.end() == date("2026-04-10"))
    }

    @Test("A crash at any call to the disk finishes nothing early, loses nothing, and counts nothing twice")
    func crash() async throws {
        for isDone in [false, true] {
            var step = 0
            while true {
                let disk = MemoryBackend()
                let source = FakeStoreKit([
                    try sale(1), try sale(2, of: Owls.randomOwls, type: .consumable),
                ])
                source.deliver([try sale(3)])
                let failing = crashing(disk, atCall: step, isDone: isDone)
                if let store = try? await store(failing) {
                    await events.run(feed(source, store), endsAtFailure: true)
                }
                let survivor = try await store(disk).snapshot()
                if source.finished.contains(1) {
                    #expect(survivor[group: Owls.random]?.isActive == true, "step \(step)")
                }
                if source.finished.contains(2) { #expect(survivor[balance: Owls.randomOwls] == 5, "step \(step)") }
                // StoreKit delivers again what was not finished.
                if !source.finished.contains(3) { source.set(try sale(3)) }
                let store = try await store(disk)
                await events.run(feed(source, store))
                #expect(Set(source.finished) == [1, 2, 3], "step \(step), done: \(isDone)")
                let snapshot = try await store.snapshot()
                #expect(snapshot[group: Owls.random]?.expires == (try date("2026-07-10")), "step \(step)")
                #expect(snapshot[balance: Owls.randomOwls] == 5, "step \(step)")
                if failing.callCount <= step { break }
                step += 1
            }
            #expect(step > 10)
        }
    }
}

/// All orders of a list.
enum Permutations {
    static func of<Element>(_ list: [Element]) -> [[Element]] {
        guard list.count > 1 else { return [list] }
        return list.indices.flatMap { index -> [[Element]] in
            var rest = list
            let first = rest.remove(at: index)
            return of(rest).map { [first] + $0 }
        }
    }
}
