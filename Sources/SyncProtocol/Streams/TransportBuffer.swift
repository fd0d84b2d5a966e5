import SyncCore
import Synchronization

/// A bounded buffer for the bytes of a stream that have arrived and have not been read.
package final class TransportBuffer: Sendable {
    private static let capacity = 64 << 10

    private struct State {
        var bytes: [UInt8] = []
        var end: Result<Void, TransportError>?
        var isFull = false
    }

    /// The result of ``take()``.
    package enum Found {
        /// Buffered bytes. `wasFull` is true if the writer waits for them to be taken.
        case bytes([UInt8], wasFull: Bool)
        case end(Result<Void, TransportError>)
        case nothing
    }

    private let state = Mutex(State())
    private let reader = WaitList<Void, Void>()

    package init() {}

    /// Appends `bytes` if there is room for them; returns `false` otherwise.
    package func offer(_ bytes: some Collection<UInt8>) -> Bool {
        state.withLock { state in
            guard state.bytes.isEmpty || state.bytes.count + bytes.count <= Self.capacity else {
                state.isFull = true
                return false
            }
            append(bytes, to: &state)
            return true
        }
    }

    /// Appends `bytes` unless the buffer would exceed `maximum` bytes. Returns `true` if they were appended.
    package func offer(_ bytes: some Collection<UInt8>, maximum: Int) -> Bool {
        state.withLock { state in
            guard bytes.count <= maximum - state.bytes.count else { return false }
            append(bytes, to: &state)
            return true
        }
    }

    private func append(_ bytes: some Collection<UInt8>, to state: inout State) {
        state.bytes.append(contentsOf: bytes)
        reader.resumeAll(returning: ())
    }

    /// Ends the stream, with `error` or normally. No bytes follow.
    package func finish(_ error: TransportError?) {
        state.withLock { state in
            state.end = state.end ?? error.map { .failure($0) } ?? .success(())
            reader.resumeAll(returning: ())
        }
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
        let waiter = state.withLock { $0.bytes.isEmpty && $0.end == nil ? reader.add() : nil }
        await withTaskCancellationHandler {
            await waiter?.value(ifCancelled: ())
        } onCancel: {
            onCancel()
        }
    }
}
