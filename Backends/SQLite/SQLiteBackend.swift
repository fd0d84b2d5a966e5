public import SyncCore

/// A store in one SQLite database, with one row for each key.
///
/// Use it if the app shares its store with `syncd`, on a server, and for up to millions of keys.
///
/// - **Durable**: an acknowledged write survives a power cut. The database is in WAL mode with `synchronous = FULL`,
///   which is verified on the writing connection before it is used.
/// - **Atomic**: a write and its change are one transaction. Preconditions are checked in that transaction, against all
///   processes of the machine.
/// - **Grouped**: writes that arrive while another one waits for the disk are committed together with one sync. Each
///   write has its own outcome.
/// - **Shared**: any number of tasks and processes may use one file, and readers do not wait for writers. A call that
///   cannot get the database within `busyTimeout` throws `BackendError.Kind.busy`. Network file systems are not
///   supported.
/// - **Checked**: everything read from the file is verified by a row checksum and a checksum of the value. A key is
///   reported as absent only if its row and the index agree. Damage is `BackendError.Kind.damaged`, and the message
///   names the place. A write under `Precondition.any` replaces a damaged entry. A listing walks the index in both
///   directions, because a wrong page number in it would hide keys. The sequence of changes has no such second path, so
///   only ``integrityCheck()`` finds missing changes. A WAL that is damaged before an acknowledged change is rejected
///   when the store is opened, because SQLite would drop that change; `recover(to:)` of `SQLiteRecovery` restores it.
///   Damage in the last commit of the WAL cannot be distinguished from a crash.
/// - **Safe to open**: a database of another application or of a later version, and a file that is not a database, are
///   rejected and left unchanged. A missing file is an empty store. The first write creates the file in an existing
///   folder; for the remote of an engine the file must exist, see ``Creation``.
/// - **Signalled**: every change is signalled. Changes of other processes are signalled when the file system reports
///   them.
///
/// Deleting a key leaves a tombstone row, which is removed after 100,000 more changes. Cursors expire after as many
/// changes.
///
/// After ``close()`` the file alone is the whole store. Without it, `path-wal` may have the last writes, and the two
/// files belong together. If the WAL of a previous database is beside a file that was restored from a backup, the store
/// is rejected with `BackendError.Kind.damaged`, because SQLite would apply that WAL to the backup.
///
/// Reads block the caller's executor for about 0.01 ms of file I/O. Writes wait for the disk on a thread of the store.
///
/// ```swift
/// let backend: some KeyValueBackend = .sqlite("/var/lib/example/entitlements.sqlite")
/// ```
public final class SQLiteBackend: KeyValueBackend {
    /// The rule for creating a store that does not exist.
    public enum Creation: Hashable, Sendable {
        /// The first write creates it, unless the store is the remote of an engine (see
        /// ``SQLiteBackend/requiringExisting``). Suitable for a device's local store.
        case unlessRemote
        /// The first write creates it, even if the store is a remote.
        case whenNeeded
        /// The store is never created: a missing or empty file is `BackendError.Kind.missing`.
        case never
    }

    /// All capabilities are supported.
    public let capabilities: Capabilities
    /// `sqlite:` followed by the path.
    public let label: String

    let store: SQLiteStore
    private let commits: CommitQueue
    private let creation: Creation

    /// Creates a backend for the store in the file at `path`. The file is not accessed before the first operation.
    ///
    /// - Parameters:
    ///   - path: An absolute path, or a path relative to the current directory at the time of each call. SQLite keeps
    ///     `path-wal` and `path-shm` beside it.
    ///   - creation: The rule for creating a store that does not exist.
    ///   - host: The source of versions and tags, and the timer for waits.
    ///   - busyTimeout: The longest time that a call waits for other processes.
    ///   - maximumValueByteCount: The largest accepted value, 1 byte to 512 MiB. Larger values are rejected with
    ///     `BackendError.Kind.tooLarge`.
    ///   - cachedByteCount: The approximate size of SQLite's page caches for reading, in bytes, shared by eight
    ///     connections; 0 for SQLite's default, about 2 MB each.
    ///   - logByteCount: The approximate size of the WAL at which it is checkpointed, 1 MiB to 1 GiB. Writers wait for
    ///     a checkpoint. A larger WAL is checkpointed less often and writes fewer pages in all, but all of it is read
    ///     and verified whenever the store is opened.
    public convenience init(
        path: String, creating creation: Creation = .unlessRemote, host: HostServices = .system,
        busyTimeout: Duration = .seconds(10), maximumValueByteCount: Int = 64 << 20, cachedByteCount: Int = 0,
        logByteCount: Int = 16 << 20
    ) {
        self.init(
            file: StoreFile(path: path, mayBeCreated: creation != .never), creating: creation, host: host,
            busyTimeout: busyTimeout, maximumValueByteCount: maximumValueByteCount, cachedByteCount: cachedByteCount,
            logByteCount: logByteCount)
    }

