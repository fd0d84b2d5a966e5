import SyncCore
import Synchronization

/// Waits until every request that started before a given point has finished.
///
/// An erasure depends on it. A request that was admitted before the account's record was marked may still write, so the
/// erasure deletes the account's keys only after all such requests have finished.
///
/// - Complexity: O(1) to start a request and to finish one of the current epoch. Memory grows with the number of epochs
///   that still have running requests.
final class RequestEpochs: Sendable {
    private struct State {
        var current: UInt64 = 0
        /// The number of running requests of the current epoch.
        var currentCount = 0
        /// The number of running requests of each earlier epoch. Epochs without any are removed.
        var counts: [UInt64: Int] = [:]

        /// Returns `true` if a request of `epoch`, which has ended, or of an earlier one is running.
        func isBusy(_ epoch: UInt64) -> Bool { counts.keys.contains { $0 <= epoch } }
    }

    private let state = Mutex(State())
    /// The waiters, with the last epoch that each waits for.
    private let waiting = WaitList<UInt64, Void>()

    /// Starts a request and returns the epoch to pass to ``finish(_:)``.
    func start() -> UInt64 {
        state.withLock { state in
            state.currentCount += 1
            return state.current
        }
    }

    /// Finishes a request that was started in `epoch`.
    func finish(_ epoch: UInt64) {
        state.withLock { state in
            // Waiters wait for earlier epochs only.
            if epoch == state.current {
                state.currentCount -= 1
                return
            }
            let count = state.counts[epoch, default: 1] - 1
            state.counts[epoch] = count == 0 ? nil : count
            waiting.resumeAll(returning: ()) { !state.isBusy($0) }
        }
    }

    /// Suspends until all requests that have started so far have finished. The caller must not be one of them.
    func waitForEarlier() async {
        let waiter = state.withLock { state in
            let epoch = state.current
            state.current += 1
            if state.currentCount > 0 { state.counts[epoch] = state.currentCount }
            state.currentCount = 0
            return state.isBusy(epoch) ? waiting.add(epoch) : nil
        }
        await waiter?.value()
    }
}
