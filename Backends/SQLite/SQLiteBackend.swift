public import SyncCore

/// A store in one SQLite database, one row a key: for an app that shares the store with `syncd`, for a server, and for
/// up to millions of keys.
///
/// - **Durable**: an acknowledged write survives a power cut. The database is in write-ahead mode with
///   `synchronous = FULL`, which is read back from the writing connection before it is used.
/// - **Atomic**: a write and its change are one transaction, and preconditions are checked in it, against all processes
///   of this machine.
/// - **Grouped**: writes that arrive while another one waits for the disk are committed together with one
///   synchronisation, each with its own answer.
/// - **Shared**: any number of tasks and processes may use one file; readers do not wait for writers. A call that does
///   not get the database within `busyTimeout` answers `BackendError.Kind.busy`. Not for network file systems.
/// - **Checked**: whatever is read from the file is verified by checksums of row and value, and an absence is believed
///   only when the key's row and the index agree on it. Damage is `BackendError.Kind.damaged` and says where. A write
///   under `Precondition.any` replaces a damaged entry. A listing walks the index in both directions, since a wrong
///   page number in it would hide keys; the sequence of changes has no such second way, and ``integrityCheck()`` finds
///   what it misses. A write-ahead log that is damaged before acknowledged changes is refused as the store is opened,
///   since SQLite would forget them; ``recover(to:)`` brings them back. Damage in the last of its commits looks as a
///   crash does, and cannot be told.
/// - **Careful**: a database of another application or of a later version, or a file that is no database, is refused
///   and left as it was. A missing file is an empty store, and the first write makes it, in a folder that must exist;
///   as the remote of an engine it must be there, see ``Creation``.
/// - **Signalled**: changes are signalled, those of other processes as soon as the file system reports them.
/// - **Quick**: entries that were read or written lately, and the changes that this object made lately, are answered
///   from memory until any process commits something that this object does not know. Each read checks this in SQLite's
///   own index of its log.
///
/// A deleted key leaves a row without a value, which is removed when 100,000 changes have come after the deletion.
/// Cursors expire after as many changes.
///
/// ``close()`` leaves the file alone as the whole store. Without it the last writes may be in `path-wal`, and the two
/// files belong together. A log beside a file that was put back from a backup is refused with
/// `BackendError.Kind.damaged`, since SQLite would write it over the backup.
///
/// Reads do blocking file I/O on the caller's executor, some 0.01 ms; writes wait for the disk on a thread of the
/// store's own.
///
/// ```swift
/// let backend: some KeyValueBackend = .sqlite("/var/lib/example/entitlements.sqlite")
/// ```
public final class SQLiteBackend: KeyValueBackend {
    /// The rule for creating a store that does not exist.
    public enum Creation: Hashable, Sendable {
        /// The first write creates it, as suits a device's own store; but not if the store is the remote of an
        /// engine (see ``SQLiteBackend/requiringExisting``).
        case unlessRemote
        /// The first write creates it, even if the store is a remote.
        case whenNeeded
        /// Nothing creates it: a file that is missing or empty is `BackendError.Kind.missing`.
        case never
    }

    /// All capabilities.
    public let capabilities: Capabilities
    /// `sqlite:` and the path.
    public let label: String

    let store: SQLiteStore
    private let commits: GroupCommit
    private let creation: Creation

    /// A store in the file at `path`. Nothing is touched until the first operation.
    ///
    /// - Parameters:
    ///   - path: an absolute path, or one relative to the current directory at the time of each call. SQLite keeps
    ///     `path-wal` and `path-shm` beside it.
    ///   - creation: the rule for creating a store that does not exist.
    ///   - host: the source of versions and tags, and the timer of waiting for other processes.
    ///   - busyTimeout: the longest wait of a call for other processes.
    ///   - maximumValueByteCount: larger values are refused with `BackendError.Kind.tooLarge`; 1 to 512 MiB.
    ///   - cachedByteCount: about how many bytes of entries are kept in memory, to be read again while no other process
    ///     commits anything, and beside them one change for each KiB of it, about 4,096 at most; 0 for none.
    ///   - logByteCount: about how long the log becomes before what it has is taken into the database, for which
    ///     writers wait; 1 MiB to 1 GiB. A longer one is taken in more rarely, with fewer pages in all, and all of it
    ///     is read whenever the store is opened, to see whether it is whole.
    public convenience init(
        path: String, creating creation: Creation = .unlessRemote, host: HostServices = .system,
        busyTimeout: Duration = .seconds(10), maximumValueByteCount: Int = 64 << 20, cachedByteCount: Int = 1 << 20,
        logByteCount: Int = 16 << 20
    ) {
        self.init(
            file: StoreFile(path: path, mayBeMade: creation != .never), creating: creation, host: host,
            busyTimeout: busyTimeout, maximumValueByteCount: maximumValueByteCount, cachedByteCount: cachedByteCount,
            logByteCount: logByteCount)
    }

