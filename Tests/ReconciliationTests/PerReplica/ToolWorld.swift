import EntitlementsTestSupport
import SyncCore
import TestSupport

/// Devices whose folders an unreliable file-sync tool keeps equal. It is late, delivers in any order, sometimes
/// delivers half a file or an older one first, and makes conflict copies when both sides changed a file.
struct ToolWorld {
    struct Device {
        var replica: String
        var local: MemoryBackend
        var folder: ModelFolder
        var engine: SyncEngine<FactSetMerge>
        /// The files as the tool last synced them between this device and its hub.
        var base: [String: Revision] = [:]
        var backups: [[UInt8]] = []
    }

    /// A revision of a file on the tool's hub.
    struct Revision: Equatable {
        var number: Int
        var file: ModelFile
    }

    /// The number of events of each kind, so that a test can verify that they occurred.
    struct Tally {
        var halves = 0, copies = 0, olderFiles = 0, losses = 0, clones = 0, restores = 0, unreadable = 0
    }

    private(set) var devices: [Device] = []
    private(set) var tally = Tally()
    /// The first violation of a rule.
    private(set) var violation: String?
    /// All recorded facts, except those that only existed on a device whose local store was restored.
    private(set) var acknowledged: UInt64 = 0
    private(set) var recorded: UInt64 = 0
    private var hub: [String: Revision] = [:]
    private var history: [String: [Revision]] = [:]
    private var lastRevision = 0
    private var random: SplitMix64
    private let host: HostServices
    private let key: EntryKey

    init(devices count: Int, random: SplitMix64) throws {
        self.random = random
        host = ManualHost(seed: self.random.next()).host
        key = try EntryKey("ledger")
        for number in 0..<count { devices.append(makeDevice("r\(number)")) }
    }

    private func makeDevice(_ replica: String) -> Device {
        let local = MemoryBackend(host: host)
        let folder = ModelFolder(host: host, document: key)
        return Device(replica: replica, local: local, folder: folder, engine: engine(replica, local, folder))
    }

    private func engine(_ replica: String, _ local: MemoryBackend, _ folder: ModelFolder) -> SyncEngine<FactSetMerge> {
        SyncEngine(local: local, remote: folder, merge: FactSetMerge(), remoteID: "r", replica: replica, host: host)
    }

    private mutating func roll(_ sides: Int) -> Int { Int(random.int(0...Int64(sides - 1))) }

    private mutating func pick(_ names: [String]) -> String? { names.isEmpty ? nil : names[roll(names.count)] }

    // MARK: Events

    mutating func step() async throws {
        let index = roll(devices.count)
        switch roll(40) {
        case 0..<6: try await record(on: index)
        case 6..<16: try await sync(index)
        case 16..<24: if let name = pick(devices[index].folder.all.keys.sorted()) { upload(name, from: index) }
        case 24..<32: if let name = pick(hub.keys.sorted()) { download(name, to: index, half: roll(4) == 0) }
        case 32, 33: deliverOlder(to: index)
        case 34: regressHub(try await localUnion())
        case 35: try await lose(index)
        case 36: try await clone(index)
        case 37: if let bytes = try await document(of: index) { devices[index].backups.append(bytes) }
        case 38: try await restoreBackup(index)
        default: _ = try await devices[index].engine.dryRun(key)
        }
    }

    private mutating func record(on index: Int) async throws {
        guard recorded < 1 << 59 else { return }
        let fact = recorded + 1
        var document = OpenDocument<UInt64>(content: 0)
        var precondition = Precondition.absent
        if case .found(let entry) = try await devices[index].local.read(key).outcome {
            document = try FactSetMerge().open(entry.value)
            precondition = .matches(entry.version)
        }
        document.content |= fact
        _ = try await devices[index].local.write(FactSetMerge().close(document), to: key, if: precondition)
        recorded |= fact
        acknowledged |= fact
    }

    private mutating func sync(_ index: Int) async throws {
        if roll(4) == 0 {
            let device = devices[index]
            devices[index].engine = engine(device.replica, device.local, device.folder)
        }
        let before = try await facts(of: index)
        let halves = devices[index].folder.all.values.count { !$0.isWhole }
        let report = try await devices[index].engine.sync(key)
        tally.unreadable += report.unreadable.count
        if before & ~report.content != 0 { note("a sync lost \(before & ~report.content)") }
        if try await facts(of: index) != report.content { note("the report is not what was saved") }
        // A partly copied file whose complete version is known is not read at all.
        if report.unreadable.count > halves { note("\(report.unreadable.count) of \(halves) reported") }
    }

    private mutating func note(_ text: String) { violation = violation ?? text }

    // MARK: The tool

    /// Uploads a file that changed on the device. If it changed on the hub too, this one becomes a conflict copy.
    private mutating func upload(_ name: String, from index: Int) {
        let device = devices[index]
        guard let file = device.folder[name], file.isWhole, file != device.base[name]?.file else { return }
        if hub[name]?.file == file {
            devices[index].base[name] = hub[name]
        } else if hub[name]?.number == device.base[name]?.number {
            publish(file, as: name)
            devices[index].base[name] = hub[name]
        } else {
            tally.copies += 1
            let copy = "\(name) (conflicted copy \(tally.copies))"
            devices[index].folder[copy] = file
            devices[index].folder[name] = hub[name]?.file
            devices[index].base[name] = hub[name]
            upload(copy, from: index)
        }
    }

