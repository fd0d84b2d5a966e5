import SyncCore

/// The outcome of a round of ``EntitlementStore/run(pollingEvery:noticeBeforeExpiry:)``.
package struct RunRound: Sendable {
    /// True if the round tried to sync.
    package var hasSynced = false
    /// The failure of the round; `nil` if there was none.
    package var failure: EntitlementError?
}

/// Decides when to sync: at intervals, after changes, and after growing pauses while the remote fails.
struct SyncPace {
    private let interval: Duration
    private let host: HostServices
    private let uptime: @Sendable () -> Duration
    private var pauses: OutagePauses
    /// The time of the next sync without a signal, by ``uptime``.
    private var next = Duration.zero
    private var isFailing = false
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
        if uptime() >= next { return true }
        guard !isHeldOff else { return false }
        return !reasons.isDisjoint(with: [.remote, .network]) || (allowsNews && synced?.account != account)
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
        synced = state.map { (account, $0.account.version, $0.device.version) }
        (isFailing, isHeldOff) = (false, false)
        pauses.reset()
        var generator = host.generator
        // Devices that started together do not poll together.
        next = uptime() + interval * Double.random(in: 0.9...1, using: &generator)
    }

    /// Notes a failed round.
    mutating func didFail(_ failure: EntitlementError) {
        var generator = host.generator
        let asked = failure.retryAfter
        (isFailing, isHeldOff) = (true, asked != nil)
        next = uptime() + pauses.next(asked: asked, using: &generator)
    }
}
