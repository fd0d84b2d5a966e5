import SyncCore
import Synchronization

/// A signal from any task to a waiting task, with its reasons. Signals sent while no task waits are combined.
final class WakeUp: Sendable {
    /// The reasons for waking up.
    struct Reasons: OptionSet, Sendable {
        let rawValue: UInt8
        /// The local store has changed, or another account has logged in.
        static let local = Reasons(rawValue: 1)
        /// The remote may have changed, and can be reached.
        static let remote = Reasons(rawValue: 2)
        /// The network came back, or the machine was suspended.
        static let network = Reasons(rawValue: 4)
    }

    private let pending = Mutex<Reasons>([])
    private let waiting = WaitList<Void, Reasons>()

    func signal(_ reasons: Reasons = .local) {
        pending.withLock { pending in
            if !waiting.resumeAll(returning: reasons) { pending.formUnion(reasons) }
        }
    }

    /// Returns the reasons of the next signal, or at once those of the signals sent since the last wait. Returns no
    /// reasons if the task is cancelled.
    @discardableResult
    func wait() async -> Reasons {
        // A cancelled wait leaves the signals for the next one.
        if Task.isCancelled { return [] }
        let (known, waiter) = pending.withLock { pending in
            let known = pending
            pending = []
            return (known, known.isEmpty ? waiting.add() : nil)
        }
        return await waiter?.value(ifCancelled: []) ?? known
    }
}
