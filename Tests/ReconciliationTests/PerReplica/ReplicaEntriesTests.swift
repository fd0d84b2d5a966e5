import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

/// Devices around a remote without compare-and-swap. Their documents are sets of up to 64 facts, one bit each.
private struct Replicas {
    let memory = MemoryBackend()
    let remote: CountingBackend
    let key: EntryKey
    private let host = ManualHost(seed: 7).host

    init() throws {
        remote = CountingBackend(UnconditionalBackend(memory))
        key = try EntryKey("a/ledger")
    }

    /// Creates an engine as a new process of the replica `name`.
    func engine(_ name: String?, local: any KeyValueBackend) -> SyncEngine<FactSetMerge> {
        SyncEngine(local: local, remote: remote, merge: FactSetMerge(), remoteID: "r", replica: name, host: host)
    }

    func record(_ facts: UInt64, in local: any KeyValueBackend) async throws {
        var document = OpenDocument<UInt64>(content: 0)
        var precondition = Precondition.absent
        if case .found(let entry) = try await local.read(key).outcome {
            document = try FactSetMerge().open(entry.value)
            precondition = .matches(entry.version)
        }
        document.content |= facts
        _ = try await local.write(FactSetMerge().close(document), to: key, if: precondition)
    }

    func facts(in local: any KeyValueBackend) async throws -> UInt64 {
        guard case .found(let entry) = try await local.read(key).outcome else { return 0 }
        return try FactSetMerge().open(entry.value).content
    }

    /// Stands for an entry that is not a document.
    static let noDocument = UInt64.max

    /// The entries of the remote, by name.
    func entries() async throws -> [String: UInt64] {
        var entries: [String: UInt64] = [:]
        for item in try await memory.list(prefix: "", after: nil, limit: 100).outcome.items {
            guard case .found(let entry) = try await memory.read(item.key).outcome else { continue }
            do {
                entries[item.key.text] = try FactSetMerge().open(entry.value).content
            } catch {
                entries[item.key.text] = Self.noDocument
            }
        }
        return entries
    }

    func put(_ bytes: [UInt8], at name: String) async throws {
        _ = try await memory.write(bytes, to: EntryKey(name), if: .any)
    }

    func document(_ facts: UInt64) -> [UInt8] { FactSetMerge().close(OpenDocument(content: facts)) }

    func counts(_ change: (inout CountingBackend.Counts) -> Void) -> CountingBackend.Counts {
        var counts = CountingBackend.Counts()
        change(&counts)
        return counts
    }
}

@Suite("A remote without compare-and-swap")
struct ReplicaEntriesTests {
    private let home: Replicas
    private let phone = MemoryBackend()
    private let tablet = MemoryBackend()

    init() throws {
        home = try Replicas()
    }

    @Test("Each replica writes its own entry and reads all; a sync without changes is one listing and no write")
    func exchange() async throws {
        try await home.record(0b01, in: phone)
        try await home.record(0b10, in: tablet)
        let (first, second) = (home.engine("phone", local: phone), home.engine("tablet", local: tablet))
        #expect(try await first.sync(home.key).remoteGains)
        let report = try await second.sync(home.key)
        #expect(report.localGains && report.remoteGains && report.conflicts == 0)
        #expect(try await first.sync(home.key).content == 0b11)
        #expect(try await home.entries() == ["a/ledger/phone": 0b01, "a/ledger/tablet": 0b11])
        _ = home.remote.takeCounts()
        let before = try await (home.facts(in: phone), home.facts(in: tablet), phone.changes(since: nil, limit: 99))
        for engine in [first, second, home.engine("phone", local: phone), home.engine("tablet", local: tablet)] {
            // A new process knows only the checkpoint.
            let report = try await engine.sync(home.key)
            #expect(!report.localGains && !report.remoteGains && report.remoteContent == nil)
            #expect(home.remote.takeCounts() == home.counts { $0.lists = 1 })
        }
        #expect(try await phone.changes(since: nil, limit: 99) == before.2)
    }

    @Test("A push without remote changes is a listing and a write; remote changes cost a listing and a batch")
    func requests() async throws {
        try await home.record(0b01, in: phone)
        _ = try await home.engine("phone", local: phone).sync(home.key)
        _ = home.remote.takeCounts()
        try await home.record(0b10, in: phone)
        _ = try await home.engine("phone", local: phone).sync(home.key)
        #expect(home.remote.takeCounts() == home.counts { ($0.lists, $0.writes) = (1, 1) })
        _ = try await home.engine("tablet", local: tablet).sync(home.key)
        #expect(home.remote.takeCounts() == home.counts { ($0.lists, $0.readBatches) = (1, 1) })
    }

