#if PostgreSQL
import CPQ
import SyncCore
import Synchronization

/// Opens connections to the servers of a configuration, and refuses those that cannot keep the store's promises.
final class Connector: Sendable {
    let configuration: PostgreSQLBackend.Configuration
    private let state = Mutex(State())

    private struct State {
        /// The host that worked last, which is tried first.
        var preferred = 0
        /// The latest change that this process has seen.
        var known: ChangeCursor?
    }

    /// The number of commits of one role that may wait for a standby when a connection is opened.
    private static let maximumStalledCommits = 10

    init(_ configuration: PostgreSQLBackend.Configuration) { self.configuration = configuration }

    var label: String { configuration.label }

    /// Records that the store has the change `cursor`.
    func remember(_ cursor: ChangeCursor?) {
        guard let cursor else { return }
        state.withLock { state in
            if state.known.map({ $0.sequence < cursor.sequence }) ?? true { state.known = cursor }
        }
    }

    /// Connects to the first host that accepts writes and has the history that this process knows.
    func open() throws(BackendError) -> Connection {
        let count = configuration.hosts.count
        let preferred = state.withLock { $0.preferred }
        var failures: [BackendError] = []
        for offset in 0..<count {
            let number = (preferred + offset) % count
            do throws(BackendError) {
                let connection = try open(host: number)
                state.withLock { $0.preferred = number }
                return connection
            } catch {
                failures.append(error)
            }
        }
        // A later attempt may succeed if one of the hosts failed only for now.
        let chosen = failures.first { $0.disposition == .transient } ?? failures.first
        throw chosen ?? BackendError(.unavailable, operation: .open, message: "\(label): the URL has no host")
    }

    private func open(host number: Int) throws(BackendError) -> Connection {
        let end = ContinuousClock().now + configuration.connectTimeout
        let connection = try connect(configuration.parameters.merging(configuration.hosts[number]) { $1 }, until: end)
        try checkSettings(of: connection, until: end)
        try checkFormat(through: connection, until: end)
        try checkHistory(through: connection, until: end)
        let failure = connection.prepare(schema: configuration.schema, defects: configuration.defects, until: end)
        if let failure { throw error(failure) }
        connection.asksForRole = configuration.asksForRole || !connection.reportsRole
        return connection
    }

    private func connect(
        _ parameters: [String: String], until end: ContinuousClock.Instant
    ) throws(BackendError) -> Connection {
        let pairs = parameters.sorted { $0.key < $1.key }
        let handle = Self.withCStrings(pairs.map(\.key)) { keys in
            Self.withCStrings(pairs.map(\.value)) { PQconnectStartParams(keys, $0, 0) }
        }
        guard let handle else {
            throw BackendError(.unavailable, message: "\(label): the system is short of memory; try again")
        }
        let connection = Connection(handle)
        guard connection.finishConnecting(until: end) else {
            throw BackendError(connecting: connection.message, label: label)
        }
        return connection
    }

    /// Calls `body` with a NULL-terminated array of C strings.
    private static func withCStrings<Result>(
        _ texts: [String], _ body: (UnsafePointer<UnsafePointer<CChar>?>?) -> Result
    ) -> Result {
        let bytes = texts.map { Array($0.utf8CString) }
        let buffer = bytes.flatMap(\.self)
        var offsets: [Int] = []
        var offset = 0
        for text in bytes {
            offsets.append(offset)
            offset += text.count
        }
        return buffer.withUnsafeBufferPointer { buffer in
            let pointers = offsets.map { buffer.baseAddress?.advanced(by: $0) } + [nil]
            return pointers.withUnsafeBufferPointer { body($0.baseAddress) }
        }
    }

    // MARK: Checks

    /// Sets what the statements rely on, and reads back what the durability of a write depends on.
    private func checkSettings(
        of connection: Connection, until end: ContinuousClock.Instant
    ) throws(BackendError) {
        // Every statement finds its rows through an index; a plan that reads a whole table is always wrong here.
        let settings = [
            "synchronous_commit": "on", "default_transaction_isolation": "read committed", "statement_timeout": "0",
            "lock_timeout": "\(GroupCommit.sharedLockMilliseconds)", "idle_in_transaction_session_timeout": "10000",
            "plan_cache_mode": "force_generic_plan", "jit": "off", "enable_seqscan": "off", "enable_hashjoin": "off",
            "enable_mergejoin": "off",
        ]
        let sets = settings.sorted { $0.key < $1.key }.map { "set_config('\($0.key)', '\($0.value)', false)" }
        let read = ["fsync", "full_page_writes", "synchronous_standby_names"]
        try get(connection.ask("SELECT \(sets.joined(separator: ", "))", until: end))
        let rows = try get(
            connection.ask(
                """
                SELECT \(read.map { "current_setting('\($0)')" }.joined(separator: ", ")), (
                    SELECT count(*) FROM pg_catalog.pg_stat_activity
                    WHERE usename = current_user AND wait_event = 'SyncRep'
                        AND xact_start < clock_timestamp() - interval '5 s'),
                    current_setting('transaction_read_only') = 'on'
                """, until: end))
        // A pooler may report the role of a server that it was connected to before.
        guard !rows.isTrue(0, 4) else { throw error(.readOnlyServer) }
        for (column, name) in read.dropLast().enumerated() where rows.text(0, column) == "off" {
            guard !configuration.acceptsUnsafeServer else { continue }
            throw BackendError(
                .unsupported, operation: .open,
                message: "\(label): \(name) is off at the server, so that it may lose acknowledged writes; turn it on")
        }
        guard !configuration.requiresReplica || !rows.text(0, 2).isEmpty else {
            throw BackendError(withoutReplica: label)
        }
        // The server keeps the connection of a commit that waits for a standby, also after the client has left.
        guard rows.integer(0, 3) < Self.maximumStalledCommits else {
            throw BackendError(
                .unavailable, operation: .open,
                message: "\(label): \(rows.integer(0, 3)) commits wait for a standby that does not answer; start it, "
                    + "or make another one synchronous")
        }
    }

