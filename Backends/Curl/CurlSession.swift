import CCurl
import SyncProtocol
import Synchronization

/// Keeps the thread of a client alive, and ends it.
final class CurlSession: Sendable {
    let queue: CurlQueue
    /// Touched only between `queue.beginLeading()` and what it does last.
    private nonisolated(unsafe) let loop: CurlLoop

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
        (self.queue, self.loop) = (queue, loop)
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
                start(id, job(continuation))
                // Cancelled in between: the handler has run already, and found nothing to end.
                if Task.isCancelled { queue.add(.cancel(id)) }
            }
        } onCancel: {
            queue.add(.cancel(id))
        }
        return try result.get()
    }

    /// An exchange that is alone begins here and now; the thread would have to be woken for it.
    private func start(_ id: UInt64, _ job: CurlJob) {
        if case .whole = job.receiver, queue.beginLeading() {
            loop.lead(id, job)
        } else {
            queue.add(.start(id, job))
        }
    }
}
