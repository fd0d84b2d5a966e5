import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

/// Random syncs of many replicas are part of the simulation.
@Suite("Two stores that are each other's remote")
struct MeshTests {
    @Test("They hold the union of their records and stop writing once they are equal")
    func eachOthersRemote() async throws {
        let host = ManualHost(seed: 1).host
        let stores = (0..<2).map { _ in CountingBackend(MemoryBackend(host: host)) }
        let key = try EntryKey("ledger")
        let ledgers = (1...2 as ClosedRange<UInt8>).map { Ledger([Record(key: [$0], order: [], payload: [])]) }
        for (store, ledger) in zip(stores, ledgers) {
            _ = try await store.write(LedgerDocument(ledger: ledger).encoded(), to: key, if: .absent)
        }
        func syncBoth(times: Int) async throws {
            for _ in 0..<times {
                for (local, remote) in [(0, 1), (1, 0)] {
                    let engine = SyncEngine(
                        local: stores[local], remote: stores[remote], merge: LedgerMerge(), remoteID: "store \(remote)",
                        host: host)
                    _ = try await engine.sync(key)
                }
            }
        }
        try await syncBoth(times: 2)
        for store in stores { _ = store.takeCounts() }
        try await syncBoth(times: 5)
        #expect(stores.map { $0.takeCounts().writes } == [0, 0])
        for store in stores {
            guard case .found(let entry) = try await store.read(key).outcome else {
                Issue.record("the ledger is absent")
                continue
            }
            #expect(try LedgerDocument(decoding: entry.value).ledger == ledgers[0].joined(with: ledgers[1]))
        }
    }
}
