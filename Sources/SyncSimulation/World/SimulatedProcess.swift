import EntitlementSync
import SyncCore
import SyncCoreTesting
import Synchronization

/// A process on a device: an app, or a second one beside it. It may end at any of its operations.
///
/// Swift cannot stop a task from outside. A process that has crashed is cut off instead: whatever it still asks of a
/// store fails without effect and nothing it returns is believed, so that from outside it is gone, while its tasks run
/// out by themselves. One thread only.
final class SimulatedProcess: @unchecked Sendable {
    let device: SimulatedDevice
    let index: Int
    unowned let world: World
    private(set) var isAlive = true
    /// What it runs; `nil` until it has opened its stores, and once it has ended.
    private(set) var store: EntitlementStore?
    private var waitingForStore: [Reply<Bool>] = []
    /// How many operations it may begin until it crashes.
    var operationsUntilCrash: Int?
    private var waiting: [(number: UInt64, action: () -> Void)] = []
    private var lastNumber: UInt64 = 0
    private var subscribers: [AsyncStream<Void>.Continuation] = []
    /// How many answers have told it the time.
    var timedAnswerCount = 0
    /// Requests to the remote that wait for an answer, and how often the clock had been moved when the first of them
    /// was sent.
    private(set) var requestsUnderWay = 0
    private(set) var clockMovesSeen = 0
    /// When the last request was sent: milliseconds since 1970 UTC, in truth.
    private(set) var lastRequestAt: Int64 = 0
    /// Whether the last request was sent while another waited.
    private(set) var isOverlapping = false
    var tasks: [Task<Void, Never>] = []
    private var hostBits: SeededGenerator
    /// Keys of the remote whose last write by this process met somebody else's.
    private var conflicting: Set<EntryKey> = []
    /// What this process last wrote to keys of the remote without learning what became of it.
    private var unsettled: [EntryKey: [UInt8]] = [:]
    /// Whether a write to the remote was answered that the local store has not been told of.
    var isBeforeCheckpoint = false

    init(on device: SimulatedDevice, index: Int, launch: Int, world: World) {
        self.device = device
        self.index = index
        self.world = world
        hostBits = world.random.generator(for: 16 * device.index + index, launch, .host)
    }

    /// The machine as the process sees it.
    var host: HostServices {
        HostServices(
            now: { self.device.wallClock }, timer: SimulationClock(scheduler: world.scheduler),
            randomBits: { self.hostBits.next() })
    }

    /// An operation begins: the moment at which a crash that was asked for comes.
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

    /// Waits for so many microseconds, or until the process ends.
    func pause(_ microseconds: Int64) async {
        let reply = Reply<Bool>()
        let number = self.await { reply.resolve(.success(false)) }
        world.scheduler.at(world.scheduler.now + microseconds) { reply.resolve(.success(true)) }
        _ = await reply.wait()
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

    /// It has opened its stores.
    func didOpen(_ store: EntitlementStore) {
        self.store = store
        answerWaiting()
    }

    /// What it runs, once it has opened its stores; `nil` when it ends before that.
    func openedStore() async -> EntitlementStore? {
        if store == nil, isAlive {
            let reply = Reply<Bool>()
            waitingForStore.append(reply)
            _ = await reply.wait()
        }
        return store
    }

    private func answerWaiting() {
        for reply in waitingForStore { reply.resolve(.success(true)) }
        waitingForStore = []
    }

    /// It ends, as if it had been killed.
    func end() {
        guard isAlive else { return }
        isAlive = false
        if isBeforeCheckpoint { world.marks.reach(.crashBeforeCheckpoint) }
        world.recorder.note(device.lane, .crashed, index, .crashed(process: index))
        for item in waiting { item.action() }
        waiting = []
        for subscriber in subscribers { subscriber.finish() }
        subscribers = []
        for task in tasks { task.cancel() }
        tasks = []
        // It holds the host, and so this process.
        store = nil
        answerWaiting()
        world.auditor.didEnd(self)
    }

    /// Nobody can say what became of a write to the remote.
    func didLoseOutcome(of key: EntryKey, _ value: [UInt8]) { unsettled[key] = value }

    /// A stream of the remote's signals, as far as messages come through.
    func subscribe() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        if isAlive { subscribers.append(continuation) } else { continuation.finish() }
        return stream
    }

    /// The remote says that something changed.
    func signal() {
        guard isAlive, !device.isCut(.incoming) else { return }
        for subscriber in subscribers { subscriber.yield() }
    }

    var isSubscribed: Bool { !subscribers.isEmpty }

    func beginRequest() {
        isOverlapping = requestsUnderWay > 0
        if !isOverlapping { clockMovesSeen = device.clockMoves }
        requestsUnderWay += 1
        lastRequestAt = world.trueTime
    }

    func endRequest() { requestsUnderWay -= 1 }

    /// A write to the remote was answered.
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
