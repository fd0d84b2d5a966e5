#if PostgreSQL
import SyncCore
import Synchronization

/// Distributes jobs to threads with one connection each.
///
/// A thread takes all jobs that wait, up to a limit, and performs them together: what arrives while all threads wait
/// for the server is collected for the next turn. Threads start when they are needed, and end when the queue is closed.
final class JobQueue<Work: Sendable, Outcome: Sendable>: Sendable {
    typealias Answer = Result<Outcome, BackendError>

    /// Performs jobs on the connection of a thread, and passes one answer for each, with its index, to `answer`.
    typealias Performer =
        @Sendable (_ works: [Work], _ session: Session, _ answer: (_ index: Int, _ answer: Answer) -> Void) -> Void

    private struct Job {
        let id: UInt64
        let work: Work
        let continuation: CheckedContinuation<Answer, Never>
    }

    private struct State {
        var jobs: [Job] = []
        var nextID: UInt64 = 0
        /// The number of threads.
        var threadCount = 0
        /// The wake pipes of the threads that rest, the latest last.
        var resting: [WakePipe] = []
        var isClosed = false
    }

    /// The cost of a job.
    struct Cost {
        var statementCount = 0
        var byteCount = 0

        /// The cost from which a turn takes no more jobs.
        static var limit: Cost { Cost(statementCount: 512, byteCount: 8 << 20) }

        var isTooMuch: Bool {
            statementCount > Self.limit.statementCount || byteCount > Self.limit.byteCount
        }
    }

    private let state = Mutex(State())
    private let connector: Connector
    private let threadLimit: Int
    private let cost: @Sendable (Work) -> Cost
    private let performer: Performer

    init(
        _ connector: Connector, threadLimit: Int, cost: @escaping @Sendable (Work) -> Cost,
        performer: @escaping Performer
    ) {
        (self.connector, self.threadLimit, self.cost, self.performer) = (connector, threadLimit, cost, performer)
    }

    /// Ends the threads after they have performed the waiting jobs.
    func close() {
        let resting = state.withLock { state in
            state.isClosed = true
            defer { state.resting = [] }
            return state.resting
        }
        for pipe in resting { pipe.wake() }
    }

    /// Performs `work` on a thread, and returns the outcome. A job that no thread has taken is removed when the calling
    /// task is cancelled.
    func perform(_ work: Work, _ operation: BackendError.Operation) async throws(BackendError) -> Outcome {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        let answer = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                add(Job(id: id, work: work, continuation: continuation), operation)
            }
        } onCancel: {
            let job = state.withLock { state in
                state.jobs.firstIndex { $0.id == id }.map { state.jobs.remove(at: $0) }
            }
            job?.continuation.resume(returning: .failure(.cancelled(operation)))
        }
        return try answer.get()
    }

    private enum Next {
        case wake(WakePipe)
        case start
        case nothing
        case refuse(BackendError)
    }

    private func add(_ job: Job, _ operation: BackendError.Operation) {
        let next = state.withLock { state -> Next in
            // A task is marked as cancelled before its handler runs. So the cancellation is either visible here, or the
            // handler runs later and finds the job.
            if Task.isCancelled { return .refuse(.cancelled(operation)) }
            state.jobs.append(job)
            if let pipe = state.resting.popLast() { return .wake(pipe) }
            guard state.threadCount < threadLimit else { return .nothing }
            state.threadCount += 1
            return .start
        }
        switch next {
        case .wake(let pipe): pipe.wake()
        case .nothing: break
        case .refuse(let error): job.continuation.resume(returning: .failure(error))
        case .start:
            do throws(BackendError) {
                let pipe = try WakePipe()
                try startThread { self.run(pipe) }
            } catch {
                abandon(error)
            }
        }
    }

    /// Fails all jobs if there is no thread to perform them.
    private func abandon(_ error: BackendError) {
        let jobs = state.withLock { state in
            state.threadCount -= 1
            guard state.threadCount == 0 else { return [Job]() }
            defer { state.jobs = [] }
            return state.jobs
        }
        for job in jobs { job.continuation.resume(returning: .failure(error)) }
    }

    /// The main function of a thread.
    private func run(_ pipe: WakePipe) {
        let session = Session(connector, wake: pipe)
        while let jobs = take(orRest: pipe) {
            guard !jobs.isEmpty else {
                session.rest()
                state.withLock { $0.resting.removeAll { $0 === pipe } }
                continue
            }
            performer(jobs.map(\.work), session) { jobs[$0].continuation.resume(returning: $1) }
        }
    }

    /// The jobs of the next turn; empty if there are none, and the thread is then marked as resting; `nil` if the queue
    /// is closed.
    private func take(orRest pipe: WakePipe) -> [Job]? {
        state.withLock { state in
            guard !state.jobs.isEmpty else {
                guard !state.isClosed else { return nil }
                state.resting.append(pipe)
                return []
            }
            var total = Cost()
            var count = 0
            for job in state.jobs {
                let cost = cost(job.work)
                total.statementCount += cost.statementCount
                total.byteCount += cost.byteCount
                if count > 0, total.isTooMuch { break }
                count += 1
            }
            defer { state.jobs.removeFirst(count) }
            return Array(state.jobs[..<count])
        }
    }
}
#endif
