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
final class GroupCommit: Sendable {
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

    private struct Job {
        let id: UInt64
        let writes: [PreparedWrite]
        let continuation: CheckedContinuation<Turn, Never>
    }

    private enum Mode {
        case idle
        /// A thread is processing jobs.
        case running
        /// The task of a job that is not in the queue waits for another process.
        case waiting
    }

    private struct State {
        var jobs: [Job] = []
        var mode = Mode.idle
        var nextID: UInt64 = 0
    }

    /// The number of writes after which a transaction takes no more jobs. There is a similar limit in bytes.
    private static let maximumWriteCount = 1_024
    private static let maximumByteCount = 16 << 20

    private let state = Mutex(State())
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
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (isCancelled, starts) = state.withLock { state -> (Bool, Bool) in
                    // A task is marked as cancelled before its handler runs. So the cancellation is either visible
                    // here, or the handler runs later and finds the job.
                    if Task.isCancelled { return (true, isFirst ? false : Self.resume(&state)) }
                    let job = Job(id: id, writes: writes, continuation: continuation)
                    state.jobs.insert(job, at: isFirst ? state.jobs.count : 0)
                    let mayStart = isFirst ? state.mode == .idle : true
                    if mayStart { state.mode = .running }
                    return (false, mayStart)
                }
                if starts { queue.start { self.run() } }
                if isCancelled { continuation.resume(returning: .cancelled) }
            }
        } onCancel: {
            let continuation = state.withLock { state in
                state.jobs.firstIndex { $0.id == id }.map { state.jobs.remove(at: $0).continuation }
            }
            continuation?.resume(returning: .cancelled)
        }
    }

    /// Lets the next job proceed after the waiting one has given up.
    private func startNext() {
        if state.withLock({ Self.resume(&$0) }) { queue.start { self.run() } }
    }

    private static func resume(_ state: inout State) -> Bool {
        state.mode = state.jobs.isEmpty ? .idle : .running
        return state.mode == .running
    }

    /// Processes jobs until the queue is empty.
    private func run() {
        while let jobs = take() {
            switch commit(jobs.map(\.writes)) {
            case .answered(let answers):
                if state.withLock({ $0.jobs.isEmpty }) { onIdle() }
                for (job, answer) in zip(jobs, answers) { job.continuation.resume(returning: .answered(answer)) }
            case .busy(let error):
                state.withLock { state in
                    state.mode = .waiting
                    state.jobs.insert(contentsOf: jobs.dropFirst(), at: 0)
                }
                jobs[0].continuation.resume(returning: .mustWait(error))
                return onIdle()
            }
        }
        // The jobs that were queued when the last outcome was returned may have been cancelled.
        onIdle()
    }

    /// Removes and returns the jobs of the next transaction, at least one; `nil` if the queue is empty.
    private func take() -> [Job]? {
        state.withLock { state in
            guard !state.jobs.isEmpty else {
                state.mode = .idle
                return nil
            }
            var (writeCount, byteCount, count) = (0, 0, 0)
            for job in state.jobs {
                writeCount += job.writes.count
                byteCount += job.writes.reduce(0) { $0 + ($1.entry?.value.count ?? 0) }
                if count > 0, writeCount > Self.maximumWriteCount || byteCount > Self.maximumByteCount { break }
                count += 1
            }
            defer { state.jobs.removeFirst(count) }
            return Array(state.jobs[..<count])
        }
    }
}
