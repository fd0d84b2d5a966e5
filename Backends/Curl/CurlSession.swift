import CCurl
import SyncProtocol
import Synchronization

/// Owns the thread of a client and ends it.
final class CurlSession: Sendable {
    let queue: CurlQueue
    /// Used only between `queue.beginLeading()` and the end of `lead`.
    private nonisolated(unsafe) let loop: CurlLoop

    init(_ configuration: CurlClient.Configuration) throws(TransportError) {
        guard Self.isReady, let multi = curl_multi_init() else { throw .curl("libcurl cannot be initialized") }
        let queue = CurlQueue(multi: multi)
        let loop = CurlLoop(multi: multi, queue: queue, configuration: configuration)
        // Report unsupported options here instead of at the first request.
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
            throw .curl("cannot create a thread (error \(code))")
        }
        (self.queue, self.loop) = (queue, loop)
    }

    deinit { queue.close() }

    private static let isReady = ccurl_global_init() == CURLE_OK

    /// Runs a job until its continuation is resumed. Cancelling the task ends the job.
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
                start(id, job(continuation))
                // Cancelled in between: the handler has already run and found no exchange.
                if Task.isCancelled { queue.add(.cancel(id)) }
            }
        } onCancel: {
            queue.add(.cancel(id))
        }
        return try result.get()
    }

    /// Starts an exchange. A single one starts on this thread, because the client's thread would have to be woken.
    private func start(_ id: UInt64, _ job: CurlJob) {
        if case .whole = job.receiver, queue.beginLeading() {
            loop.lead(id, job)
        } else {
            queue.add(.start(id, job))
        }
    }
}
