import Synchronization

/// Hands each element to every subscriber. A slow subscriber misses old elements, never the latest.
final class Broadcast<Element: Sendable>: Sendable {
    private struct State {
        var subscribers: [UInt64: AsyncStream<Element>.Continuation] = [:]
        var nextSubscriber: UInt64 = 0
    }
    private let state = Mutex(State())

    /// A stream of `first` and of all elements from now on.
    func subscribe(startingWith first: Element? = nil, keeping count: Int) -> AsyncStream<Element> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: Element.self, bufferingPolicy: .bufferingNewest(count))
        let id = state.withLock { state in
            state.nextSubscriber += 1
            state.subscribers[state.nextSubscriber] = continuation
            // Under the lock, so that nothing newer comes before it.
            if let first { continuation.yield(first) }
            return state.nextSubscriber
        }
        continuation.onTermination = { [weak self] _ in
            _ = self?.state.withLock { $0.subscribers.removeValue(forKey: id) }
        }
        return stream
    }

    func send(_ element: Element) {
        // Under the lock, so that all subscribers get all elements in one order.
        state.withLock { state in
            for id in state.subscribers.keys.sorted() { state.subscribers[id]?.yield(element) }
        }
    }

    deinit {
        for (_, continuation) in state.withLock({ $0.subscribers }) { continuation.finish() }
    }
}
