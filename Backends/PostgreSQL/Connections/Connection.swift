#if PostgreSQL
import CPQ
import SyncCore

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// One connection to a server, used by one thread.
///
/// All statements of a call are sent before the first result is read. Results are provisional until the server has
/// confirmed the end of their transaction. A call that takes too long closes the connection; it is never cancelled at
/// the server, because a cancelled wait for a standby commits the write and reports success.
///
/// A server that becomes read-only is no longer the primary, although its connections stay open. PostgreSQL 14 and
/// later reports it with the confirmation of the next transaction. The connection is then closed, and what that
/// transaction has read is discarded.
final class Connection {
    private let handle: OpaquePointer
    private let warnings: Warnings
    private let clock = ContinuousClock()
    /// True once the connection cannot be used any more.
    private(set) var isLost = false
    /// True to ask the server with each call whether it accepts writes. Its reports do not count then.
    var asksForRole = false

    /// Records the warnings of a connection. libpq calls it on the thread that reads.
    private final class Warnings {
        var latest: String?
    }

    /// Takes over `handle`, which is being connected.
    init(_ handle: OpaquePointer) {
        self.handle = handle
        warnings = Warnings()
        // With the code of an error, which libpq offers in no other way while it connects.
        PQsetErrorVerbosity(handle, PQERRORS_VERBOSE)
        PQsetNoticeReceiver(
            handle,
            { context, result in
                guard let context, let severity = PQresultErrorField(result, Connection.severityField),
                    String(cString: severity) == "WARNING"
                else { return }
                let warnings = Unmanaged<Warnings>.fromOpaque(context).takeUnretainedValue()
                warnings.latest = PQresultErrorField(result, Connection.messageField).map { String(cString: $0) } ?? ""
            }, Unmanaged.passUnretained(warnings).toOpaque())
    }

    deinit { PQfinish(handle) }

    // The fields of an error: the codes of the protocol, which libpq's header defines as characters.
    private static let severityField = Int32(UInt8(ascii: "V"))
    private static let codeField = Int32(UInt8(ascii: "C"))
    private static let messageField = Int32(UInt8(ascii: "M"))

    /// The socket; -1 if there is none.
    var socket: Int32 { PQsocket(handle) }

    /// The latest message of libpq about this connection, on one line.
    var message: String { Self.onOneLine(PQerrorMessage(handle)) }

    private static func onOneLine(_ text: UnsafePointer<CChar>?) -> String {
        guard let text else { return "" }
        let lines = String(cString: text).split(whereSeparator: \.isNewline).map { $0.drop(while: \.isWhitespace) }
        return lines.filter { !$0.hasPrefix("LOCATION:") }.joined(separator: " ")
    }

    // MARK: Connecting

    /// Waits until the connection is established.
    ///
    /// - Returns: `false` if it failed or `end` has passed.
    func finishConnecting(until end: ContinuousClock.Instant) -> Bool {
        guard PQstatus(handle) != CONNECTION_BAD else { return false }
        var wanted = Int16(POLLOUT)
        while true {
            guard wait(for: wanted, until: end) else { return false }
            switch PQconnectPoll(handle) {
            case PGRES_POLLING_OK: return PQsetnonblocking(handle, 1) == 0
            case PGRES_POLLING_READING: wanted = Int16(POLLIN)
            case PGRES_POLLING_WRITING: wanted = Int16(POLLOUT)
            default: return false
            }
        }
    }

    /// Runs `sql`, possibly several statements, outside of the pipeline. Returns the rows of the last one.
    func run(_ sql: String, until end: ContinuousClock.Instant) -> Result<Rows, TransactionFailure> {
        guard PQsendQuery(handle, sql) == 1 else { return .failure(lost()) }
        return collect(until: end)
    }

    /// Runs one statement outside of the pipeline and returns its rows in binary format.
    func ask(_ sql: String, until end: ContinuousClock.Instant) -> Result<Rows, TransactionFailure> {
        guard PQsendQueryParams(handle, sql, 0, nil, nil, nil, nil, 1) == 1 else { return .failure(lost()) }
        return collect(until: end)
    }

    private func collect(until end: ContinuousClock.Instant) -> Result<Rows, TransactionFailure> {
        var outcome: Result<Rows, TransactionFailure>?
        do throws(TransactionFailure) {
            while let result = try next(until: end) {
                let status = PQresultStatus(result)
                if case .failure = outcome {
                    PQclear(result)
                } else if status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK {
                    outcome = .success(Rows(result))
                } else {
                    outcome = .failure(failure(of: result))
                }
            }
        } catch {
            return .failure(error)
        }
        return outcome ?? .failure(lost())
    }

