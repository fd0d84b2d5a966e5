import SyncCore

/// A device: what stays when its processes end. One thread only.
final class SimulatedDevice: @unchecked Sendable {
    enum Direction { case outgoing, incoming }

    let index: Int
    let setup: DeviceSetup
    /// Its own store, as it is on the disk.
    let contents: StoreContents
    /// How far the wall clock is ahead, in milliseconds.
    var clockOffset: Int64
    /// The processes that run or ran last, by their index.
    var processes: [SimulatedProcess?] = [nil, nil]
    /// How often the wall clock was moved.
    var clockMoves = 0
    /// How often a contact moved its time by more than a minute.
    var correctionCount = 0
    /// How often a store's signature was seen.
    var signatureCount = 0
    /// Whether a contact has moved the time of one process by more than a minute, and others cannot know yet.
    var hasUnsavedCorrection = false
    /// Whether its store was ever put back from a copy.
    var wasPutBack = false
    /// How often its store was emptied or put back.
    var replacementCount = 0
    /// Whether two processes ever ran at once.
    var hasHadTwoProcesses = false
    /// Whether a process ended between claiming nobody's ledger and completing its adoption.
    var hasInterruptedClaim = false
    /// Who logged out last with facts that were not sent.
    var leftUnsent: String?
    /// The groups of which it ever showed an end.
    var believedGroups: Set<String> = []
    /// Set once it is lost for good.
    var isLost = false
    /// Until when the store has no room, in milliseconds since the beginning.
    private var fullUntil: Int64 = 0
    private var cutUntil: [Int64] = [0, 0]
    var copy: StoreContents.Copy?
    private var diskNumber = 0
    private var messageNumber = 0
    private unowned let world: World

    init(_ index: Int, lane: Int, setup: DeviceSetup, contents: StoreContents, world: World) {
        self.index = index
        self.lane = lane
        self.setup = setup
        self.contents = contents
        self.world = world
        clockOffset = setup.clockOffset
    }

    /// Its line in the trace; that of its store is the next.
    let lane: Int

    /// Its processes that run.
    var running: [SimulatedProcess] { processes.compactMap { $0 }.filter(\.isAlive) }

    var isFull: Bool { world.recorder.now < fullUntil }

    func isCut(_ direction: Direction) -> Bool {
        world.recorder.now < cutUntil[direction == .outgoing ? 0 : 1]
    }

    func cut(_ direction: Direction, until time: Int64) { cutUntil[direction == .outgoing ? 0 : 1] = time }
    func fill(until time: Int64) { fullUntil = time }

    /// Its wall clock: milliseconds since 1970 UTC.
    var wallClock: Int64 { world.trueTime + clockOffset }

    func takeDiskNumber() -> Int {
        diskNumber += 1
        return diskNumber
    }

    func takeMessageNumber() -> Int {
        messageNumber += 1
        return messageNumber
    }
}

/// What the devices share. One thread only.
final class SimulatedRemote: @unchecked Sendable {
    let contents: StoreContents
    let lane: Int
    let tellsTime: Bool
    /// How far its clock is ahead, in milliseconds.
    var clockOffset: Int64 = 0
    var fullUntil: Int64 = 0
    /// Whether it was emptied and nobody has written since.
    var isEmptied = false
    var copy: StoreContents.Copy?
    private let scheduler: Scheduler

    init(contents: StoreContents, lane: Int, tellsTime: Bool, scheduler: Scheduler) {
        self.contents = contents
        self.lane = lane
        self.tellsTime = tellsTime
        self.scheduler = scheduler
    }

    var isFull: Bool { scheduler.now / 1_000 < fullUntil }

    /// Milliseconds since 1970 UTC.
    var time: Int64 { scheduler.trueTime + clockOffset }
}
