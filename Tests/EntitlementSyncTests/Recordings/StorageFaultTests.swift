import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Recording over a failing local backend")
struct StorageFaultTests {
    private let home: Household
    private let memory = MemoryBackend()
    private let ledgerKey: EntryKey
    private let deviceKey: EntryKey

    init() throws {
        home = try Household()
        ledgerKey = try EntryKey("accounts/alice/initial/ledger")
        deviceKey = try EntryKey("device/accounts/alice/initial/ledger")
    }

    /// A backend whose first writes of `key` fail with the given faults.
    private func failing(_ key: EntryKey, _ faults: [FaultyBackend.Fault?]) -> FaultyBackend {
        let writes = Counter()
        return FaultyBackend(memory) { call in
            guard call.operation == .write, call.key == key else { return nil }
            let number = writes.next()
            return number < faults.count ? faults[number] : nil
        }
    }

    @Test(
        "A write of unknown outcome is resolved, and its facts are reported as new exactly once",
        arguments: [
            [.lostAnswer], [.lostRequest], [.lostRequest, .lostAnswer], [.lostRequest, .lostRequest, nil],
        ] as [[FaultyBackend.Fault?]])
    func unknownOutcome(faults: [FaultyBackend.Fault?]) async throws {
        let store = try await home.offlineDevice(failing(ledgerKey, faults))
        let receipt = try await store.record(.reported(Owls.threeMonths, transaction: "t"))
        #expect(receipt.newFacts.count == 2)
        #expect(try await store.record(.reported(Owls.threeMonths, transaction: "t")).newFacts.isEmpty)
        #expect(try await home.offlineDevice(memory).end() == date("2026-04-10T12:00:00Z"))
    }

    @Test(
        "A spend of unknown outcome is resolved and spends one unit",
        arguments: [.lostAnswer, .lostRequest] as [FaultyBackend.Fault])
    func unknownSpend(fault: FaultyBackend.Fault) async throws {
        try await home.offlineDevice(memory).record(.reported(Owls.randomOwls))
        let store = try await home.offlineDevice(failing(deviceKey, [fault]))
        #expect(try await store.use(Owls.access) == .spent(remaining: 4, of: Owls.randomOwls))
    }

    @Test(
        "A write of the replica's id with unknown outcome is resolved, and the id does not change",
        arguments: [.lostAnswer, .lostRequest] as [FaultyBackend.Fault])
    func unknownReplica(fault: FaultyBackend.Fault) async throws {
        let store = try await home.offlineDevice(failing(EntryKey("device/replica"), [fault]))
        try await store.record(.reported(Owls.threeMonths, transaction: "t"))
        let again = try await home.offlineDevice(memory).record(.reported(Owls.threeMonths, transaction: "t"))
        #expect(again.newFacts.isEmpty, "a new replica id would record it again")
    }

