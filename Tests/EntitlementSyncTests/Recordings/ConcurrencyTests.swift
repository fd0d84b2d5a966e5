import EntitlementSync
import Entitlements
import FileStorage
import SyncCore
import TestSupport
import Testing

@Suite("Several store objects over one local backend")
struct ConcurrencyTests {
    /// Records `count` purchases through each store object concurrently. Returns the ids of their transactions.
    private func recordConcurrently(_ stores: [EntitlementStore], count: Int) async throws -> Set<String> {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, store) in stores.enumerated() {
                for number in 0..<count {
                    group.addTask {
                        let id = TransactionID("\(index)-\(number)")
                        try await store.record(.reported(Owls.threeMonths, transaction: id))
                    }
                }
            }
            try await group.waitForAll()
        }
        return Set((0..<stores.count).flatMap { index in (0..<count).map { "\(index)-\($0)" } })
    }

    @Test("Concurrent purchases through two store objects over one memory backend are all kept")
    func memory() async throws {
        let home = try Household()
        let local = MemoryBackend()
        let stores = [try await home.offlineDevice(local), try await home.offlineDevice(local)]
        let expected = try await recordConcurrently(stores, count: 40)
        for store in stores {
            #expect(Set(try await store.replay().facts.purchases.map(\.transaction.id.rawValue)) == expected)
        }
    }

    @Test("Concurrent purchases through two file backends of one folder are all kept")
    func folder() async throws {
        let folder = try TemporaryFolder()
        let home = try Household()
        var stores: [EntitlementStore] = []
        // On a busy machine one object may write for a long time before the other gets the lock.
        for _ in 0..<2 {
            let local = FileBackend(folder: folder.path, lockTimeout: .seconds(300))
            stores.append(try await home.offlineDevice(local))
        }
        let expected = try await recordConcurrently(stores, count: 10)
        let reopened = try await home.offlineDevice(FileBackend(folder: folder.path))
        #expect(Set(try await reopened.replay().facts.purchases.map(\.transaction.id.rawValue)) == expected)
    }

    @Test("One transaction recorded concurrently through many store objects adds one purchase and one recording")
    func oneTransaction() async throws {
        let home = try Household()
        let local = MemoryBackend()
        let newFacts = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<8 {
                let store = try await home.offlineDevice(local)
                group.addTask { try await store.record(.reported(Owls.threeMonths, transaction: "t")).newFacts.count }
            }
            return try await group.reduce(0, +)
        }
        #expect(newFacts == 2)
        #expect(try await home.offlineDevice(local).end() == date("2026-04-10T12:00:00Z"))
    }

    @Test("Concurrent recording and syncing loses nothing on either side")
    func recordingWhileSyncing() async throws {
        let home = try Household()
        let (phone, tablet) = (try await home.device(), try await home.device())
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (name, store) in [("phone", phone), ("tablet", tablet)] {
                for number in 0..<20 {
                    group.addTask {
                        try await store.record(
                            .reported(Owls.nightOwl, transaction: TransactionID("\(name)-\(number)")))
                    }
                    if number.isMultiple(of: 5) { group.addTask { try await store.sync() } }
                }
            }
            try await group.waitForAll()
        }
        for store in [phone, tablet, phone] { try await store.sync() }
        #expect(try await phone.replay().facts.purchases.count == 40)
        #expect(try await phone.localLedgers().account == tablet.localLedgers().account)
    }
}