    @Test("A long-lived engine reads only the entries that changed")
    func onlyWhatChanged() async throws {
        for number in 0..<10 { try await home.put(home.document(1 << UInt64(number)), at: "a/ledger/r\(number)") }
        let engine = home.engine("phone", local: phone)
        #expect(try await engine.sync(home.key).content == 0b11_1111_1111)
        let before = home.remote.fetchedByteCount
        try await home.put(home.document(1 << 20), at: "a/ledger/r3")
        #expect(try await engine.sync(home.key).content == 0b11_1111_1111 | 1 << 20)
        // The lost fact was known from r3's earlier entry and is in no other entry, so the engine also wrote.
        #expect(home.remote.fetchedByteCount - before == 9)
        #expect(try await home.entries()["a/ledger/phone"] == 0b11_1111_1111 | 1 << 20)
    }

    @Test(
        "An unreadable entry is reported, does not block the others, and is merged once it is readable",
        arguments: [[], [1], [2, 0, 0, 0, 0, 0, 0, 0, 1]] as [[UInt8]])
    func unreadable(bytes: [UInt8]) async throws {
        try await home.put(home.document(0b001), at: "a/ledger/laptop")
        try await home.put(bytes, at: "a/ledger/tablet")
        try await home.record(0b100, in: phone)
        let engine = home.engine("phone", local: phone)
        for round in 0..<3 {
            let report = try await engine.sync(home.key)
            #expect(report.content == 0b101 && report.remoteGains == (round == 0))
            #expect(report.unreadable.map(\.key.text) == ["a/ledger/tablet"])
        }
        #expect(try await home.entries()["a/ledger/tablet"] == Replicas.noDocument)
        try await home.put(home.document(0b010), at: "a/ledger/tablet")
        let report = try await home.engine("phone", local: phone).sync(home.key)
        #expect(report.content == 0b111 && report.unreadable.isEmpty)
    }

    @Test("An entry that is damaged under its old version is merged again once it is complete")
    func damagedUnderAVersion() async throws {
        // A listing that trusts headers gives a partly copied file the version of the complete one.
        let isDamaged = TestFlag()
        let faulty = FaultyBackend(home.remote) { call in
            call.operation == .read && call.key?.text == "a/ledger/tablet" && isDamaged.isSet
                ? .permanent(.damaged) : nil
        }
        try await home.put(home.document(0b10), at: "a/ledger/tablet")
        isDamaged.set(true)
        func engine() -> SyncEngine<FactSetMerge> {
            SyncEngine(local: phone, remote: faulty, merge: FactSetMerge(), remoteID: "r", replica: "phone")
        }
        #expect(try await engine().sync(home.key).unreadable.count == 1)
        isDamaged.set(false)
        #expect(try await engine().sync(home.key).content == 0b10)
    }

    @Test("A store that becomes unavailable during a read is an error, not absence")
    func away() async throws {
        try await home.put(home.document(0b10), at: "a/ledger/tablet")
        try await home.record(0b01, in: phone)
        for operation in [BackendError.Operation.list, .read] {
            let faulty = FaultyBackend(home.remote) { $0.operation == operation ? .transient : nil }
            let engine = SyncEngine(local: phone, remote: faulty, merge: FactSetMerge(), replica: "phone")
            let error = await #expect(throws: SyncError.self) { try await engine.sync(home.key) }
            #expect(error?.isTransient == true && error?.hasReceived == false)
        }
        #expect(try await home.entries() == ["a/ledger/tablet": 0b10])
    }

    @Test("A replica whose own entry is unreadable keeps it and writes another", arguments: [1, 2] as [UInt8])
    func ownEntryDamaged(format: UInt8) async throws {
        try await home.put([format, 9], at: "a/ledger/phone")
        try await home.record(0b1, in: phone)
        for round in 0..<2 {
            let report = try await home.engine("phone", local: phone).sync(home.key)
            #expect(report.remoteGains == (round == 0) && report.unreadable.count == 1)
        }
        #expect(try await home.entries() == ["a/ledger/phone": Replicas.noDocument, "a/ledger/phone+2": 0b1])
        // Then the complete file arrives, with facts that exist nowhere else.
        try await home.put(home.document(0b10), at: "a/ledger/phone")
        #expect(try await home.engine("phone", local: phone).sync(home.key).content == 0b11)
    }

