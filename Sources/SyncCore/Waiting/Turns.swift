import Synchronization

/// Admits one task at a time, in the order of arrival.
package final class Turns: Sendable {
    private let isTaken = Mutex(false)
    private let waiting = WaitList<Void, Bool>()

    package init() {}

    /// Waits for a turn; returns `false` if the task was cancelled first. After `true`, the caller must call
    /// ``leave()``.
    package func enter() async -> Bool {
        if Task.isCancelled { return false }
        return await waiter()?.value(ifCancelled: false) ?? true
    }

    /// Admits the next task.
    package func leave() { isTaken.withLock { $0 = waiting.resumeFirst(returning: true) } }

    /// Runs `body` in a turn of this task, which waits for it even if it is cancelled.
    package func exclusively<Outcome, Failure>(
        isolation: isolated (any Actor)? = #isolation, _ body: () async throws(Failure) -> Outcome
    ) async throws(Failure) -> Outcome {
        _ = await waiter()?.value()
        defer { leave() }
        return try await body()
    }

    /// Takes the turn, or adds a waiter if it is taken.
    private func waiter() -> WaitList<Void, Bool>.Waiter? {
        isTaken.withLock { isTaken in
            if isTaken { return waiting.add() }
            isTaken = true
            return nil
        }
    }

    /// The number of waiting tasks.
    package var waitingCount: Int { waiting.count }
}
