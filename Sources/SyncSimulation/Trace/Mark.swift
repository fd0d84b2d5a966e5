/// A rare state that runs should reach, because defects often hide there. A state that no run of a set reached was not
/// tested.
public enum Mark: String, Codable, Hashable, Sendable, CaseIterable {
    /// A write conflicted with another device's, and was merged and sent again.
    case conflictRetried
    /// A write whose answer was lost turned out to have happened.
    case unknownHadHappened
    /// A write whose answer was lost turned out not to have happened.
    case unknownHadNotHappened
    /// A request arrived twice, the second time after its answer.
    case requestRepeated
    /// A cache answered a read with an earlier value.
    case staleAnswer
    /// The cursor of the reader of the remote's change feed expired.
    case cursorExpired
    /// A device crashed while a write to its own store was under way.
    case crashDuringLocalWrite
    /// A device crashed while a write to the remote was under way.
    case crashDuringRemoteWrite
    /// A device crashed between the remote's answer and the checkpoint in its own store.
    case crashBeforeCheckpoint
    /// An adoption was interrupted after the claim was written.
    case claimInterrupted
    /// Another log-in completed an interrupted adoption.
    case claimResumed
    /// Two processes of one device wrote to its store between each other's read and write.
    case processesCollided
    /// A device's store was restored from a backup that lacked something.
    case localPutBack
    /// The remote was restored from a backup that lacked something.
    case remotePutBack
    /// The remote was emptied and refilled by a device.
    case remoteRefilled
    /// A purchase was lost with the only device that knew it.
    case lostWithDevice
    /// Two devices bought before they knew of each other's purchase.
    case boughtAtOnce
    /// The same transaction was recorded by two devices.
    case sameTransactionTwice
    /// A refund was recorded before its purchase.
    case refundFirst
    /// A refund revoked a purchase in the middle of a stack.
    case refundInStack
    /// A refund was reversed.
    case reinstated
    /// A period ended on a date that the month does not have.
    case monthEnd
    /// Two devices spent the same unit, and the overspend was written off.
    case overspent
    /// An assertion of an older system added time.
    case assertionAdded
    /// An assertion of an older system added nothing, or echoed the expiry that a device showed.
    case assertionEchoed
    /// A device's clock was set back.
    case clockSetBack
    /// A contact with the remote corrected a device's clock by more than an hour.
    case clockCorrected
    /// The remote's clock was wrong when it answered a device.
    case serverWrong
    /// A device's own store was full, so a recording failed.
    case storeFull
    /// The remote was full, but a sync still received facts.
    case remoteFull
    /// An account logged out with unsent facts.
    case loggedOutUnsent
    /// Another account logged in while the device still had unsent facts of the previous one.
    case switchedWithUnsent
    /// A device learned of an erasure by syncing.
    case erasureLearned
    /// An erased account was created again.
    case recreated
    /// A record of an unknown kind was synced from one device to another.
    case unknownKindCarried
    /// A device could not read an entry written by a malicious client, and left it unchanged.
    case liarRefused
    /// A device with a rule other than the run's received facts.
    case mixedRules
    /// A device with an older catalogue received a purchase of a product that it does not know.
    case unknownProduct
    /// A purchase waited for approval.
    case pending
    /// A device crashed after it had written evidence and before it had written the facts.
    case evidenceInterrupted
    /// Evidence moved with an adopted ledger to an account.
    case evidenceAdopted
    /// The server refused evidence that the store had not signed.
    case evidenceRefused
    /// The server refused evidence of a purchase that belongs to another account.
    case evidenceOfAnother
    /// A restore presented evidence.
    case evidenceRestored
    /// The store notified the server of a purchase without an owner.
    case notificationParked
    /// A parked notification was applied when its purchase got an owner.
    case notificationApplied
    /// The server received a statement of the store again.
    case statementRepeated
    /// The server received a statement of the store after a later one about the same transaction.
    case statementStale
    /// The server received a later statement of the store about a transaction that it knew.
    case statementRenewed
    /// The server verified a refund.
    case refundVerified
    /// The server verified the reversal of a refund.
    case refundReversed
    /// A client posted forged evidence.
    case forgeryPosted
    /// Under `verified`, a purchase that only a client stated had no effect.
    case claimSetAside
    /// Under `verified`, the server's word overrode a stronger statement of a client.
    case claimOverridden
    /// A write to a cluster became visible after one that had begun later.
    case slowCommitOvertaken
    /// The primary of a cluster was killed while writes were under way.
    case failoverDuringWrite
    /// A write of unknown outcome survived the failover of a cluster.
    case unknownSurvivedFailover
    /// A write of unknown outcome was lost in the failover of a cluster.
    case unknownLostInFailover
    /// A former primary of a cluster returned and refused a request.
    case formerPrimaryRefused
    /// A connection was closed because its server, a former primary of a cluster, had become read-only.
    case readOnlyConnectionClosed
}

/// The number of times that runs reached each rare state.
public struct Marks: Codable, Hashable, Sendable {
    private var counts: [String: Int] = [:]

    /// No marks.
    package init() {}

    /// The number of times that `mark` was reached.
    public subscript(mark: Mark) -> Int { counts[mark.rawValue] ?? 0 }

    /// States that were not reached, in the order of their declaration.
    public var missing: [Mark] { Mark.allCases.filter { self[$0] == 0 } }

    mutating func reach(_ mark: Mark) { counts[mark.rawValue, default: 0] += 1 }

    /// Adds the marks of another run.
    package mutating func add(_ other: Marks) {
        for (mark, count) in other.counts { counts[mark, default: 0] += count }
    }
}
