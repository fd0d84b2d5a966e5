import CCurl
import SyncProtocol
import Synchronization

/// Keeps the thread of a client alive, and ends it.
final class CurlSession: Sendable {
    let queue: CurlQueue

    init(_ configuration: CurlClient.Configuration) throws(TransportError) {
        guard Self.isReady, let multi = curl_multi_init() else { throw .curl("libcurl does not start") }
        let queue = CurlQueue(multi: multi)
        let loop = CurlLoop(multi: multi, queue: queue, configuration: configuration)
        // Options that libcurl refuses are told now, and not at the first request.
        do throws(TransportError) {
            try loop.prepare()
        } catch {
            loop.close()
            throw error
        }
        let context = Unmanaged.passRetained(loop)
        let code = ccurl_start_thread(
            { context in
                guard let context else { return nil }
                Unmanaged<CurlLoop>.fromOpaque(context).takeRetainedValue().run()
                return nil
            }, context.toOpaque())
        guard code == 0 else {
            context.release()
            loop.close()
            throw .curl("the system gives no thread (error \(code))")
        }
        self.queue = queue
    }

    deinit { queue.close() }

    private static let isReady = ccurl_global_init() == CURLE_OK

    /// Runs a job until its continuation is resumed; ends it when the task is cancelled.
    func exchange<Value: Sendable>(
        id given: UInt64? = nil, _ job: (CurlJob.Continuation<Value>) -> CurlJob
    ) async throws(TransportError) -> Value {
        let id = given ?? queue.makeID()
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { (continuation: CurlJob.Continuation<Value>) in
                if Task.isCancelled {
                    continuation.resume(returning: .failure(.cancelled(mayHaveArrived: false)))
                    return
                }
                queue.add(.start(id, job(continuation)))
                // Cancelled in between: the handler has run already, and found nothing to end.
                if Task.isCancelled { queue.add(.cancel(id)) }
            }
        } onCancel: {
            queue.add(.cancel(id))
        }
        return try result.get()
    }
}

/// What tasks ask of the thread of a client.
final class CurlQueue: Sendable {
    enum Command: Sendable {
        case start(UInt64, CurlJob)
        case cancel(UInt64)
        /// Somebody has taken what a stream had; it may go on.
        case resume(UInt64)
    }

    private struct State {
        var commands: [Command] = []
        var nextID: UInt64 = 0
        var isClosed = false
        /// Whether the thread waits, or is about to.
        var isResting = false
    }

    private let state = Mutex(State())
    /// Only woken from here: the one call that libcurl allows beside others. Under the lock, so that it is not gone.
    private nonisolated(unsafe) let multi: UnsafeMutableRawPointer

    init(multi: UnsafeMutableRawPointer) { self.multi = multi }

    func makeID() -> UInt64 {
        state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
    }

    func add(_ command: Command) {
        state.withLock { state in
            state.commands.append(command)
            wake(&state)
        }
    }

    /// Ends the thread, and with it what is still under way.
    func close() {
        state.withLock { state in
            state.isClosed = true
            wake(&state)
        }
    }

    /// What has been asked for since the last time; `nil` when nobody will ask any more.
    func take() -> [Command]? {
        state.withLock { state in
            state.isResting = false
            guard !state.isClosed else { return nil }
            defer { state.commands.removeAll(keepingCapacity: true) }
            return state.commands
        }
    }

    /// Whether nothing was asked for since; whoever asks from now on wakes the thread.
    func rest() -> Bool {
        state.withLock { state in
            state.isResting = state.commands.isEmpty && !state.isClosed
            return state.isResting
        }
    }

    private func wake(_ state: inout State) {
        guard state.isResting else { return }
        state.isResting = false
        curl_multi_wakeup(multi)
    }
}
