import Synchronization

/// Begins tasks that nobody waits for one by one, and waits for all of them at the end.
///
/// A task group would do the same, by way of a task that takes what is to be begun: two changes of threads for each,
/// which take longer than a small write.
///
/// Those of one listener, which cancels them for good.
final class WriteTasks: Sendable {
    private struct State {
        var latest: UInt64 = 0
        var isCancelled = false
        /// Those that have not ended; `nil` for one that is about to be noted.
        var tasks: [UInt64: Task<Void, Never>?] = [:]
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    /// Begins `body` on the loop of `executor`.
    func begin(on executor: LoopExecutor, _ body: @escaping @Sendable () async -> Void) {
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
            // It may have ended already.
            if state.tasks[number] != nil { state.tasks[number] = task }
            return state.isCancelled
        }
        if isCancelled { task.cancel() }
    }

    private func end(_ number: UInt64) {
        let waiting = state.withLock { state -> [CheckedContinuation<Void, Never>] in
            state.tasks[number] = nil
            guard state.tasks.isEmpty, !state.waiting.isEmpty else { return [] }
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Lets those give up that have not got as far as the store, and whatever begins from now on.
    func cancelAll() {
        let tasks = state.withLock { state in
            state.isCancelled = true
            return state.tasks.values.compactMap { $0 }
        }
        for task in tasks { task.cancel() }
    }

    /// Returns when all that have begun have ended.
    func allEnded() async {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if !state.tasks.isEmpty { state.waiting.append(continuation) }
                return state.tasks.isEmpty
            }
            if isOver { continuation.resume() }
        }
    }
}
