import Synchronization

/// Tells when all requests are over that began before a moment: whoever was let in by what was true until then does
/// nothing any more.
final class RequestGenerations: Sendable {
    private typealias Waiting = (generation: UInt64, continuation: CheckedContinuation<Void, Never>)

    private struct State {
        var current: UInt64 = 0
        /// How many requests of the current generation are under way.
        var currentCount = 0
        /// How many of each older one; none has zero.
        var counts: [UInt64: Int] = [:]
        var waiting: [Waiting] = []

        /// Whether a request of `generation`, which is over, or of an older one is under way.
        func isBusy(_ generation: UInt64) -> Bool { counts.keys.contains { $0 <= generation } }
    }

    private let state = Mutex(State())

    /// Begins a request; the answer is for ``leave(_:)``.
    func enter() -> UInt64 {
        state.withLock { state in
            state.currentCount += 1
            return state.current
        }
    }

    /// Ends a request of `generation`.
    func leave(_ generation: UInt64) {
        let ready = state.withLock { state -> [Waiting] in
            // Whoever waits, waits for older ones.
            if generation == state.current {
                state.currentCount -= 1
                return []
            }
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
                if state.currentCount > 0 { state.counts[generation] = state.currentCount }
                state.currentCount = 0
                guard state.isBusy(generation) else { return true }
                state.waiting.append((generation, continuation))
                return false
            }
            if isOver { continuation.resume() }
        }
    }
}