    init(
        file: StoreFile, creating creation: Creation, host: HostServices, busyTimeout: Duration,
        maximumValueByteCount: Int, cachedByteCount: Int = 0, logByteCount: Int = 16 << 20
    ) {
        precondition(
            (1...(512 << 20)).contains(maximumValueByteCount),
            "maximumValueByteCount must be 1 byte to 512 MiB, not \(maximumValueByteCount)")
        precondition(cachedByteCount >= 0, "cachedByteCount must be 0 or more, not \(cachedByteCount)")
        precondition(
            (1 << 20...1 << 30).contains(logByteCount), "logByteCount must be 1 MiB to 1 GiB, not \(logByteCount)")
        self.creation = creation
        let store = SQLiteStore(
            file: file, host: host, timeout: busyTimeout, cachedByteCount: cachedByteCount, logByteCount: logByteCount)
        self.store = store
        commits = CommitQueue(queue: store.queue, host: host, timeout: busyTimeout) {
            store.commit($0)
        } onIdle: {
            store.signalOtherProcesses()
        }
        label = "sqlite:" + file.path
        capabilities = Capabilities(
            compareAndSwap: true, durability: .powerLoss, changes: true, signals: .pushed,
            sharedBetweenProcesses: true, maximumValueByteCount: maximumValueByteCount)
    }

    /// This store without creation: a missing store throws `BackendError.Kind.missing`. With ``Creation/whenNeeded``,
    /// the backend itself.
    public var requiringExisting: any KeyValueBackend {
        guard creation == .unlessRemote else { return self }
        let file = StoreFile(
            path: store.file.path, mayBeCreated: false, numbering: store.file.numbering,
            retainedChangeCount: store.file.retainedChangeCount)
        return SQLiteBackend(
            file: file, creating: .never, host: store.host, busyTimeout: store.timeout,
            maximumValueByteCount: capabilities.maximumValueByteCount ?? 64 << 20,
            cachedByteCount: store.cachedByteCount, logByteCount: store.logByteCount)
    }

    /// Closes the store, so that its file alone is the whole store and can be copied or moved.
    ///
    /// Call it when this object is no longer in use; a later call opens the store again. The WAL is checkpointed and
    /// removed. If another process has the store open, an empty WAL remains.
    ///
    /// - Throws: `busy` if another process reads or writes for all of `busyTimeout`; the WAL is then left unchanged.
    public func close() async throws(BackendError) { try await store.close() }