    private func checkFormat(
        through connection: Connection, until end: ContinuousClock.Instant
    ) throws(BackendError) {
        var format = try readFormat(through: connection, until: end)
        if format ?? 0 < StoreSchema.format {
            guard format != nil || configuration.creation != .never else {
                throw BackendError(
                    .missing, operation: .open,
                    message: "\(label): the database has no store in the schema \(configuration.schema); "
                        + "create it, or check the database and the schema in the URL")
            }
            try migrate(through: connection, until: end)
            format = try readFormat(through: connection, until: end)
        }
        guard let format, format <= StoreSchema.format else {
            throw BackendError(
                .newerFormat, operation: .open,
                message: "\(label): the store has format \(format ?? 0), and this version supports up to "
                    + "\(StoreSchema.format); update this program")
        }
    }

    /// The format of the store; `nil` if there is none.
    private func readFormat(
        through connection: Connection, until end: ContinuousClock.Instant
    ) throws(BackendError) -> Int64? {
        let schema = configuration.schema
        // Reads the catalogue itself. `to_regclass` may answer from a cache that is older than a lock.
        let found = try get(
            connection.ask(
                """
                SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace
                WHERE s.nspname = '\(schema)' AND c.relname = 'store'
                """, until: end))
        guard found.count > 0 else { return nil }
        let rows = try get(connection.ask("SELECT format FROM \(schema).store WHERE id = 0", until: end))
        guard rows.count == 1 else {
            throw BackendError(
                .notAStore, operation: .open,
                message: "\(label): the schema \(configuration.schema) belongs to another application; choose another")
        }
        return rows.integer(0, 0)
    }

    /// Creates or migrates the tables, unless another process does so at the same time.
    private func migrate(through connection: Connection, until end: ContinuousClock.Instant) throws(BackendError) {
        // The number is arbitrary. All processes that migrate stores in one database take this lock.
        let lock = "BEGIN; SET LOCAL lock_timeout = '5s'; SELECT pg_advisory_xact_lock(4867281905)"
        try get(connection.run(lock, until: end))
        let format = try readFormat(through: connection, until: end) ?? 0
        if format < StoreSchema.format {
            try get(
                connection.run(StoreSchema.migration(from: format, schema: configuration.schema), until: end))
        }
        try get(connection.run("COMMIT", until: end))
    }

    /// Refuses a server that lacks the latest change that this process has seen.
    private func checkHistory(
        through connection: Connection, until end: ContinuousClock.Instant
    ) throws(BackendError) {
        guard let known = state.withLock({ $0.known }) else { return }
        let (schema, number) = (configuration.schema, Int64(bitPattern: known.sequence))
        let rows = try get(
            connection.ask(
                """
                SELECT (SELECT tag FROM \(schema).change WHERE n = \(number)),
                    (SELECT n >= \(number) FROM \(schema).sweep WHERE id = 0)
                """, until: end))
        // A change that was swept is not a sign of another history.
        let isKnown =
            rows.isNull(0, 0) ? rows.isTrue(0, 1) : UInt64(bitPattern: rows.integer(0, 0)) == known.tag
        guard isKnown else {
            throw BackendError(
                .unavailable, operation: .open,
                message: "\(label): the server lacks change \(known.sequence), which this process has seen; it is a "
                    + "former primary or a restored backup: shut it down, or restart this process to accept it")
        }
    }

    @discardableResult
    private func get(_ result: Result<Rows, TransactionFailure>) throws(BackendError) -> Rows {
        switch result {
        case .success(let rows): return rows
        case .failure(let failure): throw error(failure)
        }
    }

    /// The error for a failure before any work was sent.
    private func error(_ failure: TransactionFailure) -> BackendError {
        BackendError(failure, label: label, isWrite: false).during(.open)
    }
}
#endif