    init(
        file: StoreFile, creating creation: Creation, host: HostServices, busyTimeout: Duration,
        maximumValueByteCount: Int, cachedByteCount: Int = 1 << 20, logByteCount: Int = 16 << 20
    ) {
        precondition((1...(512 << 20)).contains(maximumValueByteCount), "a value may have 1 byte to 512 MiB")
        precondition(cachedByteCount >= 0, "it keeps 0 bytes or more")
        precondition((1 << 20...1 << 30).contains(logByteCount), "the log has 1 MiB to 1 GiB")
        self.creation = creation
        let store = SQLiteStore(
            file: file, host: host, timeout: busyTimeout, cachedByteCount: cachedByteCount, logByteCount: logByteCount)
        self.store = store
        commits = GroupCommit(queue: store.queue, host: host, timeout: busyTimeout) {
            store.commit($0)
        } onRest: {
            store.tellOthers()
        }
        label = "sqlite:" + file.path
        capabilities = Capabilities(
            compareAndSwap: true, durability: .powerLoss, changes: true, signals: .pushed,
            sharedBetweenProcesses: true, maximumValueByteCount: maximumValueByteCount)
    }

    /// This store, without creation: a missing one is `BackendError.Kind.missing`. With
    /// ``Creation/whenNeeded`` the store itself.
    public var requiringExisting: any KeyValueBackend {
        guard creation == .unlessRemote else { return self }
        let file = StoreFile(
            path: store.file.path, mayBeMade: false, numbering: store.file.numbering,
            retainedChangeCount: store.file.retainedChangeCount)
        return SQLiteBackend(
            file: file, creating: .never, host: store.host, busyTimeout: store.timeout,
            maximumValueByteCount: capabilities.maximumValueByteCount ?? 64 << 20,
            cachedByteCount: store.cachedByteCount, logByteCount: store.logByteCount)
    }

    /// Closes the store, so that its file alone is all of it and can be copied or moved.
    ///
    /// Call it when nothing uses this object any more; a later call opens the store again. The write-ahead log is taken
    /// into the database and removed. If another process has the store open, its log stays, without content.
    ///
    /// - Throws: `busy` if another process reads or writes for all of `busyTimeout`: the log stays as it is.
    public func close() async throws(BackendError) { try await store.close() }

    /// Reads one key: one row, without its value when it still has `knownVersion`.
    public func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        Answer(
            try await store.reading(.read, key: key) { connections in
                try connections?.readConfirmed(key, unless: knownVersion) ?? .absent
            })
    }

    /// Writes one key: with others that arrive meanwhile, one transaction.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try BackendError.throwIfCancelled(.write, key: key)
        return Answer(try await change(WriteRequest(key, value: value, if: precondition)))
    }

    /// Deletes one key: as a write. From a store that is not there nothing is deleted, and none is made.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try BackendError.throwIfCancelled(.delete, key: key)
        return Answer(try await change(WriteRequest(key, value: nil, if: precondition)))
    }

    /// Lists keys in the order of an index, which is walked in both directions: O(log keys + limit).
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        precondition(limit >= 1, "a page holds 1 key or more")
        return Answer(
            try await store.reading(.list) { connections in
                guard let connections else { return KeyPage(items: [], next: nil) }
                return try connections.readConsistently { db in
                    try EntryTable(db: db, file: connections.file)
                        .page(prefix: prefix, after: cursor, limit: limit)
                }
            })
    }

    /// The changes after `cursor`.
    ///
    /// A cursor expires when 100,000 changes have come after it. One of a walk from `nil` through older changes expires
    /// when as many have come after the start of the walk, or when its key changes. A walk from `nil` leaves out
    /// deletions that are older than that.
    public func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage> {
        precondition(limit >= 1, "a page holds 1 change or more")
        return Answer(
            try await store.reading(.changes) { connections in
                guard let connections else {
                    guard cursor == nil else {
                        throw BackendError(
                            .cursorExpired, message: "\(label): nothing has ever changed here; read everything again")
                    }
                    return ChangePage(changes: [], cursor: nil, hasMore: false)
                }
                if let page = connections.recentChanges?.page(since: cursor, limit: limit) { return page }
                return try connections.readConsistently { db in
                    try ChangeTable(db: db, file: connections.file).page(since: cursor, limit: limit)
                }
            })
    }

    /// Signals after every change, this process's and others'.
    public func signals() -> AsyncStream<Void> { store.signals() }
}

