import NIOCore

/// Runs tasks on the thread of an event loop.
///
/// A request is then received, answered and sent by one thread, which saves two changes of threads. Work that takes
/// long runs elsewhere, see ``Responder``.
final class LoopExecutor: TaskExecutor {
    private let loop: any EventLoop

    init(_ loop: any EventLoop) { self.loop = loop }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        loop.execute { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
