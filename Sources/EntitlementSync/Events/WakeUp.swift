import Synchronization

/// A signal from any task to waiting tasks. Signals sent while no task waits are coalesced into one.
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

    /// Returns at the next signal, at once if a signal was sent since the last wait, or when the task is cancelled.
    func wait() async {
        let id = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // Check for cancellation under the lock. `onCancel` runs either before this check, which then sees the
                // cancellation, or after it and finds the waiter.
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
