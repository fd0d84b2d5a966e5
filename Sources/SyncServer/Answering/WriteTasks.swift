import Synchronization

/// Begins tasks that nobody waits for one by one, and waits for all of them at the end.
///
/// A task group would do the same, by way of a task that takes what is to be begun: two changes of threads for each,
/// which take longer than a small write.
final class WriteTasks: Sendable {
    private struct State {
        var count = 0
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    /// Begins `body` on the loop of `executor`.
    func begin(on executor: LoopExecutor, _ body: @escaping @Sendable () async -> Void) {
        state.withLock { $0.count += 1 }
        Task(executorPreference: executor) {
            await body()
            self.end()
        }
    }

    private func end() {
        let waiting = state.withLock { state -> [CheckedContinuation<Void, Never>] in
            state.count -= 1
            guard state.count == 0, !state.waiting.isEmpty else { return [] }
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Returns when all that have begun have ended.
    func allEnded() async {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if state.count > 0 { state.waiting.append(continuation) }
                return state.count == 0
            }
            if isOver { continuation.resume() }
        }
    }
}
