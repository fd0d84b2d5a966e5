import EntitlementSync
import SyncCore

/// Drops what Stripe has stated about purchases that never become known.
///
/// One account at Stripe may sell products of several apps. A refund, a dispute or a payment names no product, so those
/// of other apps are kept like those whose purchase has not arrived yet. Stripe can send an event again for 30 days. So
/// a purchase that is not known ``retention`` after a statement about it is one of another app. Statements of other
/// stores stay, because a device may send a purchase that was refunded long ago.
///
/// Drops the outcomes of operators' acts after ``ActRecord/retention``, and finishes acts that were interrupted.
///
/// Every server does this; the steps have the same result however often they are done.
struct EvidenceSweeper: Sendable {
    /// The pause before the first round. The clock is least trustworthy when a server starts.
    static let firstPause = Duration.seconds(3_600)
    /// The pause between two rounds.
    static let period = Duration.seconds(86_400)
    /// The time for which a statement waits for its purchase, in milliseconds: five weeks.
    static let retention: Int64 = 35 * 86_400_000

    let recorder: EvidenceRecorder
    let acts: OperatorActs
    let clockGuard: ClockRollbackGuard
    let host: HostServices
    let onError: @Sendable (BackendError) -> Void

    /// Drops expired statements until the task is cancelled.
    func run() async {
        // Shorter than a day at first, so that a server that is restarted each day sweeps too.
        var pause = Self.firstPause
        while (try? await host.sleep(for: pause)) != nil {
            await sweep()
            pause = Self.period
        }
    }

    /// Drops expired statements once, unless the clock of this server is wrong.
    func sweep() async {
        guard !clockGuard.isWrong else { return }
        let now = host.now()
        do throws(BackendError) {
            try await recorder.parked.dropExpired(since: now - Self.retention, now: now, onError: onError)
            try await recorder.names.dropExpired(since: now - Self.retention, now: now, onError: onError)
            try await acts.sweep(now: now, onError: onError)
        } catch {
            if !Task.isCancelled { onError(error) }
        }
    }
}

extension EntitlementService {
    var evidenceSweeper: EvidenceSweeper {
        EvidenceSweeper(
            recorder: recorder, acts: OperatorActs(self), clockGuard: clockGuard, host: host, onError: onError)
    }
}
