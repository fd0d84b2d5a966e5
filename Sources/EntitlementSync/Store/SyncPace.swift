import SyncCore

/// The outcome of a round of ``EntitlementStore/run(pollingEvery:noticeBeforeExpiry:)``.
package struct RunRound: Sendable {
    /// True if a signal of the remote preceded the round.
    package var isSignalled = false
    /// True if the round tried to sync.
    package var hasSynced = false
    /// The failure of the round; `nil` if there was none.
    package var failure: EntitlementError?
    /// True from a failure until the next success, also if this round did not try.
    package var isFailing = false
}

/// Decides when to sync: at intervals, after changes, and after growing pauses while the remote fails.
struct SyncPace {
    private let interval: Duration
    private let host: HostServices
    private let uptime: @Sendable () -> Duration
    private var pauses: OutagePauses
    /// The time of the next sync without a signal, by ``uptime``.
    private var next = Duration.zero
    private(set) var isFailing = false
    /// The account of the last attempt. An account has the failures of its own only.
    private var attempted: Account?
    private var lastSuccess: Duration?
    /// True while a time that the remote has asked for passes. No signal shortens it.
    private var isHeldOff = false
    /// The account of the last sync, and its ledgers then.
    private var synced: (account: Account, ledger: EntryVersion?, device: EntryVersion?)?

    /// - Parameter interval: The longest time between two syncs.
    init(interval: Duration, host: HostServices) {
        (self.interval, self.host) = (interval, host)
        uptime = host.stopwatch()
        pauses = OutagePauses(longest: min(interval, .seconds(900)))
    }

    /// The time until the next sync without a signal; zero or more.
    var untilNextSync: Duration { max(next - uptime(), .zero) }

    /// True if a change of the local store may start a sync.
    var allowsNews: Bool { !isFailing }

    /// Returns `true` if a sync is due, whatever the local store holds.
    func isDue(_ reasons: WakeUp.Reasons, for account: Account) -> Bool {
        if uptime() >= next || attempted != account { return true }
        guard !isHeldOff else { return false }
        if reasons.contains(.remote) { return true }
        // Networks change more often than purchases.
        return reasons.contains(.network) && (isFailing || lastSuccess.map { uptime() - $0 > .seconds(60) } ?? true)
    }

    /// Returns `true` if the local store holds something that the last sync did not send.
    func hasNews(_ state: LocalState) -> Bool {
        guard let synced, synced.ledger == state.account.version else { return true }
        return synced.device != state.device.version && !state.waitingEvidence.isEmpty
    }

    /// Notes a success.
    ///
    /// - Parameter state: The state after a sync; `nil` if the account is not synced.
    mutating func didSync(_ state: LocalState?, of account: Account) {
        (attempted, lastSuccess) = (account, uptime())
        synced = state.map { (account, $0.account.version, $0.device.version) }
        (isFailing, isHeldOff) = (false, false)
        pauses.reset()
        var generator = host.generator
        // Devices that started together do not poll together.
        next = uptime() + interval * Double.random(in: 0.9...1, using: &generator)
    }

    /// Notes a failed round.
    mutating func didFail(_ failure: EntitlementError, of account: Account) {
        if attempted != account { pauses.reset() }
        attempted = account
        var generator = host.generator
        let asked = failure.retryAfter
        (isFailing, isHeldOff) = (true, asked != nil)
        next = uptime() + pauses.next(asked: asked, using: &generator)
    }
}
