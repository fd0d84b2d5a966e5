import Synchronization

/// A signal from any task to a waiting task, with its reasons. Signals sent while no task waits are combined.
final class WakeUp: Sendable {
    /// The reasons for waking up.
    struct Reasons: OptionSet {
        let rawValue: UInt8
        /// The local store has changed, or another account has logged in.
        static let local = Reasons(rawValue: 1)
        /// The remote may have changed, and can be reached.
        static let remote = Reasons(rawValue: 2)
        /// The network came back, or the machine was suspended.
        static let network = Reasons(rawValue: 4)
    }

    private struct State {
        var pending: Reasons = []
        var waiters: [UInt64: CheckedContinuation<Reasons, Never>] = [:]
        var nextWaiter: UInt64 = 0
    }
    private let state = Mutex(State())

    func signal(_ reasons: Reasons = .local) {
        let waiters = state.withLock { state in
            if state.waiters.isEmpty { state.pending.formUnion(reasons) }
            defer { state.waiters = [:] }
            return state.waiters
        }
        for key in waiters.keys.sorted() { waiters[key]?.resume(returning: reasons) }
    }

    /// Returns the reasons of the next signal, or at once those of the signals sent since the last wait. Returns no
    /// reasons if the task is cancelled.
    @discardableResult
    func wait() async -> Reasons {
        let id = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // Check for cancellation under the lock. `onCancel` runs either before this check, which then sees the
                // cancellation, or after it and finds the waiter.
                let pending: Reasons? = state.withLock { state in
                    // A cancelled wait leaves the signals for the next one.
                    if Task.isCancelled { return [] }
                    guard state.pending.isEmpty else {
                        defer { state.pending = [] }
                        return state.pending
                    }
                    state.waiters[id] = continuation
                    return nil
                }
                if let pending { continuation.resume(returning: pending) }
            }
        } onCancel: {
            state.withLock { $0.waiters.removeValue(forKey: id) }?.resume(returning: [])
        }
    }
}
