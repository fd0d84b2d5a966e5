import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import Synchronization
import TestSupport
import Testing

/// The cost of each call in requests. A batch is one request.
@Suite("Requests to both stores")
struct RequestCountTests {
    private let home: Household
    private let local: CountingBackend
    private let remote: CountingBackend

    init() throws {
        home = try Household()
        local = CountingBackend(MemoryBackend(host: home.machine.host))
        remote = CountingBackend(home.remote)
    }

    private struct Cost: Equatable {
        var local = CountingBackend.Counts()
        var remote = CountingBackend.Counts()
        /// The bytes of the values that the local store returned. Without any, nothing can be decoded.
        var decoded = 0

        init(local: (batches: Int, writes: Int), remote: (reads: Int, writes: Int) = (0, 0)) {
            (self.local.readBatches, self.local.writes) = local
            (self.remote.reads, self.remote.writes) = remote
        }

        init(local: CountingBackend.Counts, remote: CountingBackend.Counts, decoded: Int) {
            (self.local, self.remote, self.decoded) = (local, remote, decoded)
        }
    }

    private func cost(of call: () async throws -> Void) async throws -> Cost {
        _ = (local.takeCounts(), remote.takeCounts())
        let fetched = local.fetchedByteCount
        try await call()
        return Cost(
            local: local.takeCounts(), remote: remote.takeCounts(), decoded: local.fetchedByteCount - fetched)
    }

    /// A store that has recorded a purchase and synced.
    private func device() async throws -> EntitlementStore {
        let store = try await home.device(local, remote: remote)
        try await store.record(.reported(Owls.threeMonths, transaction: "first"))
        try await store.sync()
        return store
    }

    @Test("A record is one read and one write")
    func record() async throws {
        let store = try await device()
        let cost = try await cost {
            try await store.record(.reported(Owls.threeMonths, transaction: "second"))
        }
        #expect(cost == Cost(local: (1, 1)))
        let again = try await self.cost {
            try await store.record(.reported(Owls.threeMonths, transaction: "second"))
        }
        #expect(again == Cost(local: (1, 0)))
    }

    @Test("A use is one read, and one write if it spends a unit")
    func use() async throws {
        let store = try await device()
        #expect(try await cost { _ = try await store.use(Owls.access) } == Cost(local: (1, 0)))
        try await store.record(.reported(Owls.randomOwls))
        try home.machine.set("2027-01-10T12:00:00Z")
        #expect(try await cost { _ = try await store.use(Owls.access) } == Cost(local: (1, 1)))
    }

    @Test("Access, a snapshot and a preview on an unchanged store are one read each, and decode nothing")
    func access() async throws {
        let store = try await device()
        #expect(try await cost { _ = try await store.access(to: Owls.access) } == Cost(local: (1, 0)))
        #expect(try await cost { _ = try await store.snapshot() } == Cost(local: (1, 0)))
        #expect(try await cost { _ = try await store.preview(buying: Owls.threeMonths) } == Cost(local: (1, 0)))
    }

    @Test("A sync without changes is one local and one remote read, and decodes nothing")
    func idle() async throws {
        let store = try await device()
        #expect(try await cost { try await store.sync() } == Cost(local: (1, 0), remote: (1, 0)))
    }

    @Test("A sync without changes costs the same if the server has decided about purchases")
    func idleWithDecisions() async throws {
        let server = try EvidenceServer(home.alice, catalog: home.catalog)
        let remote = CountingBackend(server)
        try await server.set(.verified)
        let store = try await home.device(local, remote: remote)
        try await store.record(.reported(Owls.threeMonths, transaction: "first"))
        try await store.sync()
        #expect(try await store.access(to: Owls.access) == .denied(.unverified))
        _ = remote.takeCounts()
        #expect(try await cost { try await store.sync() } == Cost(local: (1, 0)))
        #expect(remote.takeCounts() == Cost(local: (0, 0), remote: (1, 0)).remote)
    }

    @Test("A sync that sends writes to each side once, and does not read its own write")
    func sending() async throws {
        let store = try await device()
        try await store.record(.reported(Owls.threeMonths, transaction: "second"))
        #expect(try await cost { try await store.sync() } == Cost(local: (1, 1), remote: (0, 1)))
        #expect(try await cost { _ = try await store.access(to: Owls.access) } == Cost(local: (1, 0)))
    }

    @Test("A sync that receives writes to the local side once, and does not read its own write")
    func receiving() async throws {
        let store = try await device()
        let tablet = try await home.device()
        try await tablet.record(.reported(Owls.threeMonths, transaction: "second"))
        try await tablet.sync()
        #expect(try await cost { try await store.sync() } == Cost(local: (1, 1), remote: (1, 0)))
        var end: Timestamp?
        #expect(try await cost { end = try await store.end() } == Cost(local: (1, 0)))
        #expect(try end == date("2026-07-10T12:00:00Z"))
    }

    @Test("The change of another process is read and decoded once")
    func otherProcess() async throws {
        let store = try await device()
        let other = try await home.device(local.base, remote: remote)
        try await other.record(.reported(Owls.threeMonths, transaction: "second"))
        let first = try await cost { _ = try await store.access(to: Owls.access) }
        #expect(first.local.total == 1 && first.decoded > 0)
        #expect(try await cost { _ = try await store.access(to: Owls.access) } == Cost(local: (1, 0)))
    }

    @Test("Opening a store is two reads: the account that is logged in, and its documents")
    func opening() async throws {
        _ = try await device()
        let cost = try await cost { _ = try await home.store(local, remote: remote) }
        #expect(cost.local.reads == 1 && cost.local.readBatches == 1 && cost.local.total == 2)
        #expect(cost.remote.total == 0)
    }

    @Test("The batch reads what a sync and an adoption write last in the order that keeps both safe")
    func order() async throws {
        let backend = RecordedBatches(base: MemoryBackend())
        let store = try await home.device(backend, remote: remote)
        _ = try await store.access(to: Owls.access)
        let names = backend.last.map { key in key.text.split(separator: "/").suffix(1).joined() }
        #expect(names == ["meetings", "ledger", "ledger", "decisions", "replica", "clock"])
        #expect(backend.last[1].hasPrefix("device/"))
    }
}

/// A backend that keeps the keys of the last batch of reads.
private final class RecordedBatches: ForwardingBackend {
    let base: any KeyValueBackend
    private let keys = Mutex<[EntryKey]>([])

    init(base: any KeyValueBackend) { self.base = base }

    var last: [EntryKey] { keys.withLock { $0 } }

    func read(_ requests: [ReadRequest]) async throws(BackendError) -> Answer<[Result<ReadOutcome, BackendError>]> {
        keys.withLock { $0 = requests.map(\.key) }
        return try await base.read(requests)
    }
}
