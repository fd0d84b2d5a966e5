import SyncCore
import SyncCoreTesting

/// A write to a cluster that is under way. Single-threaded.
final class PendingWrite {
    /// The progress of a write.
    enum Stage {
        /// It waits for another write to its key.
        case waiting
        /// Its transaction is open. Only the primary knows of it.
        case open
        /// It is in the log of the primary.
        case flushed
        /// It is in the log of the standby too.
        case received
        /// It was answered.
        case over
    }

    let key: EntryKey
    /// The entry to write; `nil` to delete.
    let entry: Entry?
    /// The random tag of its change.
    let tag: UInt64
    let precondition: Precondition
    let reply = Reply<Result<Answer<WriteOutcome>, BackendError>>()
    var stage = Stage.waiting
    /// The number of its change, reserved when its transaction begins.
    var number = 0
    var times = CommitTimes()

    init(_ key: EntryKey, _ entry: Entry?, tag: UInt64, if precondition: Precondition) {
        (self.key, self.entry, self.tag, self.precondition) = (key, entry, tag, precondition)
    }

    var operation: BackendError.Operation { entry == nil ? .delete : .write }
}

/// The times that the stages of a write to a cluster take, in microseconds.
struct CommitTimes {
    /// From the beginning of the transaction until it is in the log of the primary.
    var flush: Int64 = 1_000
    /// From there to the log of the standby.
    var transfer: Int64 = 1_000
    /// From there until the primary knows that the standby has it.
    var confirmation: Int64 = 1_000
    /// From the arrival at the standby until the standby has applied it.
    var lag: Int64 = 1_000

    /// The time until the write is acknowledged, if no other one delays it.
    var total: Int64 { flush + transfer + confirmation }

    init() {}

    init(_ setup: ClusterSetup, random: inout SeededGenerator) {
        let isSlow = random.happens(perMille: setup.slowCommits)
        let slow = random.pick(0...Int64(setup.longestCommit) * 1_000)
        flush = random.pick(200...10_000) + (isSlow ? slow : 0)
        transfer = random.pick(200...20_000)
        confirmation = random.pick(200...20_000)
        lag = random.pick(0...Int64(setup.longestLag) * 1_000)
    }
}
