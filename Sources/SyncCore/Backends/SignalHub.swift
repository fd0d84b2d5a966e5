import Synchronization

/// Hands one signal to any number of subscribers.
///
/// A subscriber that is slow misses repetitions, never the fact that something changed: one signal waits for it.
/// The streams end with the hub.
package final class SignalHub: Sendable {
    private struct State {
        var nextID: UInt64 = 0
        /// In order of subscription, so that a seeded run wakes them in the same order every time.
        var subscribers: [(id: UInt64, continuation: AsyncStream<Void>.Continuation)] = []
    }

    private let state = Mutex(State())

    package init() {}

    deinit {
        for subscriber in subscribers { subscriber.continuation.finish() }
    }

    /// A stream that yields after each ``signal()`` from now on.
    package func subscribe() -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let id = state.withLock { state in
            state.nextID += 1
            state.subscribers.append((state.nextID, continuation))
            return state.nextID
        }
        continuation.onTermination = { [weak self] _ in self?.remove(id) }
        return stream
    }

    /// Wakes every subscriber.
    package func signal() {
        // Outside of the lock: a subscriber's executor may run its continuation at once.
        for subscriber in subscribers { subscriber.continuation.yield() }
    }

    /// How many streams are being listened to.
    package var subscriberCount: Int { subscribers.count }

    private var subscribers: [(id: UInt64, continuation: AsyncStream<Void>.Continuation)] {
        state.withLock { $0.subscribers }
    }

    private func remove(_ id: UInt64) {
        state.withLock { $0.subscribers.removeAll { $0.id == id } }
    }
}