    @Test("A rejected write is a storage error, and nothing is recorded")
    func refused() async throws {
        let store = try await home.offlineDevice(failing(ledgerKey, [.permanent(.full)]))
        let error = await #expect(throws: EntitlementError.self) {
            try await store.record(.reported(Owls.threeMonths, transaction: "t"))
        }
        #expect(error?.kind == .storage)
        #expect(error?.backendError?.kind == .full)
        #expect(error?.isTransient == false)
        #expect(try await store.localLedgers().account.isEmpty)
        #expect(try await store.record(.reported(Owls.threeMonths, transaction: "t")).newFacts.count == 2)
    }

    @Test("A written fact counts as recorded and is published, even if the backend cannot be read afterwards")
    func unreadableAfterwards() async throws {
        let isWritten = Switch()
        let key = ledgerKey
        let backend = FaultyBackend(memory) { call in
            if call.operation == .write, call.key == key { isWritten.set() }
            return call.operation == .read && isWritten.isSet ? .transient : nil
        }
        let store = try await home.offlineDevice(backend)
        let events = store.events
        let receipt = try await store.record(.reported(Owls.threeMonths, transaction: "t"))
        #expect(receipt.newFacts.count == 2)
        #expect(await events.take(1).map(line) == ["purchased t"])
        #expect(try await home.offlineDevice(memory).end() == date("2026-04-10T12:00:00Z"))
    }

    @Test("A damaged replica id keeps from recording, and from nothing else")
    func damagedReplica() async throws {
        let store = try await home.offlineDevice(memory)
        try await store.record(.reported(Owls.threeMonths, transaction: "t"))
        _ = try await memory.write([1, 2, 3], to: EntryKey("device/replica"), if: .any)
        #expect(try await store.access(to: Owls.access).isGranted)
        let reopened = try await home.offlineDevice(memory)
        #expect(try await reopened.end() == date("2026-04-10T12:00:00Z"))
        let error = await #expect(throws: EntitlementError.self) {
            try await reopened.record(.reported(Owls.threeMonths, transaction: "u"))
        }
        #expect(error?.kind == .damaged)
    }

    @Test("A failed read is a storage error, not an empty ledger")
    func unreadable() async throws {
        let isAway = Switch()
        let backend = FaultyBackend(memory) { _ in isAway.isSet ? .transient : nil }
        let store = try await home.offlineDevice(backend)
        try await store.record(.reported(Owls.nightOwl))
        isAway.set()
        let error = await #expect(throws: EntitlementError.self) { try await store.access(to: Owls.nightOwlAccess) }
        #expect(error?.kind == .storage)
        #expect(error?.isTransient == true)
    }

    @Test("A damaged document makes every call fail, and is left unchanged", arguments: [true, false])
    func damaged(account: Bool) async throws {
        let key = account ? ledgerKey : deviceKey
        let store = try await home.offlineDevice(memory)
        try await store.record([.reported(Owls.threeMonths), .reported(Owls.randomOwls)])
        guard case .found(let entry) = try await memory.read(key).outcome else {
            Issue.record("nothing was recorded under \(key)")
            return
        }
        _ = try await memory.write(entry.value.dropLast(), to: key, if: .any)
        let before = try await contents(of: memory)

        let calls: [(EntitlementStore) async throws -> Void] = [
            { _ = try await $0.access(to: Owls.access) }, { _ = try await $0.snapshot() },
            { _ = try await $0.use(Owls.access) }, { _ = try await $0.record(.reported(Owls.threeMonths)) },
            { _ = try await $0.refund(TransactionReference(id: "t")) }, { _ = try await $0.flag(Owls.nightOwl) },
            { _ = try await $0.preview(buying: Owls.threeMonths) }, { _ = try await $0.snapshots() },
        ]
        for (number, call) in calls.enumerated() {
            let error = await #expect(throws: EntitlementError.self, "call \(number)") { try await call(store) }
            #expect(error?.kind == .damaged, "call \(number)")
            #expect(error?.message.contains("\"\(key)\"") == true, "call \(number)")
        }
        #expect(await kind { try await home.offlineDevice(memory) } == .damaged)
        #expect(try await contents(of: memory) == before)
    }

    @Test(
        "A full ledger rejects new facts, and a batch that needs it is rejected as a whole", arguments: [true, false])
    func full(account: Bool) async throws {
        let megabyte = [UInt8](repeating: 0, count: 1 << 20)
        let records = (1...4).map { number in
            Record(key: [0x22, 1, UInt8(number)], order: [], payload: number == 4 ? megabyte.dropLast(80) : megabyte)
        }
        let document = LedgerDocument(ledger: Ledger(records)).encoded()
        _ = try await memory.write(document, to: account ? ledgerKey : deviceKey, if: .absent)
        let store = try await home.offlineDevice(memory)
        // Writes the replica's id first, so that the batch has only facts to write.
        try await store.flag(Owls.nightOwl, isSet: false)
        let before = try await contents(of: memory)
        let error = await #expect(throws: EntitlementError.self) {
            try await store.record([.reported(Owls.threeMonths), .reported(Owls.randomOwls)])
        }
        #expect(error?.kind == .ledgerFull)
        #expect(try await contents(of: memory) == before)
    }

    @Test("A local backend without conditional writes is rejected")
    func unsuitable() async throws {
        let unsuitable = WithoutPreconditions()
        #expect(await kind { try await home.offlineDevice(unsuitable) } == .unsuitableStore)
    }
}
