import Synchronization

/// Sends each element to all subscribers. A slow subscriber misses old elements, never the latest.
final class Broadcast<Element: Sendable>: Sendable {
    private struct State {
        var subscribers: [UInt64: AsyncStream<Element>.Continuation] = [:]
        var nextSubscriber: UInt64 = 0
    }
    private let state = Mutex(State())

    /// Returns a stream of `first`, if given, and of all elements from now on. It buffers the latest `count` elements.
    func subscribe(startingWith first: Element? = nil, keeping count: Int) -> AsyncStream<Element> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: Element.self, bufferingPolicy: .bufferingNewest(count))
        let id = state.withLock { state in
            state.nextSubscriber += 1
            state.subscribers[state.nextSubscriber] = continuation
            // Under the lock, so that no newer element precedes it.
            if let first { continuation.yield(first) }
            return state.nextSubscriber
        }
        continuation.onTermination = { [weak self] _ in
            _ = self?.state.withLock { $0.subscribers.removeValue(forKey: id) }
        }
        return stream
    }

    func send(_ element: Element) {
        // Under the lock, so that all subscribers receive all elements in the same order.
        state.withLock { state in
            for id in state.subscribers.keys.sorted() { state.subscribers[id]?.yield(element) }
        }
    }

    deinit {
        for (_, continuation) in state.withLock({ $0.subscribers }) { continuation.finish() }
    }
}