    /// Prepares all statements and stays in pipeline mode.
    func prepare(schema: String, defects: Defects, until end: ContinuousClock.Instant) -> TransactionFailure? {
        guard PQenterPipelineMode(handle) == 1 else { return lost() }
        for query in Query.allCases {
            let sql = query.sql(schema: schema, defects: defects)
            guard PQsendPrepare(handle, query.rawValue, sql, 0, nil) == 1 else { return lost() }
        }
        guard PQpipelineSync(handle) == 1 else { return lost() }
        if case .failure(let failure) = receive(statementCount: Query.allCases.count, until: end) { return failure }
        return nil
    }

    // MARK: Transactions

    /// Performs transactions one after another, and returns the outcome of each.
    func perform(_ transactions: [[Statement]], until end: ContinuousClock.Instant) -> [Reply] {
        guard isAlive() else {
            return transactions.map { _ in .failure(TransactionFailure(message: message, isLost: true, isUnsent: true))
            }
        }
        warnings.latest = nil
        var isSent = true
        // The question comes last. If the server still accepts writes after the reads, it accepted them during the
        // reads.
        for transaction in transactions + (asksForRole ? [[Statement(.role)]] : []) where isSent {
            isSent = transaction.allSatisfy(send) && PQpipelineSync(handle) == 1
        }
        guard isSent else {
            let failure = lost()
            return transactions.map { _ in .failure(failure) }
        }
        let replies = transactions.map { receive(statementCount: $0.count, until: end) }
        let role = asksForRole ? receive(statementCount: 1, until: end) : nil
        guard let failure = readOnlyFailure(role, replies) else { return replies }
        isLost = true
        return zip(transactions, replies).map { transaction, reply in
            guard case .success = reply, !transaction.contains(where: \.query.isWriting) else { return reply }
            return .failure(failure)
        }
    }

    /// The failure of transactions that only read; `nil` if the server accepts writes.
    ///
    /// - Parameter role: The answer to the question; `nil` if the reports of the server count.
    private func readOnlyFailure(_ role: Reply?, _ replies: [Reply]) -> TransactionFailure? {
        if replies.contains(where: { $0.failure?.isReadOnly == true }) { return .readOnlyServer }
        switch role {
        case .success(let rows)?: return rows[0].isTrue(0, 0) ? .readOnlyServer : nil
        case .failure(let cause)?: return .unconfirmed(cause)
        case nil:
            let isReported = reports(Self.recovery, "on") || reports("default_transaction_read_only", "on")
            return isReported ? .readOnlyServer : nil
        }
    }

    /// The parameter that is `on` while the server is a standby.
    private static let recovery = "in_hot_standby"

    /// True if the server reports when it stops to accept writes.
    var reportsRole: Bool { PQparameterStatus(handle, Self.recovery) != nil }

    private func reports(_ parameter: String, _ value: String) -> Bool {
        PQparameterStatus(handle, parameter).map { strcmp($0, value) == 0 } ?? false
    }

    /// Returns `false` if the server has closed the connection since the last call.
    func isAlive() -> Bool {
        while !isLost, isReady(for: Int16(POLLIN)) {
            if PQconsumeInput(handle) == 0 || PQstatus(handle) == CONNECTION_BAD { isLost = true }
            // Takes notices out of the buffer.
            _ = PQisBusy(handle)
        }
        return !isLost
    }

    private func send(_ statement: Statement) -> Bool {
        statement.parameters.withPointers { values, lengths in
            let formats = [Int32](repeating: 1, count: statement.parameters.count)
            return PQsendQueryPrepared(
                handle, statement.query.rawValue, Int32(formats.count), values, lengths, formats, 1)
        } == 1
    }

    /// Performs one transaction of statements that are not prepared.
    ///
    /// - Parameter isReading: True to discard the rows if the server has become read-only.
    func perform(_ queries: [PostgreSQLQueries.Query], isReading: Bool, until end: ContinuousClock.Instant) -> Reply {
        guard isAlive() else {
            return .failure(TransactionFailure(message: message, isLost: true, isUnsent: true))
        }
        warnings.latest = nil
        guard queries.allSatisfy(send), PQpipelineSync(handle) == 1 else { return .failure(lost()) }
        let reply = receive(statementCount: queries.count, until: end)
        // A failed transaction that began with BEGIN stays open and refuses all statements. In pipeline mode, libpq
        // does not report its state.
        if isReading, case .failure = reply { isLost = true }
        guard let failure = readOnlyFailure(nil, [reply]) else { return reply }
        isLost = true
        return isReading ? .failure(failure) : reply
    }