    @Test("A local store that was restored from a backup recovers its lost facts from its own entry")
    func restoredBackup() async throws {
        let engine = home.engine("phone", local: phone)
        try await home.record(0b001, in: phone)
        _ = try await engine.sync(home.key)
        guard case .found(let backup) = try await phone.read(home.key).outcome else {
            Issue.record("the phone has no entry \(home.key)")
            return
        }
        try await home.record(0b010, in: phone)
        _ = try await engine.sync(home.key)
        _ = try await phone.write(backup.value, to: home.key, if: .any)
        try await home.record(0b100, in: phone)
        #expect(try await engine.sync(home.key).content == 0b111)
        #expect(try await home.entries() == ["a/ledger/phone": 0b111])
    }

    @Test("Two devices with the same replica name overwrite nothing permanently")
    func clones() async throws {
        try await home.record(0b01, in: phone)
        try await home.record(0b10, in: tablet)
        for _ in 0..<2 {
            _ = try await home.engine("same", local: phone).sync(home.key)
            _ = try await home.engine("same", local: tablet).sync(home.key)
        }
        #expect(try await (home.facts(in: phone), home.facts(in: tablet)) == (0b11, 0b11))
        #expect(try await home.entries() == ["a/ledger/same": 0b11])
    }

    @Test("A dry run predicts a sync without writing")
    func dryRun() async throws {
        try await home.put(home.document(0b10), at: "a/ledger/tablet")
        try await home.record(0b01, in: phone)
        let promised = try await home.engine("phone", local: phone).dryRun(home.key)
        #expect(home.remote.takeCounts().writes == 0)
        let done = try await home.engine("phone", local: phone).sync(home.key)
        for report in [promised, done] {
            #expect(report.content == 0b11 && report.localGains && report.remoteGains && report.arrivedContent == 0b10)
        }
        try await home.record(0b100, in: phone)
        _ = home.remote.takeCounts()
        #expect(try await home.engine("phone", local: phone).dryRun(home.key).remoteGains)
        #expect(home.remote.takeCounts() == home.counts { $0.lists = 1 })
    }

    @Test(
        "A write of unknown outcome is repeated; after a rejected one the read content stays", arguments: [true, false])
    func failingWrites(isLost: Bool) async throws {
        try await home.put(home.document(0b10), at: "a/ledger/tablet")
        try await home.record(0b01, in: phone)
        let isFirst = TestFlag()
        let faulty = FaultyBackend(home.remote) { call in
            guard call.operation == .write, !isFirst.isSet || !isLost else { return nil }
            isFirst.set(true)
            return isLost ? .lostAnswer : .permanent(.full)
        }
        let engine = SyncEngine(local: phone, remote: faulty, merge: FactSetMerge(), replica: "phone")
        if isLost {
            let report = try await engine.sync(home.key)
            #expect(report.content == 0b11 && report.conflicts == 0)
        } else {
            let error = await #expect(throws: SyncError.self) { try await engine.sync(home.key) }
            #expect(error?.hasReceived == true)
            #expect(try await home.facts(in: phone) == 0b11)
            let again = await #expect(throws: SyncError.self) { try await engine.sync(home.key) }
            #expect(again?.hasReceived == true)
        }
    }

    @Test("Many entries are read in pages and batches")
    func pages() async throws {
        for number in 0..<250 { try await home.put(home.document(1 << UInt64(number % 60)), at: "a/ledger/r\(number)") }
        // An entry of another document, one level deeper.
        try await home.put(home.document(1 << 63), at: "a/ledger/x/y")
        let report = try await home.engine("phone", local: phone).sync(home.key)
        #expect(report.content == 1 << 60 - 1)
        #expect(home.remote.takeCounts() == home.counts { ($0.lists, $0.readBatches) = (1, 3) })
    }

    @Test("The engine rejects a missing replica name")
    func nameless() async throws {
        for name in [nil, "", "a/b"] {
            let error = await #expect(throws: SyncError.self) {
                try await home.engine(name, local: phone).sync(home.key)
            }
            #expect(error?.isTransient == false && error?.description.contains("pass a replica name") == true)
        }
    }
}
