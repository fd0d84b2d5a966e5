import Synchronization

/// Sends each element to all subscribers. A slow subscriber misses old elements, never the latest.
///
/// The streams end when the broadcast is deallocated.
package final class Broadcast<Element: Sendable>: Sendable {
    private struct State {
        var nextID: UInt64 = 0
        /// In order of subscription, so that a seeded run always wakes them in the same order.
        var subscribers: [(id: UInt64, continuation: AsyncStream<Element>.Continuation)] = []
    }

    private let state = Mutex(State())

    package init() {}

    deinit {
        for subscriber in subscribers { subscriber.continuation.finish() }
    }

    /// Returns a stream of `first`, if given, and of all elements from now on, and a function that ends the stream. It
    /// buffers the latest `count` elements.
    package func subscription(
        startingWith first: Element? = nil, keeping count: Int
    ) -> (stream: AsyncStream<Element>, end: @Sendable () -> Void) {
        let (stream, continuation) = AsyncStream.makeStream(of: Element.self, bufferingPolicy: .bufferingNewest(count))
        let id = state.withLock { state in
            state.nextID += 1
            state.subscribers.append((state.nextID, continuation))
            // Under the lock, so that no newer element precedes it.
            if let first { continuation.yield(first) }
            return state.nextID
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { $0.subscribers.removeAll { $0.id == id } }
        }
        return (stream, { continuation.finish() })
    }

    /// Returns the stream of ``subscription(startingWith:keeping:)``.
    package func subscribe(startingWith first: Element? = nil, keeping count: Int) -> AsyncStream<Element> {
        subscription(startingWith: first, keeping: count).stream
    }

    package func send(_ element: Element) {
        // Under the lock, so that all subscribers receive all elements in the same order. Their executors must not
        // resume them inline.
        state.withLock { state in
            for subscriber in state.subscribers { subscriber.continuation.yield(element) }
        }
    }

    /// The number of active streams.
    package var subscriberCount: Int { subscribers.count }

    fileprivate var subscribers: [(id: UInt64, continuation: AsyncStream<Element>.Continuation)] {
        state.withLock { $0.subscribers }
    }
}

/// Distributes one signal to any number of subscribers.
///
/// A slow subscriber may miss repetitions, but never the fact that something changed: one signal stays pending.
package typealias SignalHub = Broadcast<Void>

extension Broadcast<Void> {
    /// Returns a stream that yields after every ``signal()`` from now on.
    package func subscribe() -> AsyncStream<Void> { subscribe(keeping: 1) }

    /// Returns a stream as ``subscribe()`` does, and a function that ends it.
    package func subscription() -> (stream: AsyncStream<Void>, end: @Sendable () -> Void) { subscription(keeping: 1) }

    /// Wakes every subscriber.
    package func signal() {
        // Outside the lock, because a subscriber's executor may resume its continuation immediately.
        for subscriber in subscribers { subscriber.continuation.yield() }
    }
}
