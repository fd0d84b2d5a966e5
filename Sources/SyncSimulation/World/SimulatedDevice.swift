import SyncCore

/// A device: the state that outlives its processes. Single-threaded.
final class SimulatedDevice: @unchecked Sendable {
    enum Direction { case outgoing, incoming }

    let index: Int
    let setup: DeviceSetup
    /// Its own store, as on disk.
    let contents: StoreContents
    /// The error of the wall clock in milliseconds; positive if it is ahead.
    var clockOffset: Int64
    /// The current or last processes, by index.
    var processes: [SimulatedProcess?] = [nil, nil]
    /// The number of moves of the wall clock.
    var clockMoves = 0
    /// The number of contacts that moved the device's time by more than a minute.
    var correctionCount = 0
    /// The number of signed statements that were seen.
    var signatureCount = 0
    /// True if a contact moved the time of one process by more than a minute and the others cannot know yet.
    var hasUnsavedCorrection = false
    /// True if its store was ever restored from a backup.
    var wasPutBack = false
    /// The number of times that its store was emptied or restored.
    var replacementCount = 0
    /// True if two processes ever ran at the same time.
    var hasHadTwoProcesses = false
    /// True if a process ended between claiming the anonymous ledger and completing the adoption.
    var hasInterruptedClaim = false
    /// The account that last logged out with unsent facts.
    var leftUnsent: String?
    /// The groups for which it ever showed an expiry.
    var believedGroups: Set<String> = []
    /// True once the device is lost permanently.
    var isLost = false
    /// The time until which the store is full, in milliseconds since the start of the run.
    private var fullUntil: Int64 = 0
    private var cutUntil: [Direction: Int64] = [:]
    var copy: StoreContents.Copy?
    /// The number of operations on its store.
    var operationCount = 0
    /// The number of its requests to the remote.
    var requestCount = 0
    private unowned let world: World

    init(_ index: Int, lane: Int, setup: DeviceSetup, contents: StoreContents, world: World) {
        self.index = index
        self.lane = lane
        self.setup = setup
        self.contents = contents
        self.world = world
        clockOffset = setup.clockOffset
    }

    /// Its lane in the trace. The lane of its store is the next one.
    let lane: Int

    /// Its running processes.
    var running: [SimulatedProcess] { processes.compactMap { $0 }.filter(\.isAlive) }

    var isFull: Bool { world.recorder.now < fullUntil }

    func isCut(_ direction: Direction) -> Bool { world.recorder.now < cutUntil[direction, default: 0] }
    func cut(_ direction: Direction, until time: Int64) { cutUntil[direction] = time }
    func fill(until time: Int64) { fullUntil = time }

    /// Its wall clock, in milliseconds since 1970 UTC.
    var wallClock: Int64 { world.trueTime + clockOffset }
}

/// The store that the devices share. Single-threaded.
final class SimulatedRemote: @unchecked Sendable {
    let contents: StoreContents
    let lane: Int
    let tellsTime: Bool
    /// The error of its clock in milliseconds; positive if it is ahead.
    var clockOffset: Int64 = 0
    var fullUntil: Int64 = 0
    /// True if it was emptied and not written to since.
    var isEmptied = false
    var copy: StoreContents.Copy?
    /// The part that verifies evidence; `nil` for plain storage.
    var server: SimulatedServer?
    private let scheduler: Scheduler

    init(contents: StoreContents, lane: Int, tellsTime: Bool, scheduler: Scheduler) {
        self.contents = contents
        self.lane = lane
        self.tellsTime = tellsTime
        self.scheduler = scheduler
    }

    var isFull: Bool { scheduler.now / 1_000 < fullUntil }

    /// Its time, in milliseconds since 1970 UTC.
    var time: Int64 { scheduler.trueTime + clockOffset }
}
