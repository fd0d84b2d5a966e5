import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Requests to the remote")
struct RequestTableTests {
    private let local = CountingBackend(MemoryBackend())
    private let remote = CountingBackend(MemoryBackend())
    private let host = ManualHost(seed: 5).host
    private let key: EntryKey

    init() throws {
        key = try EntryKey("ledger")
    }

    private var engine: SyncEngine<LedgerMerge> {
        SyncEngine(local: local, remote: remote, merge: LedgerMerge(), remoteID: "remote", host: host)
    }

    /// Joins a record to the ledger on one side, as another writer would.
    private func add(_ name: String, to backend: CountingBackend) async throws {
        var document = LedgerDocument()
        var precondition = Precondition.absent
        if case .found(let entry) = try await backend.read(key).outcome {
            document = try LedgerDocument(decoding: entry.value)
            precondition = .matches(entry.version)
        }
        document.ledger = document.ledger.joined(
            with: Ledger([Record(key: Array(name.utf8), order: [1], payload: [2])]))
        _ = try await backend.write(document.encoded(), to: key, if: precondition)
    }

    private func records(on backend: CountingBackend) async throws -> [String] {
        guard case .found(let entry) = try await backend.read(key).outcome else { return [] }
        return try LedgerDocument(decoding: entry.value).ledger.records.map { String(decoding: $0.key, as: UTF8.self) }
    }

    /// Syncs a first record, so that both sides hold it and the local side has a checkpoint. Resets the counts.
    private func syncFirst() async throws {
        try await add("first", to: local)
        _ = try await engine.sync(key)
        (_, _) = (local.takeCounts(), remote.takeCounts())
    }

    /// Syncs once and returns the requests to each side.
    private func sync() async throws -> (local: CountingBackend.Counts, remote: CountingBackend.Counts) {
        (_, _) = (local.takeCounts(), remote.takeCounts())
        _ = try await engine.sync(key)
        return (local.takeCounts(), remote.takeCounts())
    }

    private func counts(reads: Int = 0, writes: Int = 0) -> CountingBackend.Counts {
        var counts = CountingBackend.Counts()
        (counts.reads, counts.writes) = (reads, writes)
        return counts
    }

    @Test("No changes: one read, and no write on either side")
    func nothingChanged() async throws {
        try await syncFirst()
        let requests = try await sync()
        #expect(requests.remote == counts(reads: 1))
        #expect(requests.local == counts(reads: 1))
    }

    @Test("Remote changes: one read, and one local write with the new content and the checkpoint")
    func remoteChanged() async throws {
        try await syncFirst()
        try await add("second", to: remote)
        let requests = try await sync()
        #expect(requests.remote == counts(reads: 1))
        #expect(requests.local == counts(reads: 1, writes: 1))
        #expect(try await records(on: local) == ["first", "second"])
    }

    @Test("Local changes: one optimistic write")
    func localChanged() async throws {
        try await syncFirst()
        try await add("second", to: local)
        let requests = try await sync()
        #expect(requests.remote == counts(writes: 1))
        #expect(requests.local == counts(reads: 1, writes: 1))
        #expect(try await records(on: remote) == ["first", "second"])
    }

    @Test("Changes on both sides: two writes, the second based on the content that the first one conflicted with")
    func bothChanged() async throws {
        try await syncFirst()
        try await add("second", to: remote)
        try await add("third", to: local)
        let requests = try await sync()
        #expect(requests.remote == counts(writes: 2))
        #expect(requests.local == counts(reads: 1, writes: 1))
        #expect(try await records(on: remote) == ["first", "second", "third"])
        #expect(try await records(on: local) == ["first", "second", "third"])
    }

    @Test("First contact with local content: one read and one write", arguments: [true, false])
    func firstContact(remoteIsEmpty: Bool) async throws {
        if !remoteIsEmpty { try await add("second", to: remote) }
        try await add("first", to: local)
        let requests = try await sync()
        #expect(requests.remote == counts(reads: 1, writes: 1))
        #expect(requests.local == counts(reads: 1, writes: 1))
    }

    @Test("A new device with an empty store: one read, and nothing is written to the remote")
    func newDevice() async throws {
        try await add("first", to: remote)
        let before = try await remote.read(key).outcome
        let requests = try await sync()
        #expect(requests.remote == counts(reads: 1))
        #expect(requests.local == counts(reads: 1, writes: 1))
        #expect(try await records(on: local) == ["first"])
        #expect(try await remote.read(key).outcome == before)
    }

    @Test("A new device and a new remote: one read and no writes")
    func nothingAnywhere() async throws {
        let requests = try await sync()
        #expect(requests.remote == counts(reads: 1))
        #expect(requests.local == counts(reads: 1))
    }

    @Test("The sync after any sync makes one read on each side")
    func idleAfterwards() async throws {
        try await syncFirst()
        let changes: [[CountingBackend]] = [[], [remote], [local], [local, remote]]
        for (number, sides) in changes.enumerated() {
            for (side, backend) in sides.enumerated() { try await add("\(number)-\(side)", to: backend) }
            _ = try await engine.sync(key)
            let requests = try await sync()
            #expect(requests.remote == counts(reads: 1), "case \(number)")
            #expect(requests.local == counts(reads: 1), "case \(number)")
        }
    }

    @Test("The local section is never sent to the remote")
    func localSection() async throws {
        try await syncFirst()
        guard case .found(let there) = try await remote.read(key).outcome,
            case .found(let here) = try await local.read(key).outcome
        else {
            Issue.record("a side is empty")
            return
        }
        #expect(try LedgerDocument(decoding: there.value).localSection.isEmpty)
        #expect(try !LedgerDocument(decoding: here.value).localSection.isEmpty)
    }
}
