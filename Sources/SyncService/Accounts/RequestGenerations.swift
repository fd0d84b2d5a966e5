import Synchronization

/// Tells when all requests are over that began before a moment: whoever was let in by what was true until then does
/// nothing any more.
final class RequestGenerations: Sendable {
    private struct State {
        var current: UInt64 = 0
        /// How many requests of each generation are under way; none has zero.
        var counts: [UInt64: Int] = [:]
        var waiting: [(generation: UInt64, continuation: CheckedContinuation<Void, Never>)] = []

        /// Whether a request of `generation` or an older one is under way.
        func isBusy(_ generation: UInt64) -> Bool { counts.keys.contains { $0 <= generation } }
    }

    private let state = Mutex(State())

    /// Begins a request; the answer is for ``leave(_:)``.
    func enter() -> UInt64 {
        state.withLock { state in
            state.counts[state.current, default: 0] += 1
            return state.current
        }
    }

    /// Ends a request of `generation`.
    func leave(_ generation: UInt64) {
        let ready = state.withLock { state in
            let count = state.counts[generation, default: 1] - 1
            state.counts[generation] = count == 0 ? nil : count
            let waiting = state.waiting
            state.waiting = waiting.filter { state.isBusy($0.generation) }
            return waiting.filter { !state.isBusy($0.generation) }
        }
        for waiting in ready { waiting.continuation.resume() }
    }

    /// Returns when each request is over that had begun before. A request that waits must not be one of them.
    func waitForOlder() async {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                let generation = state.current
                state.current += 1
                guard state.isBusy(generation) else { return true }
                state.waiting.append((generation, continuation))
                return false
            }
            if isOver { continuation.resume() }
        }
    }
}