    /// Reads the row of one key, without its value if the entry still has `knownVersion`.
    public func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        Answer(
            try await store.reading(.read, key: key) { connections in
                try connections?.readConfirmed(key, unless: knownVersion) ?? .absent
            })
    }

    /// Writes one key, in one transaction with other writes that arrive meanwhile.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await performInBatch(WriteRequest(key, value: value, if: precondition))
    }

    /// Deletes one key, grouped like a write. Deleting from a missing store succeeds and does not create it.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await performInBatch(WriteRequest(key, value: nil, if: precondition))
    }

    /// Lists keys by walking an index in both directions: O(log keys + limit).
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        precondition(limit >= 1, "limit must be 1 or more, not \(limit)")
        return Answer(
            try await store.reading(.list) { connections in
                guard let connections else { return KeyPage(items: [], next: nil) }
                return try connections.readConsistently { db in
                    try EntryTable(db: db, file: connections.file)
                        .page(prefix: prefix, after: cursor, limit: limit)
                }
            })
    }

    /// Returns the changes after `cursor`.
    ///
    /// A cursor expires after 100,000 more changes. A cursor of a walk that started from `nil` and has not yet passed
    /// the older changes expires after that many changes since the start of the walk, or when its key changes. Such a
    /// walk omits deletions older than the retained changes.
    public func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
        -> Answer<ChangePage>
    {
        precondition(limit >= 1, "limit must be 1 or more, not \(limit)")
        return Answer(
            try await store.reading(.changes) { connections in
                guard let connections else {
                    guard cursor == nil else {
                        throw BackendError(
                            .cursorExpired, message: "\(label): the store has no changes yet; read everything again")
                    }
                    return ChangePage(changes: [], cursor: nil, hasMore: false)
                }
                return try connections.readConsistently { db in
                    try ChangeTable(db: db, file: connections.file).page(since: cursor, prefix: prefix, limit: limit)
                }
            })
    }

    /// Returns the position of the latest change. O(1).
    public func latestCursor() async throws(BackendError) -> Answer<ChangeCursor?> {
        Answer(
            try await store.reading(.changes) { connections in
                guard let connections else { return nil }
                return try connections.readConsistently { db in
                    try ChangeTable(db: db, file: connections.file).latest()
                }
            })
    }

    /// Signals after every change of this process or another one.
    public func signals() -> AsyncStream<Void> { store.signals() }
}

extension SQLiteBackend {
    /// Reads several keys from one snapshot.
    public func read(_ requests: [ReadRequest]) async throws(BackendError) -> BatchAnswer<ReadOutcome> {
        Answer(
            try await store.reading(.read) { connections in
                guard let connections else { return requests.map { _ in .success(.absent) } }
                return try connections.readConsistently { db in
                    let entries = EntryTable(db: db, file: connections.file)
                    return try requests.map { request in
                        do {
                            return .success(try entries.readConfirmed(request.key, unless: request.knownVersion))
                        } catch {
                            let failure = BackendError(error, at: connections.file.path)
                            // Another process holds the database, so the whole batch is retried.
                            if failure.kind == .busy { throw failure }
                            return .failure(failure.during(.read, key: request.key))
                        }
                    }
                }
            })
    }

    /// Writes or deletes several keys in one transaction.
    public func write(_ requests: [WriteRequest]) async throws(BackendError) -> BatchAnswer<WriteOutcome> {
        try BackendError.throwIfCancelled(.write)
        return Answer(try await capabilities.performAdmitted(requests, perform))
    }

    private func perform(_ requests: [WriteRequest]) async throws(BackendError) -> CommitQueue.Answers {
        if requests.allSatisfy({ $0.value == nil }) {
            // A deletion does not create a missing store.
            let isThere = try await store.reading(.delete) { $0 != nil }
            if !isThere {
                return requests.map { .success($0.precondition.holds(for: nil) ? .deleted : .conflict(nil)) }
            }
        }
        var generator = store.host.generator
        let writes = requests.map { request in
            PreparedWrite(
                key: request.key,
                entry: request.value.map { Entry(value: $0, version: .random(using: &generator)) },
                precondition: request.precondition, tag: store.host.randomBits())
        }
        return try await commits.perform(writes)
    }
}

extension KeyValueBackend where Self == SQLiteBackend {
    /// Creates a backend for the store in the SQLite database at `path`.
    ///
    /// - Parameters:
    ///   - path: The path of the database.
    ///   - creation: The rule for creating a store that does not exist; by default the first write creates it, unless
    ///     the store is a remote.
    ///   - host: The source of versions and tags, and the timer for waits.
    public static func sqlite(
        _ path: String, creating creation: SQLiteBackend.Creation = .unlessRemote, host: HostServices = .system
    ) -> SQLiteBackend {
        SQLiteBackend(path: path, creating: creation, host: host)
    }
}

extension SQLiteBackend: SynchronousReading {
    /// Returns an outcome only if the store is open and no other process holds it; otherwise `nil`.
    package func readSynchronously(_ key: EntryKey, unless knownVersion: EntryVersion?) -> ReadOutcome? {
        try? store.current()?.readConfirmed(key, unless: knownVersion)
    }
}
