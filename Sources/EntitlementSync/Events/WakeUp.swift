import Synchronization

/// A signal that tasks wait for and anybody may give; signals given while nobody waits count once.
final class WakeUp: Sendable {
    private struct State {
        var isSignalled = false
        var waiters: [UInt64: CheckedContinuation<Void, Never>] = [:]
        var nextWaiter: UInt64 = 0
    }
    private let state = Mutex(State())

    func signal() {
        let waiters = state.withLock { state in
            if state.waiters.isEmpty { state.isSignalled = true }
            defer { state.waiters = [:] }
            return state.waiters
        }
        for key in waiters.keys.sorted() { waiters[key]?.resume() }
    }

    /// Returns at the next signal, at once if one was given since the last wait, or when the task is cancelled.
    func wait() async {
        let id = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // Cancellation is looked at under the lock: `onCancel` runs either before, and is seen here, or after,
                // and finds the waiter.
                let resumesNow = state.withLock { state in
                    if state.isSignalled || Task.isCancelled {
                        state.isSignalled = false
                        return true
                    }
                    state.waiters[id] = continuation
                    return false
                }
                if resumesNow { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.waiters.removeValue(forKey: id) }?.resume()
        }
    }
}
