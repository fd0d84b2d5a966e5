#if PostgreSQL
public import SyncCore

/// A store in a PostgreSQL database, which any number of processes on any number of machines share.
///
/// Use it for a server that has outgrown one machine, or that must survive the loss of one.
///
/// - **Durable**: an acknowledged write is on the server's disk. With ``Configuration/requiresReplica`` it is on a
///   second machine as well. Each connection reads back the settings of the server on which this depends, and refuses a
///   server that may lose acknowledged writes.
/// - **Atomic**: a write and its change are one transaction. Preconditions are checked in that transaction, against all
///   processes.
/// - **Grouped**: writes that arrive while others wait for the disk are committed together. Each write has its own
///   outcome.
/// - **Truthful**: if the connection ends before the server has confirmed a commit, the write is `outcomeUnknown`. The
///   same holds if the server gave up waiting for its standby.
/// - **Complete**: the sequence of changes has the order in which the changes became visible, so a reader never misses
///   the change of a slow transaction. Superseded changes are kept for a day, and cursors as long.
/// - **Signalled**: changes of this object are signalled at once, those of others after about 50 ms, or 250 ms if
///   nothing changes for a while.
/// - **Fenced**: a process refuses a server without the latest change known to it, such as a former primary that
///   returns. If a server becomes read-only, its connections are closed, what was read over them is
///   discarded, and the hosts are asked again.
///
/// Each connection has a thread of its own, which never blocks the concurrency pool. The tables are in a schema of
/// their own, which is created when it is missing; see ``Configuration``. Deleted keys keep a small row.
///
/// ```swift
/// let backend = try PostgreSQLBackend("postgres://syncd@db.example.com/syncd?sslrootcert=/etc/ssl/db.pem")
/// ```
public final class PostgreSQLBackend: KeyValueBackend {
    /// All capabilities are supported.
    public let capabilities: Capabilities
    /// The URL without its parameters.
    public var label: String { store.label }

    private let store: PostgreSQLStore
    private let configuration: Configuration

    /// Creates a backend for the store of `configuration`. The server is not contacted before the first operation.
    ///
    /// - Parameters:
    ///   - configuration: The address and the options.
    ///   - host: The source of versions and tags.
    public init(_ configuration: Configuration, host: HostServices = .system) {
        precondition(
            (1...(512 << 20)).contains(configuration.maximumValueByteCount),
            "maximumValueByteCount must be 1 byte to 512 MiB, not \(configuration.maximumValueByteCount)")
        precondition(configuration.readerCount >= 1, "readerCount must be 1 or more, not \(configuration.readerCount)")
        self.configuration = configuration
        store = PostgreSQLStore(configuration, host: host)
        capabilities = Capabilities(
            compareAndSwap: true, durability: configuration.requiresReplica ? .machineLoss : .powerLoss, changes: true,
            signals: .pushed, sharedBetweenProcesses: true,
            maximumValueByteCount: configuration.maximumValueByteCount)
    }

    /// Creates a backend for the store at `url`; see ``Configuration/init(_:)``.
    public convenience init(_ url: String, host: HostServices = .system) throws(BackendError) {
        self.init(try Configuration(url), host: host)
    }

    /// This store without creation: a missing store throws `BackendError.Kind.missing`. With
    /// ``Configuration/Creation/whenNeeded``, the backend itself.
    public var requiringExisting: any KeyValueBackend {
        guard configuration.creation == .unlessRemote else { return self }
        var configuration = configuration
        configuration.creation = .never
        return PostgreSQLBackend(configuration, host: store.host)
    }

    /// Reads one key, without its value if the entry still has `knownVersion`.
    public func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        try BackendError.throwIfCancelled(.read, key: key)
        let request = ReadRequest(key, unless: knownVersion)
        guard let result = try await read([request]).outcome.first else {
            throw BackendError(.other, operation: .read, key: key, message: "\(label): the read has no outcome")
        }
        return Answer(try result.get())
    }

    /// Writes one key, in one transaction with other writes that arrive meanwhile.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await performInBatch(WriteRequest(key, value: value, if: precondition))
    }

    /// Deletes one key, grouped like a write. The key keeps a row without a value.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await performInBatch(WriteRequest(key, value: nil, if: precondition))
    }

    /// Lists keys by walking the index: O(log keys + limit + deleted keys in between).
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        precondition(limit >= 1, "limit must be 1 or more, not \(limit)")
        let range = KeyRange(prefix: prefix)
        let after = Array((cursor?.text ?? "").utf8)
        let statement = Statement(
            .list, .bytes(after), range.start, range.end, .integer(Int64(min(limit, .max - 1) + 1)))
        let rows = try await store.read([[statement]], .list)[0][0]
        var page = KeyPage(items: [], next: nil)
        for row in 0..<min(rows.count, limit) {
            page.items.append(
                KeyPage.Item(
                    key: try EntryKey(rows.text(row, 0)), version: EntryVersion(bytes: rows.bytes(row, 1)),
                    byteCount: Int(rows.integer(row, 2))))
        }
        if rows.count > limit { page.next = page.items.last?.key }
        return Answer(page)
    }

    /// Returns the changes after `cursor`. A prefix of few keys is read through an index, however much other keys have
    /// changed.
    public func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
        -> Answer<ChangePage>
    {
        precondition(limit >= 1, "limit must be 1 or more, not \(limit)")
        return Answer(try await ChangeQueries(store: store).page(since: cursor, prefix: prefix, limit: limit))
    }

    /// Returns the position after the latest change, and the time of the database server; `nil` if nothing has ever
    /// changed.
    public func latestCursor() async throws(BackendError) -> Answer<ChangeCursor?> {
        try await ChangeQueries(store: store).latest()
    }

    /// Signals after every change of this process or another one.
    public func signals() -> AsyncStream<Void> { store.signals() }
}

extension PostgreSQLBackend {
    /// Reads several keys with one round trip, one after another.
    public func read(_ requests: [ReadRequest]) async throws(BackendError) -> BatchAnswer<ReadOutcome> {
        try BackendError.throwIfCancelled(.read)
        guard !requests.isEmpty else { return Answer([]) }
        let transactions = requests.map { request in
            [
                Statement(
                    .read, .bytes(Array(request.key.text.utf8)), request.knownVersion.map { .bytes($0.bytes) } ?? .null)
            ]
        }
        let replies = try await store.replies(to: transactions, .read)
        return Answer(
            zip(requests, replies).map { request, reply in
                reply.map { Self.outcome(in: $0[0], unless: request.knownVersion) }
                    .mapError { store.error($0, .read, key: request.key) }
            })
    }

    private static func outcome(in rows: Rows, unless knownVersion: EntryVersion?) -> ReadOutcome {
        guard rows.count == 1, !rows.isTrue(0, 2) else { return .absent }
        let version = EntryVersion(bytes: rows.bytes(0, 0))
        return version == knownVersion ? .unchanged : .found(Entry(value: rows.bytes(0, 1), version: version))
    }

    /// Writes or deletes several keys in one transaction.
    public func write(_ requests: [WriteRequest]) async throws(BackendError) -> BatchAnswer<WriteOutcome> {
        try BackendError.throwIfCancelled(.write)
        let operation: BackendError.Operation = requests.allSatisfy { $0.value == nil } ? .delete : .write
        return Answer(
            try await capabilities.performAdmitted(requests) { (admitted) async throws(BackendError) in
                try await store.write(admitted, operation)
            })
    }
}
#endif
