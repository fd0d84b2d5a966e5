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

    private struct State {
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
    private let jobs = WaitList<Work, Answer>()
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
        try BackendError.throwIfCancelled(operation)
        return try await add(work).value(ifCancelled: .failure(.cancelled(operation))).get()
    }

    private enum Next {
        case wake(WakePipe)
        case start
        case nothing
    }

    private func add(_ work: Work) -> WaitList<Work, Answer>.Waiter {
        let (job, next) = state.withLock { state in
            let job = jobs.add(work)
            if let pipe = state.resting.popLast() { return (job, Next.wake(pipe)) }
            guard state.threadCount < threadLimit else { return (job, .nothing) }
            state.threadCount += 1
            return (job, .start)
        }
        switch next {
        case .wake(let pipe): pipe.wake()
        case .nothing: break
        case .start:
            do throws(BackendError) {
                let pipe = try WakePipe()
                try startThread { self.run(pipe) }
            } catch {
                abandon(error)
            }
        }
        return job
    }

    /// Fails all jobs if there is no thread to perform them.
    private func abandon(_ error: BackendError) {
        state.withLock { state in
            state.threadCount -= 1
            if state.threadCount == 0 { jobs.resumeAll(returning: .failure(error)) }
        }
    }

    /// The main function of a thread.
    private func run(_ pipe: WakePipe) {
        let session = Session(connector, wake: pipe)
        while let taken = take(orRest: pipe) {
            guard !taken.isEmpty else {
                session.rest()
                state.withLock { $0.resting.removeAll { $0 === pipe } }
                continue
            }
            performer(taken.map(\.payload), session) { taken[$0].resume(returning: $1) }
        }
    }

    /// The jobs of the next turn; empty if there are none, and the thread is then marked as resting; `nil` if the queue
    /// is closed.
    private func take(orRest pipe: WakePipe) -> [WaitList<Work, Answer>.Waiter]? {
        state.withLock { state in
            var (total, isFirst) = (Cost(), true)
            let taken = jobs.take { work in
                defer { isFirst = false }
                let cost = cost(work)
                total.statementCount += cost.statementCount
                total.byteCount += cost.byteCount
                return isFirst || !total.isTooMuch
            }
            guard taken.isEmpty else { return taken }
            if state.isClosed { return nil }
            state.resting.append(pipe)
            return []
        }
    }
}
#endif
