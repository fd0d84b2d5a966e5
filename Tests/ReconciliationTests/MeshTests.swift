import EntitlementSync
import Entitlements
import EntitlementsTestSupport
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

/// Five stores. Each is the remote of some and the local store of others.
private struct Mesh {
    let stores: [CountingBackend]
    let key: EntryKey
    private let host: HostServices

    init(seed: UInt64) throws {
        let host = ManualHost(seed: seed).host
        stores = (0..<5).map { _ in CountingBackend(MemoryBackend(host: host)) }
        key = try EntryKey("ledger")
        self.host = host
    }

    func sync(_ local: Int, with remote: Int) async throws {
        let engine = SyncEngine(
            local: stores[local], remote: stores[remote], merge: LedgerMerge(), remoteID: "store \(remote)", host: host)
        _ = try await engine.sync(key)
    }

    /// Syncs every store with every other, in both directions. Returns the number of writes.
    func syncAll() async throws -> Int {
        for store in stores { _ = store.takeCounts() }
        for local in stores.indices {
            for remote in stores.indices where remote != local { try await sync(local, with: remote) }
        }
        return stores.reduce(0) { $0 + $1.takeCounts().writes }
    }

    func ledger(_ index: Int) async throws -> Ledger {
        guard case .found(let entry) = try await stores[index].read(key).outcome else { return Ledger() }
        return try LedgerDocument(decoding: entry.value).ledger
    }

    func add(_ ledger: Ledger, to index: Int) async throws {
        var document = LedgerDocument()
        var precondition = Precondition.absent
        if case .found(let entry) = try await stores[index].read(key).outcome {
            document = try LedgerDocument(decoding: entry.value)
            precondition = .matches(entry.version)
        }
        document.ledger = document.ledger.joined(with: ledger)
        _ = try await stores[index].write(document.encoded(), to: key, if: precondition)
    }
}

@Suite("Five replicas that sync in pairs")
struct MeshTests {
    @Test("They converge to the union of all records and then stop writing")
    func converge() async throws {
        let cases = 150
        let seed = printedSeed("five replicas")
        for number in 0..<cases {
            let place: Comment = "seed \(seed), case \(number)"
            var random = SplitMix64(seed: seed &+ UInt64(number))
            let mesh = try Mesh(seed: random.next())
            var union = Ledger()
            for _ in 0..<30 {
                if random.chance(1, in: 3) {
                    let ledger = Ledger.random(upTo: 4, using: &random)
                    union = union.joined(with: ledger)
                    try await mesh.add(ledger, to: Int(random.int(0...4)))
                } else {
                    let local = Int(random.int(0...4))
                    try await mesh.sync(local, with: (local + Int(random.int(1...4))) % 5)
                }
            }
            _ = try await mesh.syncAll()
            _ = try await mesh.syncAll()
            for index in mesh.stores.indices { try #require(try await mesh.ledger(index) == union, place) }
            try #require(try await mesh.syncAll() == 0, place)
        }
    }

    @Test("Two stores that are each other's remote stop writing once they are equal")
    func eachOthersRemote() async throws {
        let mesh = try Mesh(seed: 1)
        try await mesh.add(Ledger([Record(key: [1], order: [], payload: [])]), to: 0)
        for _ in 0..<2 {
            try await mesh.sync(0, with: 1)
            try await mesh.sync(1, with: 0)
        }
        for store in mesh.stores { _ = store.takeCounts() }
        for _ in 0..<5 {
            try await mesh.sync(0, with: 1)
            try await mesh.sync(1, with: 0)
        }
        #expect(mesh.stores.map { $0.takeCounts().writes } == [0, 0, 0, 0, 0])
    }
}
