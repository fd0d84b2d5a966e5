import EntitlementSync
import SyncCore

/// Drops what Stripe has stated about purchases that never become known.
///
/// One account at Stripe may sell products of several apps. A refund, a dispute or a payment names no product, so those
/// of other apps are kept like those whose purchase has not arrived yet. Stripe can send an event again for 30 days. So
/// a purchase that is not known ``patience`` after a statement about it is one of another app. Statements of other
/// stores stay, because a device may send a purchase that was refunded long ago.
///
/// Every server does this; the steps have the same result however often they are done.
struct EvidenceSweeper: Sendable {
    /// The pause between two rounds.
    static let period = Duration.seconds(86_400)
    /// The time for which a statement waits for its purchase, in milliseconds: five weeks.
    static let patience: Int64 = 35 * 86_400_000

    let recorder: EvidenceRecorder
    let clockGuard: ClockRollbackGuard
    let host: HostServices
    let onError: @Sendable (BackendError) -> Void

    /// Drops forgotten statements until the task is cancelled.
    func run() async {
        repeat { await sweep() } while (try? await host.sleep(for: Self.period)) != nil
    }

    /// Drops forgotten statements once, unless the clock of this server is wrong.
    func sweep() async {
        guard !clockGuard.isWrong else { return }
        let now = host.now()
        do throws(BackendError) {
            try await recorder.parked.dropForgotten(since: now - Self.patience, now: now, onError: onError)
            try await recorder.names.dropForgotten(since: now - Self.patience, now: now, onError: onError)
        } catch {
            if !Task.isCancelled { onError(error) }
        }
    }
}

extension EntitlementService {
    var evidenceSweeper: EvidenceSweeper {
        EvidenceSweeper(recorder: recorder, clockGuard: clockGuard, host: host, onError: onError)
    }
}
