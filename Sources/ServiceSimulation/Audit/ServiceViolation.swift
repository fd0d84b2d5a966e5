import SyncSimulation

/// A violated invariant of the servers.
package struct ServiceViolation: Codable, Hashable, Sendable, CustomStringConvertible {
    /// The invariants that are checked.
    package enum Oracle: String, Codable, Hashable, Sendable, CaseIterable {
        /// No credential authorises anything after its revocation or change was answered, but for the time for which a
        /// server believes its caches.
        case revocation
        /// A valid access token is never refused.
        case validity
        /// No answer to an account contains anything of another one.
        case isolation
        /// Acknowledged writes are there, and no read shows an older state.
        case durability
        /// An erased life of a name answers nothing and leaves nothing.
        case erased
        /// A name is signed up once, and a refresh token has one successor.
        case identity
        /// A transaction counts in one account at a time, or as the policy says, and is never lost between two.
        case ownership
        /// A grant is signed under the root, names its account, device and dates, and grants what the account has.
        case grants
        /// A request that may be repeated acts once.
        case idempotence
        /// A stream of events ends with the last version of each entry.
        case streams
        /// The audit list has each act of support once, and verifies.
        case auditList
        /// Paid time and units equal the store's sales, whatever the order in which the servers learnt of them.
        case paidTime
        /// Nothing that no store has signed is recorded.
        case evidence
        /// N servers together keep to N times each limit.
        case limits
        /// A content session opens what its account has bought, and ends in time.
        case content
        /// Rows equal those of a fresh projection of the store. Events are the transitions of the rows. One server at a
        /// time writes them.
        case projection
        /// Each event arrives at its receiver at least once, in order for each account, with one id.
        case webhooks
        /// No response has the status 500, and after all faults every account can be used.
        case service
        /// All jobs run on the simulation's executor, and the run ends.
        case execution
    }

    /// The invariant that was violated.
    package var oracle: Oracle
    /// The observation, in one line.
    package var message: String
    /// The virtual time in milliseconds since the start of the run.
    package var at: Int64
    /// The index of the lane in the trace.
    package var lane: Int

    /// The oracle and the message, in one line.
    package var description: String { "\(oracle.rawValue): \(message)" }
}

/// A rare state that some seed must reach.
package enum ServiceMark: String, Codable, Hashable, Sendable, CaseIterable {
    // The network and the servers.
    case requestRepeated, answerLost, answerTooLate, streamCut, fastRead
    case killed, killedBeforeAnswer, frozen, clockSetBack, keysRotated, nightPassed
    case failoverDuringWrite, slowCommitOvertaken, unknownLostInFailover, unknownSurvivedFailover
    // Accounts.
    case signUpJoined, nameTaken, wrongPassword, guessesLimited, passwordChanged, sessionEndedByChange
    case outdatedCredential, recovered, oldCodeRefused, loggedOutEverywhere, oldTokenRefused, oldPasswordRefused
    case refreshRepeated, refreshOpen, refreshReplayed, deviceApproved, deviceVoid
    case erased, erasureRepeated, nameRevived, erasedReadRefused
    // Purchases.
    case evidenceRecorded, evidenceOfAnother, evidenceTransferred, evidenceShared, notificationRecorded
    case refundRecorded, supportActed, supportTransferred, supportRefused, grantIssued
    case seasonsAdded, renewalsAdded, refundReversed, unitsSpent, ownerNamed, notificationRepeated
    case claimReported, claimCounts
    case forgeryRefused, caughtUp, formerPresented
    // Limits, content and configurations.
    case accountLimited, quotaReached, contentSessionIssued, contentOpened, contentRefused, contentSessionExpired
    case reconfigured
    // Streams.
    case streamResumed, streamExpired, streamEnded
    // Added later.
    case entryReplaced, entryDeleted, restoreRefused, transferredTwice, supportInterrupted
    case stopped, storeFailed, outcomeUnknown, formerKeyRefused, suspended
    // The projection.
    case eventsProjected, endAnnounced, endProjected, refundProjected, reversalProjected, transferProjected
    case erasureProjected, lifeReplacedInRows, projectionCompared
    case projectionTakenOver, leaseTakenOver, leaseReleased, projectionFenced, projectorKilled, projectorFrozen
    case projectionRolledBack, projectionOutcomeUnknown, projectionWrittenLate, projectionLateRefused
    case projectionRebuilt, projectionCursorExpired, reindexed, reindexInterrupted
    case delivered, deliveryRepeated, deliveredByAnother, deliveryLost, deliveryFailed
}