extension SQLiteBackend {
    /// Reads several keys as of one moment.
    public func read(_ requests: [ReadRequest]) async throws(BackendError)
        -> Answer<[Result<ReadOutcome, BackendError>]>
    {
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
                            // Another process holds the database: the whole batch is tried again.
                            if failure.kind == .busy { throw failure }
                            return .failure(failure.during(.read, key: request.key))
                        }
                    }
                }
            })
    }

    /// Writes or deletes several keys in one transaction.
    public func write(_ requests: [WriteRequest]) async throws(BackendError)
        -> Answer<[Result<WriteOutcome, BackendError>]>
    {
        try BackendError.throwIfCancelled(.write)
        guard !requests.isEmpty else { return Answer([]) }
        var answers: [Result<WriteOutcome, BackendError>?] = requests.map { request in
            tooLarge(request).map { .failure($0) }
        }
        let admitted = requests.indices.filter { answers[$0] == nil }
        let performed = admitted.isEmpty ? [] : try await perform(admitted.map { requests[$0] })
        for (index, answer) in zip(admitted, performed) { answers[index] = answer }
        return Answer(answers.compactMap { $0 })
    }

    private func change(_ request: WriteRequest) async throws(BackendError) -> WriteOutcome {
        if let error = tooLarge(request) { throw error }
        let operation: BackendError.Operation = request.value == nil ? .delete : .write
        let answers: GroupCommit.Answers
        do {
            answers = try await perform([request])
        } catch {
            throw error.during(operation, key: request.key)
        }
        guard let answer = answers.first else {
            throw BackendError(.other, operation: operation, key: request.key, message: "\(label): no answer")
        }
        return try answer.get()
    }

    private func perform(_ requests: [WriteRequest]) async throws(BackendError) -> GroupCommit.Answers {
        if requests.allSatisfy({ $0.value == nil }) {
            // Deleting from nothing makes no store.
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

    private func tooLarge(_ request: WriteRequest) -> BackendError? {
        guard let maximum = capabilities.maximumValueByteCount, let value = request.value, value.count > maximum else {
            return nil
        }
        return BackendError(
            .tooLarge, operation: .write, key: request.key,
            message: "a value has at most \(maximum) bytes here, this one has \(value.count)")
    }
}

extension KeyValueBackend where Self == SQLiteBackend {
    /// A store in the SQLite database at `path`.
    ///
    /// - Parameters:
    ///   - path: its path.
    ///   - creation: the rule for creating a store that does not exist; by default the first write creates it, unless
    ///     the store is a remote.
    ///   - host: the source of versions and tags, and the timer of waiting for other processes.
    public static func sqlite(
        _ path: String, creating creation: SQLiteBackend.Creation = .unlessRemote, host: HostServices = .system
    ) -> SQLiteBackend {
        SQLiteBackend(path: path, creating: creation, host: host)
    }
}

extension SQLiteBackend: SynchronousReading {
    /// Answers if the store is open and no other process holds it.
    package func readSynchronously(_ key: EntryKey, unless knownVersion: EntryVersion?) -> ReadOutcome? {
        try? store.current()?.readConfirmed(key, unless: knownVersion)
    }
}