    private mutating func publish(_ file: ModelFile, as name: String) {
        lastRevision += 1
        let revision = Revision(number: lastRevision, file: file)
        hub[name] = revision
        history[name, default: []].append(revision)
    }

    /// Downloads a file that changed on the hub, unless it changed on the device.
    private mutating func download(_ name: String, to index: Int, half: Bool) {
        guard let revision = hub[name], isUntouched(name, on: index) else { return }
        guard devices[index].base[name] != revision || devices[index].folder[name] != revision.file else { return }
        var file = revision.file
        if half {
            tally.halves += 1
            file.isWhole = false
        } else {
            devices[index].base[name] = revision
        }
        devices[index].folder[name] = file
    }

    /// Returns `true` if the tool has sent everything that the device has under that name.
    private func isUntouched(_ name: String, on index: Int) -> Bool {
        guard let file = devices[index].folder[name] else { return true }
        return !file.isWhole || file == devices[index].base[name]?.file
    }

    private mutating func deliverOlder(to index: Int) {
        guard let name = pick(hub.keys.sorted()), isUntouched(name, on: index), let all = history[name] else { return }
        let older = all[roll(all.count)]
        if older != hub[name] { tally.olderFiles += 1 }
        devices[index].folder[name] = older.file
        devices[index].base[name] = older
    }

    /// Makes an older file the newest one on the hub, while some device still knows the newest content.
    private mutating func regressHub(_ known: UInt64) {
        guard let name = pick(hub.keys.sorted()), let all = history[name], let now = hub[name],
            now.file.facts & ~known == 0
        else { return }
        tally.olderFiles += 1
        publish(all[roll(all.count)].file, as: name)
    }

    // MARK: Disasters

    /// Loses a device permanently, after everything that it had was delivered.
    private mutating func lose(_ index: Int) async throws {
        let device = devices[index]
        let delivered = hub.values.reduce(0) { $0 | $1.file.facts }
        let own = device.folder.all.values.reduce(try await facts(of: index)) { $0 | $1.facts }
        guard devices.count > 2, own & ~delivered == 0 else { return }
        tally.losses += 1
        devices.remove(at: index)
    }

    /// Sets up another device from a copy of this one, including the replica name.
    private mutating func clone(_ index: Int) async throws {
        guard devices.count < 6, roll(3) == 0 else { return }
        tally.clones += 1
        var copy = makeDevice(devices[index].replica)
        if let bytes = try await document(of: index) { _ = try await copy.local.write(bytes, to: key, if: .any) }
        copy.folder.all = devices[index].folder.all
        copy.base = devices[index].base
        devices.append(copy)
    }

    private mutating func restoreBackup(_ index: Int) async throws {
        guard !devices[index].backups.isEmpty else { return }
        tally.restores += 1
        let backup = devices[index].backups[roll(devices[index].backups.count)]
        let before = try await facts(of: index)
        var elsewhere = hub.values.reduce(try FactSetMerge().open(backup).content) { $0 | $1.file.facts }
        for other in devices.indices where other != index { elsewhere |= try await facts(of: other) }
        acknowledged &= ~(before & ~elsewhere)
        _ = try await devices[index].local.write(backup, to: key, if: .any)
    }

    // MARK: Recovery

    /// Lets the tool deliver everything and all devices sync, `rounds` times.
    mutating func heal(rounds: Int) async throws {
        for _ in 0..<rounds {
            for index in devices.indices { try await sync(index) }
            for _ in 0..<2 {
                for index in devices.indices {
                    for name in devices[index].folder.all.keys.sorted() { upload(name, from: index) }
                }
                for index in devices.indices {
                    for name in hub.keys.sorted() { download(name, to: index, half: false) }
                }
            }
        }
    }

    /// Returns the requests that a sync without changes makes to the folder of each device.
    mutating func idleRequests() async throws -> [[Int]] {
        var requests: [[Int]] = []
        for index in devices.indices {
            _ = devices[index].folder.takeCounts()
            let before = try await devices[index].local.read(key).outcome
            let report = try await devices[index].engine.sync(key)
            let counts = devices[index].folder.takeCounts()
            requests.append([counts.lists, counts.reads, counts.writes])
            if try await devices[index].local.read(key).outcome != before { note("an idle sync writes locally") }
            if report.remoteGains || report.localGains || report.conflicts != 0 { note("an idle sync reports gains") }
        }
        return requests
    }

    /// Replaces all processes, so that only stored state remains.
    mutating func restartAll() {
        for (index, device) in devices.enumerated() {
            devices[index].engine = engine(device.replica, device.local, device.folder)
        }
    }

    func contents() async throws -> [UInt64] {
        var contents: [UInt64] = []
        for index in devices.indices { contents.append(try await facts(of: index)) }
        return contents
    }

    private func localUnion() async throws -> UInt64 { try await contents().reduce(0, |) }

    private func document(of index: Int) async throws -> [UInt8]? {
        if case .found(let entry) = try await devices[index].local.read(key).outcome { entry.value } else { nil }
    }

    private func facts(of index: Int) async throws -> UInt64 {
        try await document(of: index).map { try FactSetMerge().open($0).content } ?? 0
    }
}
