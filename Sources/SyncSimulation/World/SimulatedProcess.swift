import EntitlementSync
import SyncCore
import SyncCoreTesting
import Synchronization

/// A process on a device: the app or a second process beside it. It can crash at any of its operations.
///
/// Swift cannot stop a task from outside, so a crashed process is isolated instead: all its store operations fail
/// without effect and its results are ignored. Its remaining tasks run to their end without being observable.
/// Single-threaded.
final class SimulatedProcess: @unchecked Sendable {
    let device: SimulatedDevice
    let index: Int
    unowned let world: World
    private(set) var isAlive = true
    /// The store that it runs; `nil` until its stores are open and after it has ended.
    private(set) var store: EntitlementStore?
    /// Resolved when its stores are open or it has ended.
    private let opening = Reply<Void>()
    /// The number of operations until it crashes.
    var operationsUntilCrash: Int?
    private var waiting: [(number: UInt64, action: () -> Void)] = []
    private var lastNumber: UInt64 = 0
    private var subscribers: [AsyncStream<Void>.Continuation] = []
    /// The number of answers that carried the remote's time.
    var timedAnswerCount = 0
    /// The number of pending requests to the remote, and the number of clock moves when the first of them was sent.
    private(set) var requestsUnderWay = 0
    private(set) var clockMovesSeen = 0
    /// The true time of the last request, in milliseconds since 1970 UTC.
    private(set) var lastRequestAt: Int64 = 0
    /// True if the last request was sent while another was pending.
    private(set) var isOverlapping = false
    var tasks: [Task<Void, Never>] = []
    private var hostBits: SeededGenerator
    /// Keys of the remote for which this process's last write conflicted with another one.
    private var conflicting: Set<EntryKey> = []
    /// Values that this process wrote to the remote with an unknown outcome.
    private var unsettled: [EntryKey: [UInt8]] = [:]
    private var pace = PaceCheck()
    /// True after the first round of a store that keeps itself up to date.
    private var isRunning = false
    private var signalledRoundCount = 0
    /// More than a round takes, also with faults, in microseconds.
    private static let longestRound: Int64 = 3_600_000_000
    /// True if a write to the remote was answered but not yet noted in the local store.
    var isBeforeCheckpoint = false

    init(on device: SimulatedDevice, index: Int, launch: Int, world: World) {
        self.device = device
        self.index = index
        self.world = world
        hostBits = world.random.generator(for: 16 * device.index + index, launch, .host)
    }

    /// The host services of the process.
    var host: HostServices {
        HostServices(
            now: { self.device.wallClock }, timer: SimulationClock(scheduler: world.scheduler),
            randomBits: { self.hostBits.next() })
    }

    /// Starts an operation. A scheduled crash happens here.
    func begin(_ operation: BackendError.Operation, _ key: EntryKey?) throws(BackendError) {
        if !world.scheduler.executor.isOnItsThread { world.didEscape() }
        if let count = operationsUntilCrash {
            if count <= 0 { end() } else { operationsUntilCrash = count - 1 }
        }
        try checkAlive(operation, key)
    }

    func checkAlive(_ operation: BackendError.Operation, _ key: EntryKey?) throws(BackendError) {
        guard isAlive else { throw BackendError.processEnded.during(operation, key: key) }
    }

    /// Waits for this many microseconds, or until the process ends.
    func pause(_ microseconds: Int64) async {
        let reply = Reply<Void>()
        let number = self.await { reply.resolve(()) }
        world.scheduler.at(world.scheduler.now + microseconds) { reply.resolve(()) }
        await reply.wait()
        forget(number)
    }

    /// Calls `action` when the process ends. Returns a number for ``forget(_:)``.
    func await(_ action: @escaping () -> Void) -> UInt64 {
        lastNumber += 1
        if isAlive { waiting.append((lastNumber, action)) } else { action() }
        return lastNumber
    }

    func forget(_ number: UInt64) {
        waiting.removeAll { $0.number == number }
    }

    /// Called when its stores are open.
    func didOpen(_ store: EntitlementStore) {
        self.store = store
        opening.resolve(())
    }

    /// The store that it runs, once its stores are open; `nil` if it ends before.
    func openedStore() async -> EntitlementStore? {
        if store == nil, isAlive { await opening.wait() }
        return store
    }

    /// Ends the process, as if it were killed.
    func end() {
        guard isAlive else { return }
        isAlive = false
        if isBeforeCheckpoint { world.marks.reach(.crashBeforeCheckpoint) }
        world.recorder.record(device.lane, .crashed, index, .crashed(process: index))
        for item in waiting { item.action() }
        waiting = []
        for subscriber in subscribers { subscriber.finish() }
        subscribers = []
        for task in tasks { task.cancel() }
        tasks = []
        // The store retains the host services, which retain this process.
        store = nil
        opening.resolve(())
        world.auditor.didEnd(self)
    }

    /// Records a write to the remote with an unknown outcome.
    func didLoseOutcome(of key: EntryKey, _ value: [UInt8]) { unsettled[key] = value }

    /// A stream of the remote's change signals, as far as the network delivers them.
    func subscribe() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        if isAlive { subscribers.append(continuation) } else { continuation.finish() }
        return stream
    }

    /// Delivers a change signal of the remote, which must lead to a round.
    func signal() {
        guard isAlive, !device.isCut(.incoming) else { return }
        pace.didSignal()
        for subscriber in subscribers { subscriber.yield() }
        guard isRunning else { return }
        let rounds = signalledRoundCount
        world.scheduler.at(world.scheduler.now + Self.longestRound) { [self] in
            guard isAlive, signalledRoundCount == rounds else { return }
            world.report(.pace, "process \(index) missed a signal of the remote", lane: device.lane)
        }
    }

    /// Called after each round of a store that keeps itself up to date.
    func didRound(_ round: RunRound) {
        if round.isSignalled { signalledRoundCount += 1 }
        isRunning = true
        guard isAlive, round.hasSynced, let count = pace.didSync(at: world.trueTime) else { return }
        world.report(.pace, "process \(index) synced \(count) times in an hour", lane: device.lane)
    }

    var isSubscribed: Bool { !subscribers.isEmpty }

    func beginRequest() {
        isOverlapping = requestsUnderWay > 0
        if !isOverlapping { clockMovesSeen = device.clockMoves }
        requestsUnderWay += 1
        lastRequestAt = world.trueTime
    }

    func endRequest() { requestsUnderWay -= 1 }

    /// Records the answer to a write to the remote.
    func didWrite(_ key: EntryKey, _ outcome: WriteOutcome, _ value: [UInt8], at remote: StoreContents) {
        switch outcome {
        case .written:
            isBeforeCheckpoint = true
            if unsettled.removeValue(forKey: key) != nil { world.marks.reach(.unknownHadNotHappened) }
            if conflicting.remove(key) != nil { world.marks.reach(.conflictRetried) }
        case .conflict(let current):
            if current?.value != value { conflicting.insert(key) }
            if let sent = unsettled.removeValue(forKey: key) {
                world.marks.reach(current?.value == sent ? .unknownHadHappened : .unknownHadNotHappened)
            }
        case .deleted: break
        }
    }
}
