import Synchronization

/// What of a stream has come and was not taken yet: a bounded amount.
package final class TransportBuffer: Sendable {
    private static let capacity = 64 << 10

    private struct State {
        var bytes: [UInt8] = []
        var end: Result<Void, TransportError>?
        var isFull = false
        var reader: CheckedContinuation<Void, Never>?
    }

    /// What a reader finds.
    package enum Found {
        /// These bytes; whether somebody waits for their being taken.
        case bytes([UInt8], wasFull: Bool)
        case end(Result<Void, TransportError>)
        case nothing
    }

    private let state = Mutex(State())

    package init() {}

    /// Adds `bytes` where there is room for them; `false` where there is none now.
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

    /// Adds `bytes` unless there would be more than `maximum` of them then; whether that was done.
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

    /// Nothing comes any more: because of `error`, or because it is all.
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

    /// Returns when something can be taken, or the task is cancelled, in which case `onCancel` is called.
    package func wait(onCancel: @Sendable () -> Void) async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // Cancellation is looked at under the lock: the handler runs before, and is seen here, or after, and
                // finds the reader.
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
