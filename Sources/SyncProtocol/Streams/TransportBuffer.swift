import Synchronization

/// A bounded buffer for the bytes of a stream that have arrived and have not been read.
package final class TransportBuffer: Sendable {
    private static let capacity = 64 << 10

    private struct State {
        var bytes: [UInt8] = []
        var end: Result<Void, TransportError>?
        var isFull = false
        var reader: CheckedContinuation<Void, Never>?
    }

    /// The result of ``take()``.
    package enum Found {
        /// Buffered bytes. `wasFull` is true if the writer waits for them to be taken.
        case bytes([UInt8], wasFull: Bool)
        case end(Result<Void, TransportError>)
        case nothing
    }

    private let state = Mutex(State())

    package init() {}

    /// Appends `bytes` if there is room for them; returns `false` otherwise.
    package func offer(_ bytes: some Collection<UInt8>) -> Bool {
        let (isTaken, reader) = state.withLock { state in
            guard state.bytes.isEmpty || state.bytes.count + bytes.count <= Self.capacity else {
                state.isFull = true
                return (false, nil as CheckedContinuation<Void, Never>?)
            }
            state.bytes.append(contentsOf: bytes)
            return (true, state.reader.take())
        }
        reader?.resume()
        return isTaken
    }

    /// Appends `bytes` unless the buffer would exceed `maximum` bytes. Returns `true` if they were appended.
    package func offer(_ bytes: some Collection<UInt8>, maximum: Int) -> Bool {
        let (isTaken, reader) = state.withLock { state in
            guard bytes.count <= maximum - state.bytes.count else {
                return (false, nil as CheckedContinuation<Void, Never>?)
            }
            state.bytes.append(contentsOf: bytes)
            return (true, state.reader.take())
        }
        reader?.resume()
        return isTaken
    }

    /// Ends the stream, with `error` or normally. No bytes follow.
    package func finish(_ error: TransportError?) {
        let reader = state.withLock { state in
            state.end = state.end ?? error.map { .failure($0) } ?? .success(())
            return state.reader.take()
        }
        reader?.resume()
    }

    package func take() -> Found {
        state.withLock { state in
            if !state.bytes.isEmpty {
                defer { (state.bytes, state.isFull) = ([], false) }
                return .bytes(state.bytes, wasFull: state.isFull)
            }
            return state.end.map { .end($0) } ?? .nothing
        }
    }

    /// Returns when something can be taken or the task is cancelled. In the latter case it calls `onCancel`.
    package func wait(onCancel: @Sendable () -> Void) async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // Cancellation is checked under the lock. The cancellation handler either runs before, and is noticed
                // here, or runs after, and finds the continuation.
                let isReady = state.withLock { state in
                    if !state.bytes.isEmpty || state.end != nil || Task.isCancelled { return true }
                    state.reader = continuation
                    return false
                }
                if isReady { continuation.resume() }
            }
        } onCancel: {
            onCancel()
            state.withLock { $0.reader.take() }?.resume()
        }
    }
}
