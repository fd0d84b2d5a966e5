import NIOCore

/// Runs tasks on the thread of an event loop.
///
/// One thread then receives, processes and answers a request, which saves two context switches. Long work runs
/// elsewhere, see ``Responder``.
final class LoopExecutor: TaskExecutor {
    private let loop: any EventLoop

    init(_ loop: any EventLoop) { self.loop = loop }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        loop.execute { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
