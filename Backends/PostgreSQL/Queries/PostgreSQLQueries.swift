#if PostgreSQL
package import SyncCore

/// Runs statements with parameters in the database of a store. Each call is one transaction, on a connection of its own
/// thread.
package final class PostgreSQLQueries: Sendable {
    /// A parameter, or a value of a row.
    package enum Value: Hashable, Sendable {
        case null
        case integer(Int64)
        case text(String)

        var parameter: Statement.Parameter {
            switch self {
            case .null: .null
            case .integer(let number): .integer(number)
            case .text(let text): .bytes(Array(text.utf8))
            }
        }

        /// The number of the parameter's type in `pg_type`: int8, text, or the one that the statement implies.
        var type: UInt32 {
            switch self {
            case .null: 0
            case .integer: 20
            case .text: 25
            }
        }
    }

    /// A statement with the parameters `$1`, `$2` and so on.
    package struct Query: Sendable {
        package var sql: String
        package var parameters: [Value]

        package init(sql: String, parameters: [Value]) { (self.sql, self.parameters) = (sql, parameters) }
    }

    private let connector: Connector
    private let preparation: Query
    private let readers: JobQueue<[Query], [[[Value]]]>
    private let writer: JobQueue<[Query], [[[Value]]]>

    /// The code of a division by zero.
    private static let divisionByZero = "22012"

    /// - Parameter searchPath: The schema in which names without a schema are found.
    package init(_ configuration: PostgreSQLBackend.Configuration, searchPath: String) {
        let connector = Connector(configuration)
        self.connector = connector
        // The settings of a store's connections suit its own statements only.
        let settings = ["enable_seqscan", "enable_hashjoin", "enable_mergejoin"]
        let sets = settings.map { ", set_config('\($0)', 'on', true)" }.joined()
        preparation = Query(
            sql: "SELECT set_config('search_path', $1, true), set_config('lock_timeout', '5000', true)\(sets)",
            parameters: [.text(searchPath)])
        readers = JobQueue(connector, threadLimit: 2, cost: { _ in .limit }, performer: Self.perform(isReading: true))
        writer = JobQueue(connector, threadLimit: 1, cost: { _ in .limit }, performer: Self.perform(isReading: false))
    }

    deinit { close() }

    /// The address without secrets.
    package var label: String { connector.label }

    /// Ends the threads and connections.
    package func close() {
        readers.close()
        writer.close()
    }

    /// Performs the statements in one transaction, and returns the rows of each.
    ///
    /// - Parameter isReading: True if the statements only read. They are repeated once after the loss of a connection.
    package func perform(_ queries: [Query], isReading: Bool) async throws(BackendError) -> [[[Value]]] {
        guard isReading else {
            return Array(try await writer.perform([preparation] + queries, .write).dropFirst())
        }
        // All statements read at one moment.
        let begin = Query(sql: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", parameters: [])
        let commit = Query(sql: "COMMIT", parameters: [])
        let rows = try await readers.perform([begin, preparation] + queries + [commit], .read)
        return Array(rows.dropFirst(2).dropLast())
    }

    /// Returns `true` if a statement divided by zero, and nothing was written.
    package static func isDivisionByZero(_ error: BackendError) -> Bool {
        (error.cause as? ServerMessage)?.sqlState == divisionByZero
    }

    private static func perform(isReading: Bool) -> JobQueue<[Query], [[[Value]]]>.Performer {
        { works, session, answer in
            for (index, work) in works.enumerated() {
                answer(
                    index,
                    Result { () throws(BackendError) in
                        var reply = try session.perform(work, isReading: isReading)
                        if isReading, reply.failure.map({ $0.isLost || $0.isReadOnly }) == true {
                            reply = try session.perform(work, isReading: isReading)
                        }
                        switch reply {
                        case .success(let rows): return rows.map(\.values)
                        case .failure(let failure):
                            throw BackendError(failure, label: session.label, isWrite: !isReading)
                                .during(isReading ? .read : .write)
                        }
                    })
            }
        }
    }
}

extension Rows {
    /// All rows, whose columns are numbers, Boolean values or text.
    fileprivate var values: [[PostgreSQLQueries.Value]] {
        (0..<count).map { row in (0..<columnCount).map { value(row, $0) } }
    }

    private func value(_ row: Int, _ column: Int) -> PostgreSQLQueries.Value {
        if isNull(row, column) { return .null }
        // The numbers of the types int2, int4, int8 and bool in pg_type, which never change.
        switch type(ofColumn: column) {
        case 20, 21, 23: return .integer(integer(row, column))
        case 16: return .integer(isTrue(row, column) ? 1 : 0)
        default: return .text(text(row, column))
        }
    }
}
#endif
