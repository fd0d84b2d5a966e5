import SyncProtocol
import Synchronization

/// What of a stream has come and was not taken yet: a bounded amount.
final class CurlStreamBuffer: Sendable {
    private static let capacity = 64 << 10

    private struct State {
        var bytes: [UInt8] = []
        var end: Result<Void, TransportError>?
        var isFull = false
        var reader: CheckedContinuation<Void, Never>?
    }

    /// What a reader finds.
    enum Found {
        /// These bytes; whether libcurl waits for their being taken.
        case bytes([UInt8], wasFull: Bool)
        case end(Result<Void, TransportError>)
        case nothing
    }

    private let state = Mutex(State())

    /// Adds `bytes`; `false` when there is no room for them now.
    func offer(_ bytes: UnsafeRawBufferPointer) -> Bool {
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

    /// Nothing comes any more: because of `error`, or because it is all.
    func finish(_ error: TransportError?) {
        let reader = state.withLock { state in
            state.end = state.end ?? error.map { .failure($0) } ?? .success(())
            return state.reader.take()
        }
        reader?.resume()
    }

    func take() -> Found {
        state.withLock { state in
            if !state.bytes.isEmpty {
                defer { (state.bytes, state.isFull) = ([], false) }
                return .bytes(state.bytes, wasFull: state.isFull)
            }
            return state.end.map { .end($0) } ?? .nothing
        }
    }

    /// Returns when something can be taken, or the task is cancelled, in which case `onCancel` is called.
    func wait(onCancel: @Sendable () -> Void) async {
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

/// The reader's end of a stream; its exchange ends with it.
final class CurlStreamSource: TransportSource {
    private let session: CurlSession
    private let id: UInt64
    private let buffer: CurlStreamBuffer

    init(session: CurlSession, id: UInt64, buffer: CurlStreamBuffer) {
        (self.session, self.id, self.buffer) = (session, id, buffer)
    }

    deinit { session.queue.add(.cancel(id)) }

    func next() async throws(TransportError) -> [UInt8]? {
        while true {
            if Task.isCancelled {
                session.queue.add(.cancel(id))
                throw .cancelled(mayHaveArrived: true)
            }
            switch buffer.take() {
            case .bytes(let bytes, let wasFull):
                if wasFull { session.queue.add(.resume(id)) }
                return bytes
            case .end(.success): return nil
            case .end(.failure(let error)): throw error
            case .nothing:
                let (queue, id) = (session.queue, id)
                await buffer.wait { queue.add(.cancel(id)) }
            }
        }
    }
}
