/// A state that runs should reach, because mistakes like to hide there. What no run of a set reached was not tried.
public enum Mark: String, Codable, Hashable, Sendable, CaseIterable {
    /// A write met another device's and was merged and sent again.
    case conflictRetried
    /// A write whose answer was lost was found to have happened.
    case unknownHadHappened
    /// A write whose answer was lost was found not to have happened.
    case unknownHadNotHappened
    /// A request arrived twice, the second time after its answer.
    case requestRepeated
    /// A cache answered a read with what the key held before.
    case staleAnswer
    /// What follows the remote by cursors, here the test's own watcher, was told that its cursor has expired.
    case cursorExpired
    /// A device crashed while a write to its own store was under way.
    case crashDuringLocalWrite
    /// A device crashed while a write to the remote was under way.
    case crashDuringRemoteWrite
    /// A device crashed between the remote's answer and its own note of it.
    case crashBeforeCheckpoint
    /// An adoption was interrupted after the claim was written.
    case claimInterrupted
    /// Somebody else completed an adoption that was interrupted.
    case claimResumed
    /// Two processes of one device wrote to its store between each other's read and write.
    case processesCollided
    /// A device's store was put back from a copy that lacked something.
    case localPutBack
    /// The remote was put back from a copy that lacked something.
    case remotePutBack
    /// The remote was emptied and filled again by a device.
    case remoteRefilled
    /// A purchase that only a lost device knew is gone.
    case lostWithDevice
    /// Two devices bought before they knew of each other's purchase.
    case boughtAtOnce
    /// The same transaction was recorded by two devices.
    case sameTransactionTwice
    /// A refund came before its purchase.
    case refundFirst
    /// A refund hit the middle of a stack.
    case refundInStack
    /// A refund was reversed.
    case reinstated
    /// A period ended at a date that the month does not have.
    case monthEnd
    /// Two devices spent the same unit, and the overspend was written off.
    case overspent
    /// A statement of an older system added time.
    case assertionAdded
    /// A statement of an older system added nothing, or was the echo of what a device showed.
    case assertionEchoed
    /// A device's clock was set back.
    case clockSetBack
    /// A contact with the remote set a device's clock right that was more than an hour wrong.
    case clockCorrected
    /// The remote's clock was wrong while a device asked.
    case serverWrong
    /// A device's own store was full, and a recording was refused.
    case storeFull
    /// The remote was full, and a sync received all the same.
    case remoteFull
    /// Somebody logged out with facts that were not sent.
    case loggedOutUnsent
    /// Another account logged in while the first had unsent facts on the device.
    case switchedWithUnsent
    /// A device learned of an erasure by syncing.
    case erasureLearned
    /// An erased account was made again.
    case recreated
    /// A record of a kind that nobody here knows went from one device to another.
    case unknownKindCarried
    /// A device could not read what a client that lies had put into the remote, and left it alone.
    case liarRefused
    /// A device with another rule synced with one that has the run's.
    case mixedRules
    /// A device with an older catalogue synced a purchase of a product that it does not know.
    case unknownProduct
    /// A purchase waited for approval.
    case pending
}

/// How often runs came to each rare state.
public struct Marks: Codable, Hashable, Sendable {
    private var counts: [String: Int] = [:]

    /// None.
    public init() {}

    /// How often.
    public subscript(mark: Mark) -> Int { counts[mark.rawValue] ?? 0 }

    /// States that were not reached, in the order of their declaration.
    public var missing: [Mark] { Mark.allCases.filter { self[$0] == 0 } }

    mutating func reach(_ mark: Mark) { counts[mark.rawValue, default: 0] += 1 }

    /// Adds those of another run.
    public mutating func add(_ other: Marks) {
        for (mark, count) in other.counts { counts[mark, default: 0] += count }
    }
}
