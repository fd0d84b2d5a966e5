import SyncCore
import Synchronization

/// Commits writes that arrive together in one transaction, and answers each after the commit and not before.
///
/// While one transaction waits for the disk, what arrives is gathered for the next. When another process holds the
/// database, the task of the first write waits by the timer of the host, and the others behind it; no thread sleeps.
///
/// All of it on a thread of the store's own. A write that finds nobody else at it could commit on its task's thread and
/// save the two hand-overs; but where the pool of threads has one or two, as on a small server, that one blocks, and
/// nothing arrives to be gathered (tried: of 800 writes of 16 tasks 764 became transactions of their own).
final class GroupCommit: Sendable {
    typealias Answers = [Result<WriteOutcome, BackendError>]

    /// What became of a transaction.
    enum Verdict: Sendable {
        /// One list a group of writes, in their order.
        case answered([Answers])
        /// Another process holds the database; nothing was done.
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
        /// A thread takes job after job.
        case running
        /// The task of a job that is not in the queue waits for another process.
        case waiting
    }

    private struct State {
        var jobs: [Job] = []
        var mode = Mode.idle
        var nextID: UInt64 = 0
    }

    /// A transaction takes jobs until it has so many writes, or so many bytes.
    private static let maximumWriteCount = 1_024
    private static let maximumByteCount = 16 << 20

    private let state = Mutex(State())
    private let queue: SerialQueue
    private let host: HostServices
    private let timeout: Duration
    private let commit: @Sendable ([[PreparedWrite]]) -> Verdict
    private let onRest: @Sendable () -> Void

    /// - Parameters:
    ///   - timeout: how long a write waits for other processes.
    ///   - commit: performs groups of writes in one transaction; called on `queue`.
    ///   - onRest: is called, on `queue`, when nothing more is there to be committed, before the last is answered, or
    ///     nothing can be for now. It may be called once too often.
    init(
        queue: SerialQueue, host: HostServices, timeout: Duration,
        commit: @escaping @Sendable ([[PreparedWrite]]) -> Verdict, onRest: @escaping @Sendable () -> Void
    ) {
        self.onRest = onRest
        self.queue = queue
        self.host = host
        self.timeout = timeout
        self.commit = commit
    }

    /// Performs `writes`, which are committed together.
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
                    passOn()
                    throw error
                }
            }
        }
    }

    /// Queues `writes` and waits for what becomes of them; those that waited for another process come first again.
    private func turn(of writes: [PreparedWrite], isFirst: Bool) async -> Turn {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (isCancelled, starts) = state.withLock { state -> (Bool, Bool) in
                    // A task is marked as cancelled before its handler runs. So either it is seen here, or the handler
                    // comes after us and finds the job.
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

    /// Lets the next job try, after the one that waited has given up.
    private func passOn() {
        if state.withLock({ Self.resume(&$0) }) { queue.start { self.run() } }
    }

    private static func resume(_ state: inout State) -> Bool {
        state.mode = state.jobs.isEmpty ? .idle : .running
        return state.mode == .running
    }

    /// Takes jobs until none is left.
    private func run() {
        while let jobs = take() {
            switch commit(jobs.map(\.writes)) {
            case .answered(let answers):
                if state.withLock({ $0.jobs.isEmpty }) { onRest() }
                for (job, answer) in zip(jobs, answers) { job.continuation.resume(returning: .answered(answer)) }
            case .busy(let error):
                state.withLock { state in
                    state.mode = .waiting
                    state.jobs.insert(contentsOf: jobs.dropFirst(), at: 0)
                }
                jobs[0].continuation.resume(returning: .mustWait(error))
                return onRest()
            }
        }
        // What was there when the last was answered may have been cancelled.
        onRest()
    }

    /// The jobs of the next transaction, one or more; `nil` when there are none.
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
