import SyncCore
import Synchronization

/// Runs the tasks of requests, and waits for all of them at shutdown.
///
/// A task group would need a separate task that starts its children: two context switches for each request, which take
/// longer than a small write.
final class RequestTasks: Sendable {
    private struct State {
        var latest: UInt64 = 0
        var isCancelled = false
        /// The running tasks; `nil` for a task that is not registered yet.
        var tasks: [UInt64: Task<Void, Never>?] = [:]
    }

    private let state = Mutex(State())
    private let waiting = WaitList<Void, Void>()

    /// Starts `body` on the loop of `executor`.
    func start(on executor: LoopExecutor, _ body: @escaping @Sendable () async -> Void) {
        let number = state.withLock { state in
            state.latest += 1
            state.tasks[state.latest] = .some(nil)
            return state.latest
        }
        let task = Task(executorPreference: executor) {
            await body()
            self.end(number)
        }
        let isCancelled = state.withLock { state in
            // The task may have ended already.
            if state.tasks[number] != nil { state.tasks[number] = task }
            return state.isCancelled
        }
        if isCancelled { task.cancel() }
    }

    private func end(_ number: UInt64) {
        state.withLock { state in
            state.tasks[number] = nil
            if state.tasks.isEmpty { waiting.resumeAll(returning: ()) }
        }
    }

    /// Cancels all tasks, and every task that is started from now on.
    func cancelAll() {
        let tasks = state.withLock { state in
            state.isCancelled = true
            return state.tasks.values.compactMap { $0 }
        }
        for task in tasks { task.cancel() }
    }

    /// Waits until all tasks have ended.
    func waitForAll() async {
        await state.withLock { $0.tasks.isEmpty ? nil : waiting.add() }?.value()
    }
}
