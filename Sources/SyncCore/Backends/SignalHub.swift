import Synchronization

/// Distributes one signal to any number of subscribers.
///
/// A slow subscriber may miss repetitions, but never the fact that something changed: one signal stays pending. The
/// streams end when the hub is deallocated.
package final class SignalHub: Sendable {
    private struct State {
        var nextID: UInt64 = 0
        /// In order of subscription, so that a seeded run always wakes them in the same order.
        var subscribers: [(id: UInt64, continuation: AsyncStream<Void>.Continuation)] = []
    }

    private let state = Mutex(State())

    package init() {}

    deinit {
        for subscriber in subscribers { subscriber.continuation.finish() }
    }

    /// Returns a stream that yields after every ``signal()`` from now on.
    package func subscribe() -> AsyncStream<Void> { subscription().stream }

    /// Returns a stream as ``subscribe()`` does, and a function that ends it.
    package func subscription() -> (stream: AsyncStream<Void>, end: @Sendable () -> Void) {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let id = state.withLock { state in
            state.nextID += 1
            state.subscribers.append((state.nextID, continuation))
            return state.nextID
        }
        continuation.onTermination = { [weak self] _ in self?.remove(id) }
        return (stream, { continuation.finish() })
    }

    /// Wakes every subscriber.
    package func signal() {
        // Outside the lock, because a subscriber's executor may resume its continuation immediately.
        for subscriber in subscribers { subscriber.continuation.yield() }
    }

    /// The number of active streams.
    package var subscriberCount: Int { subscribers.count }

    private var subscribers: [(id: UInt64, continuation: AsyncStream<Void>.Continuation)] {
        state.withLock { $0.subscribers }
    }

    private func remove(_ id: UInt64) {
        state.withLock { $0.subscribers.removeAll { $0.id == id } }
    }
}