    private func send(_ query: PostgreSQLQueries.Query) -> Bool {
        let parameters = query.parameters.map(\.parameter)
        let types = query.parameters.map(\.type)
        let formats = [Int32](repeating: 1, count: parameters.count)
        return parameters.withPointers { values, lengths in
            PQsendQueryParams(handle, query.sql, Int32(parameters.count), types, values, lengths, formats, 1)
        } == 1
    }

    /// Reads the results of a transaction up to the confirmation of its end.
    private func receive(statementCount: Int, until end: ContinuousClock.Instant) -> Reply {
        guard !isLost else { return .failure(lost()) }
        var rows: [Rows] = []
        var first: TransactionFailure?
        do throws(TransactionFailure) {
            for number in 0..<statementCount {
                while let result = try next(until: end) {
                    switch PQresultStatus(result) {
                    case PGRES_TUPLES_OK, PGRES_COMMAND_OK: rows.append(Rows(result))
                    case PGRES_PIPELINE_ABORTED: PQclear(result)
                    default:
                        var failure = failure(of: result)
                        failure.statement = number
                        if failure.isLost { throw failure }
                        first = first ?? failure
                    }
                }
            }
            while true {
                // There is no result if the commit failed and its error has been read.
                guard let result = try next(until: end) else { continue }
                guard PQresultStatus(result) != PGRES_PIPELINE_SYNC else {
                    PQclear(result)
                    break
                }
                let failure = failure(of: result)
                if failure.isLost { throw failure }
                first = first ?? failure
            }
        } catch {
            isLost = true
            var failure = error
            failure.provisional = rows
            return .failure(failure)
        }
        if var first {
            first.provisional = rows
            return .failure(first)
        }
        if let warning = warnings.latest {
            // The wait for a standby was cancelled: the write is only on the primary.
            isLost = true
            return .failure(TransactionFailure(message: warning, isLost: true))
        }
        guard rows.count == statementCount else {
            isLost = true
            return .failure(TransactionFailure(message: "the server left out a result", isLost: true))
        }
        return .success(rows)
    }

    /// The next result; `nil` at the end of a statement.
    private func next(until end: ContinuousClock.Instant) throws(TransactionFailure) -> OpaquePointer? {
        while PQisBusy(handle) == 1 {
            let unsent = PQflush(handle)
            guard unsent >= 0 else { throw lost() }
            guard wait(for: Int16(unsent == 1 ? POLLIN | POLLOUT : POLLIN), until: end) else {
                isLost = true
                throw TransactionFailure(message: "the server has not answered in time", isLost: true)
            }
            guard PQconsumeInput(handle) == 1 else { throw lost() }
        }
        guard let result = PQgetResult(handle) else {
            if PQstatus(handle) == CONNECTION_BAD { throw lost() }
            return nil
        }
        return result
    }

    /// Converts an error of the server, and frees it.
    private func failure(of result: OpaquePointer) -> TransactionFailure {
        defer { PQclear(result) }
        let code = PQresultErrorField(result, Self.codeField).map { String(cString: $0) }
        let text = Self.onOneLine(PQresultErrorField(result, Self.messageField) ?? PQresultErrorMessage(result))
        let isLost = PQstatus(handle) == CONNECTION_BAD || TransactionFailure.endsConnection(code)
        if isLost { self.isLost = true }
        return TransactionFailure(sqlState: code, message: text, isLost: isLost)
    }

    private func lost() -> TransactionFailure {
        isLost = true
        return TransactionFailure(sqlState: Self.code(in: message), message: message, isLost: true)
    }

    /// The code in a message of libpq about a failed connection: `… FATAL:  28P01: password authentication failed …`.
    static func code(in message: String) -> String? {
        let parts = message.split(separator: ": ").map { $0.drop(while: \.isWhitespace) }
        return parts.last { part in
            part.count == 5 && part.allSatisfy { $0.isASCII && ($0.isUppercase || $0.isNumber) }
                && part.contains(where: \.isNumber)
        }.map(String.init)
    }

    // MARK: Waiting

    private func isReady(for events: Int16) -> Bool {
        var descriptor = pollfd(fd: socket, events: events, revents: 0)
        return socket >= 0 && poll(&descriptor, 1, 0) > 0
    }

    private func wait(for events: Int16, until end: ContinuousClock.Instant) -> Bool {
        while true {
            let left = clock.now.duration(to: end)
            guard left > .zero, socket >= 0 else { return false }
            var descriptor = pollfd(fd: socket, events: events, revents: 0)
            let count = poll(&descriptor, 1, left.pollMilliseconds)
            if count > 0 { return true }
            if count < 0, errno != EINTR { return false }
        }
    }
}
#endif
