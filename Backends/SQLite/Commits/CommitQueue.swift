import SyncCore
import Synchronization

/// Commits concurrent writes in one transaction, and returns each outcome after the commit.
///
/// Writes that arrive while a transaction waits for the disk are collected for the next one. If another process holds
/// the database, the task of the first write waits on the timer of the host and the others queue behind it; no thread
/// is blocked.
///
/// All commits run on a thread of the store. A lone write could commit on the thread of its task and save two thread
/// switches. But in a pool of one or two threads, as on a small server, this would block the pool, so that few other
/// writes arrive to be collected.
final class CommitQueue: Sendable {
    typealias Answers = [Result<WriteOutcome, BackendError>]

    /// The outcome of a transaction.
    enum Verdict: Sendable {
        /// The outcomes, with one list for each group of writes, in order.
        case answered([Answers])
        /// Another process holds the database. Nothing was written.
        case busy(BackendError)
    }

    private enum Turn: Sendable {
        case answered(Answers)
        case mustWait(BackendError)
        case cancelled
    }

    private enum Mode {
        case idle
        /// A thread is processing jobs.
        case running
        /// The task of a job that is not in the queue waits for another process.
        case waiting
    }

    /// The number of writes after which a transaction takes no more jobs. There is a similar limit in bytes.
    private static let maximumWriteCount = 1_024
    private static let maximumByteCount = 16 << 20

    private typealias Jobs = WaitList<[PreparedWrite], Turn>

    private let mode = Mutex(Mode.idle)
    private let jobs = Jobs()
    private let queue: SerialQueue
    private let host: HostServices
    private let timeout: Duration
    private let commit: @Sendable ([[PreparedWrite]]) -> Verdict
    private let onIdle: @Sendable () -> Void

    /// - Parameters:
    ///   - timeout: The longest time that a write waits for other processes.
    ///   - commit: Performs groups of writes in one transaction. Called on `queue`.
    ///   - onIdle: Called on `queue` when no more writes wait, before the last outcome is returned, or when writes
    ///     cannot proceed for now. There may be one redundant call.
    init(
        queue: SerialQueue, host: HostServices, timeout: Duration,
        commit: @escaping @Sendable ([[PreparedWrite]]) -> Verdict, onIdle: @escaping @Sendable () -> Void
    ) {
        self.onIdle = onIdle
        self.queue = queue
        self.host = host
        self.timeout = timeout
        self.commit = commit
    }

    /// Performs `writes` in one transaction.
    func perform(_ writes: [PreparedWrite]) async throws(BackendError) -> Answers {
        let operation = writes.first?.operation ?? .write
        var wait = BusyWait(host: host, timeout: timeout)
        var isFirst = true
        while true {
            switch await turn(of: writes, isFirst: isFirst) {
            case .answered(let answers): return answers
            case .cancelled: throw .cancelled(operation)
            case .mustWait(let error):
                isFirst = false
                do throws(BackendError) {
                    try await wait.pause(after: error, in: operation)
                } catch {
                    startNext()
                    throw error
                }
            }
        }
    }

    /// Queues `writes` and waits for the outcome. Writes that have waited for another process go to the front of the
    /// queue.
    private func turn(of writes: [PreparedWrite], isFirst: Bool) async -> Turn {
        let (job, starts) = mode.withLock { mode in
            let starts = !isFirst || mode == .idle
            if starts { mode = .running }
            return (jobs.add(writes, atFront: !isFirst), starts)
        }
        if starts { queue.start { self.run() } }
        return await job.value(ifCancelled: .cancelled)
    }

    /// Lets the next job proceed after the waiting one has given up.
    private func startNext() {
        mode.withLock { $0 = .running }
        queue.start { self.run() }
    }

    /// Processes jobs until the queue is empty.
    private func run() {
        while let taken = take() {
            switch commit(taken.map(\.payload)) {
            case .answered(let answers):
                if jobs.isEmpty { onIdle() }
                for (job, answer) in zip(taken, answers) { job.resume(returning: .answered(answer)) }
            case .busy(let error):
                mode.withLock { mode in
                    mode = .waiting
                    jobs.putBack(taken.dropFirst())
                }
                taken[0].resume(returning: .mustWait(error))
                return onIdle()
            }
        }
        // The jobs that were queued when the last outcome was returned may have been cancelled.
        onIdle()
    }

    /// Removes and returns the jobs of the next transaction, at least one; `nil` if the queue is empty.
    private func take() -> [Jobs.Waiter]? {
        mode.withLock { mode in
            var (writeCount, byteCount, isFirst) = (0, 0, true)
            let taken = jobs.take { writes in
                defer { isFirst = false }
                writeCount += writes.count
                byteCount += writes.reduce(0) { $0 + ($1.entry?.value.count ?? 0) }
                return isFirst || writeCount <= Self.maximumWriteCount && byteCount <= Self.maximumByteCount
            }
            if taken.isEmpty { mode = .idle }
            return taken.isEmpty ? nil : taken
        }
    }
}
