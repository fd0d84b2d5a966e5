#if PostgreSQL
import SyncCore

/// The implementation of a ``PostgreSQLBackend``: its connections, and the subscribers to changes.
final class PostgreSQLStore: Sendable {
    let host: HostServices
    let connector: Connector
    let hub = SignalHub()
    private let reads: JobQueue<[[Statement]], [Reply]>
    /// Numbering changes may wait for a standby, and reads need none.
    private let feeds: JobQueue<[[Statement]], [Reply]>
    private let writes: JobQueue<[PreparedWrite], [GroupCommit.Answer]>
    private let follower: Follower

    /// The number of connections that write. While one waits for the disk, the other one collects.
    private static let writerCount = 2

    init(_ configuration: PostgreSQLBackend.Configuration, host: HostServices) {
        self.host = host
        let connector = Connector(configuration)
        self.connector = connector
        follower = Follower(connector, hub: hub)
        func readers(_ count: Int) -> JobQueue<[[Statement]], [Reply]> {
            JobQueue(
                connector, threadLimit: count,
                cost: { transactions in
                    JobQueue.Cost(
                        statementCount: transactions.reduce(0) { $0 + $1.count },
                        byteCount: transactions.reduce(0) { $0 + $1.reduce(0) { $0 + $1.byteCount } })
                },
                performer: Self.perform)
        }
        (reads, feeds) = (readers(configuration.readerCount), readers(1))
        writes = JobQueue(
            connector, threadLimit: Self.writerCount,
            cost: { writes in
                JobQueue.Cost(
                    statementCount: 2 * writes.count, byteCount: writes.reduce(0) { $0 + ($1.value?.count ?? 0) })
            },
            performer: { GroupCommit.perform($0, on: $1, answer: $2) })
    }

    deinit { close() }

    var label: String { connector.label }

    /// Ends all threads and connections.
    func close() {
        reads.close()
        feeds.close()
        writes.close()
        follower.close()
    }

    /// Performs transactions that may be repeated, and returns the rows of each.
    func read(
        _ transactions: [[Statement]], _ operation: BackendError.Operation
    ) async throws(BackendError) -> [[Rows]] {
        var rows: [[Rows]] = []
        for reply in try await replies(to: transactions, operation) {
            switch reply {
            case .success(let some): rows.append(some)
            case .failure(let failure): throw error(failure, operation)
            }
        }
        return rows
    }

    /// Performs transactions that may be repeated, and returns the outcome of each.
    func replies(
        to transactions: [[Statement]], _ operation: BackendError.Operation
    ) async throws(BackendError) -> [Reply] {
        try BackendError.throwIfCancelled(operation)
        do throws(BackendError) {
            return try await (operation == .changes ? feeds : reads).perform(transactions, operation)
        } catch {
            throw error.during(operation)
        }
    }

    /// The error for a transaction that may be repeated.
    func error(
        _ failure: TransactionFailure, _ operation: BackendError.Operation, key: EntryKey? = nil
    ) -> BackendError {
        BackendError(failure, label: label, isWrite: false).during(operation, key: key)
    }

    /// Performs reads on the connection of a thread. If the connection ends, or its server is no longer the primary,
    /// they are repeated once on another one.
    private static func perform(
        _ works: [[[Statement]]], on session: Session, answer: (Int, Result<[Reply], BackendError>) -> Void
    ) {
        let transactions = works.flatMap(\.self)
        var replies: [Reply]
        do throws(BackendError) {
            replies = try session.perform(transactions)
            if replies.contains(where: { $0.failure.map { $0.isLost || $0.isReadOnly } ?? false }) {
                replies = try session.perform(transactions)
            }
        } catch {
            for index in works.indices { answer(index, .failure(error)) }
            return
        }
        var rest = replies[...]
        for (index, work) in works.enumerated() {
            answer(index, .success(Array(rest.prefix(work.count))))
            rest = rest.dropFirst(work.count)
        }
    }

    /// Performs writes, in one transaction with others that arrive meanwhile.
    func write(
        _ requests: [WriteRequest], _ operation: BackendError.Operation
    ) async throws(BackendError) -> [GroupCommit.Answer] {
        let prepared = requests.map { PreparedWrite($0, host: host) }
        let answers = try await writes.perform(prepared, operation)
        let isChanged = answers.contains { answer in
            switch answer {
            case .success(.written), .success(.deleted): true
            case .success(.conflict): false
            case .failure(let error): error.disposition == .outcomeUnknown
            }
        }
        if isChanged {
            follower.start()
            follower.wake()
            hub.signal()
        }
        return answers
    }

    /// A stream of signals that starts now.
    func signals() -> AsyncStream<Void> {
        let stream = hub.subscribe()
        follower.start()
        return stream
    }
}
#endif
