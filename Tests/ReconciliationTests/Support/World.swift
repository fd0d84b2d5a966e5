@testable import SyncCore

/// A model of two or three devices and a remote. Syncs are interleaved effect by effect and meet every fault: lost
/// requests and responses, late writes, crashes, restored backups and wiped stores.
struct World<Random: RandomNumberGenerator> {
    private typealias Machine = Reconciler<FactSetMerge>

    private struct Device {
        var local = Cell()
        var backups: [Cell] = [Cell()]
        var machine: Machine?
        var effect: Machine.Effect?
    }

    private struct LateWrite {
        var bytes: [UInt8]
        var precondition: Precondition
    }

    private var devices: [Device]
    private var remote = Cell()
    private var remoteBackups: [Cell] = [Cell()]
    private var lateWrites: [LateWrite] = []
    private var versions = Versions()
    private var random: Random
    private var nextFact: UInt64 = 1
    /// The first violation of a rule by a reconciler.
    private(set) var violation: String?

    init(devices count: Int, random: Random) {
        devices = Array(repeating: Device(), count: count)
        self.random = random
    }

    /// All facts that exist in some store.
    var surviving: UInt64 { devices.reduce(remote.facts) { $0 | $1.local.facts } }
    /// All facts that were ever recorded.
    var recorded: UInt64 { nextFact &- 1 }
    /// The facts in each store, the remote's last.
    var contents: [UInt64] { devices.map(\.local.facts) + [remote.facts] }

    private mutating func roll(_ sides: Int) -> Int { Int.random(in: 0..<sides, using: &random) }

    // MARK: Faults

    /// Performs one random event. Only restoring a backup may remove facts from a store.
    mutating func step() {
        let index = roll(devices.count)
        let before = (devices[index].local.facts, remote.facts)
        switch roll(40) {
        case 0..<4: record(on: index)
        case 4: crash(index)
        case 5: devices[index].backups.append(devices[index].local)
        case 6: remoteBackups.append(remote)
        case 7: deliverLateWrite()
        // The first backup is empty, so restoring it wipes the store.
        case 8:
            if let backup = devices[index].backups.randomElement(using: &random) { devices[index].local = backup }
            return
        case 9:
            if let backup = remoteBackups.randomElement(using: &random) { remote = backup }
            return
        default: advance(index)
        }
        let lost = before.0 & ~devices[index].local.facts | before.1 & ~remote.facts
        if lost != 0 { violation = violation ?? "a store lost \(String(lost, radix: 2))" }
    }

    private mutating func record(on index: Int) {
        guard nextFact < 1 << 60 else { return }
        devices[index].local.record(nextFact, &versions)
        nextFact <<= 1
    }

    private mutating func crash(_ index: Int) {
        devices[index].machine = nil
        devices[index].effect = nil
    }

    private mutating func deliverLateWrite() {
        guard !lateWrites.isEmpty else { return }
        let write = lateWrites.remove(at: roll(lateWrites.count))
        _ = remote.write(write.bytes, if: write.precondition, &versions)
    }

    /// Performs the next effect of a device's sync, or starts a sync if none is running.
    private mutating func advance(_ index: Int) {
        guard var machine = devices[index].machine, let effect = devices[index].effect else {
            var machine = Machine(merge: FactSetMerge(), remoteID: "remote", maximumAttempts: 4)
            devices[index].effect = machine.start(from: held(on: index))
            devices[index].machine = machine
            return
        }
        guard let event = perform(effect, on: index, isFaulty: true) else { return crash(index) }
        devices[index].effect = machine.handle(event)
        devices[index].machine = machine
    }

    /// Returns the document with which a caller begins a sync: the current one, one that it read earlier, or none.
    private mutating func held(on index: Int) -> HeldDocument<UInt64>? {
        let cell: Cell? =
            switch roll(4) {
            case 0: devices[index].local
            case 1: devices[index].backups.randomElement(using: &random)
            default: nil
            }
        return cell.map { HeldDocument(version: $0.entry?.version, document: $0.document ?? OpenDocument(content: 0)) }
    }

    /// Performs an effect and returns the resulting event; `nil` at the end of the sync.
    private mutating func perform(_ effect: Machine.Effect, on index: Int, isFaulty: Bool) -> Machine.Event? {
        violation = violation ?? effect.violation
        let fault = isFaulty && roll(6) == 0 ? roll(5) : nil
        let (failure, takesEffect) = Self.failure(fault)
        switch effect {
        case .readLocal:
            if let failure { return .localRead(.failure(failure)) }
            return .localRead(.success(devices[index].local.read(unless: nil)))
        case .readRemote(let known):
            if let failure { return .remoteRead(.failure(failure)) }
            return .remoteRead(.success(remote.read(unless: known)))
        case .writeRemote(let bytes, let precondition):
            if fault == 4 { lateWrites.append(LateWrite(bytes: bytes, precondition: precondition)) }
            if failure != nil, !takesEffect { return .remoteWritten(.failure(failure ?? Self.outcomeUnknown)) }
            let outcome = remote.write(bytes, if: precondition, &versions)
            return .remoteWritten(failure.map { .failure($0) } ?? .success(outcome))
        case .writeLocal(let bytes, let precondition):
            if failure != nil, !takesEffect { return .localWritten(.failure(failure ?? Self.outcomeUnknown)) }
            let outcome = devices[index].local.write(bytes, if: precondition, &versions)
            return .localWritten(failure.map { .failure($0) } ?? .success(outcome))
        case .pause:
            return .resumed
        case .finish:
            return nil
        }
    }

    private static var outcomeUnknown: BackendError {
        BackendError(.unavailable, disposition: .outcomeUnknown, message: "lost")
    }

    /// Returns the error that a fault reports, and `true` if the operation takes effect at once nevertheless.
    private static func failure(_ fault: Int?) -> (BackendError?, takesEffect: Bool) {
        switch fault {
        case 0: (BackendError(.unavailable, disposition: .transient, message: "away"), false)
        case 1: (BackendError(.permissionDenied, message: "refused"), false)
        // The request is lost.
        case 2: (outcomeUnknown, false)
        // The response is lost.
        case 3: (outcomeUnknown, true)
        // A write takes effect later.
        case 4: (outcomeUnknown, false)
        default: (nil, true)
        }
    }

    // MARK: Recovery

    /// Stops all faults and aborts running syncs, then syncs every device `rounds` times.
    ///
    /// - Returns: The number of writes in the last round, to any store, and the requests to the remote of each device.
    mutating func heal(rounds: Int) -> (writes: Int, requests: [Int]) {
        lateWrites = []
        for index in devices.indices { crash(index) }
        var writes = 0
        var requests: [Int] = []
        for _ in 0..<rounds {
            writes = 0
            requests = []
            for index in devices.indices {
                let counts = syncToEnd(index)
                writes += counts.writes
                requests.append(counts.requests)
            }
        }
        return (writes, requests)
    }

    private mutating func syncToEnd(_ index: Int) -> (writes: Int, requests: Int) {
        var machine = Machine(merge: FactSetMerge(), remoteID: "remote")
        var effect = machine.start()
        var (writes, requests) = (0, 0)
        while let event = perform(effect, on: index, isFaulty: false) {
            switch effect {
            case .readRemote: requests += 1
            case .writeRemote: (writes, requests) = (writes + 1, requests + 1)
            case .writeLocal: writes += 1
            case .readLocal, .pause, .finish: break
            }
            effect = machine.handle(event)
        }
        if case .finish(.failure(let error)) = effect {
            violation = violation ?? "a sync without faults failed: \(error)"
        }
        return (writes, requests)
    }
}
