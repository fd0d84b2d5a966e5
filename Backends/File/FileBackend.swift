public import SyncCore

/// A store in a folder, with one file for each key.
///
/// Use it for a device's local data, on a shared disk, and for up to about ten thousand keys.
///
/// - **Durable**: an acknowledged write survives a power cut. The entry is written to a temporary file, synced and
///   renamed, and the folder is synced (with `F_FULLFSYNC` on Apple systems).
/// - **Atomic**: a reader sees the old entry or the new one, and needs no lock.
/// - **Shared**: any number of tasks and processes may use one folder. Writers take turns by an advisory lock. A write
///   that cannot get the lock within `lockTimeout` throws `BackendError.Kind.busy`.
/// - **Checked**: every read verifies a checksum, and that the file belongs to the key. Damage is
///   `BackendError.Kind.damaged` with the path and the place in the file, never an absence. A write under
///   `Precondition.any` replaces a damaged entry.
/// - **Safe to open**: a folder with other files is rejected with `BackendError.Kind.notAStore` and left unchanged. A
///   missing folder is an empty store, and the first write creates it. For the remote of an engine the folder must
///   exist, see ``Creation``.
/// - **No links**: symbolic links to files are not followed, and only regular files are opened.
/// - **Private**: other users of the machine can neither read the store nor hold its lock, unless it uses
///   ``Access/group``.
///
/// A precondition holds against all processes of this machine. On a network file system it holds only if the server
/// supports `flock`. A folder that a tool copies between machines has no lock at all; use ``Sharing/fileSyncTool``
/// there.
///
/// Calls block the caller's executor for file I/O: about 0.01 ms for a read, and two syncs for a write.
///
/// ```swift
/// let backend: some KeyValueBackend = .file("/var/lib/example/entitlements")
/// let remote = FileBackend(folder: "/home/alice/Dropbox/example", sharing: .fileSyncTool)
/// ```
public final class FileBackend: KeyValueBackend {
    /// Compare-and-swap between processes, changes and pushed signals, unless a tool shares the folder. Acknowledged
    /// writes survive a power cut.
    public let capabilities: Capabilities
    /// `file:` and the folder, or `folder:` and the folder if a tool shares it.
    public let label: String

    private let folder: StoreFolder
    private let lock: WriterLock
    private let changeReader: ChangeReader
    private let watch: StoreWatch
    private let host: HostServices
    private let creation: Creation
    private let lockTimeout: Duration

    /// Creates a backend for the store in `folder`. The folder is not accessed before the first operation.
    ///
    /// - Parameters:
    ///   - folder: An absolute path, or a path relative to the current directory at the time of each call.
    ///   - sharing: The kind of writers that share the folder.
    ///   - access: The users of this machine who may use the files and folders that the store creates.
    ///   - creation: The rule for creating a store that does not exist.
    ///   - host: The source of versions, and the timer for waits.
    ///   - lockTimeout: The longest time that a write waits for other processes.
    ///   - maximumValueByteCount: The largest accepted value, 1 byte to 1 GiB. Larger values are rejected with
    ///     `BackendError.Kind.tooLarge`.
    public convenience init(
        folder: String, sharing: Sharing = .locks, access: Access = .owner,
        creating creation: Creation = .unlessRemote, host: HostServices = .system,
        lockTimeout: Duration = .seconds(10), maximumValueByteCount: Int = 64 << 20
    ) {
        self.init(
            folder: folder, fileSystem: POSIXFileSystem(access: access), sharing: sharing, creating: creation,
            host: host,
            lockTimeout: lockTimeout, maximumValueByteCount: maximumValueByteCount)
    }

    /// Creates a backend for the store in `folder` of another file system.
    package init(
        folder: String, fileSystem: any FileSystem, sharing: Sharing = .locks,
        creating creation: Creation = .unlessRemote, host: HostServices = .system,
        lockTimeout: Duration = .seconds(10), maximumValueByteCount: Int = 64 << 20,
        believingMarker: Bool = true, changePolicy: ChangePolicy = ChangePolicy()
    ) {
        precondition(
            (1...EntryFile.maximumValueByteCount).contains(maximumValueByteCount),
            "maximumValueByteCount must be 1 byte to 1 GiB, not \(maximumValueByteCount)")
        self.creation = creation
        self.lockTimeout = lockTimeout
        let trimmed = String(folder.reversed().drop { $0 == "/" }.reversed())
        let root = trimmed.isEmpty ? (folder.isEmpty ? "." : "/") : trimmed
        self.folder = StoreFolder(
            root: root, fileSystem: fileSystem, sharing: sharing, mayBeCreated: creation != .never,
            requiresMarker: believingMarker, randomBits: host.randomBits, changePolicy: changePolicy)
        self.lock = WriterLock(folder: self.folder, host: host, timeout: lockTimeout)
        self.changeReader = ChangeReader(folder: self.folder)
        self.watch = StoreWatch(folder: self.folder)
        self.host = host
        label = (sharing == .locks ? "file:" : "folder:") + root
        let isLocked = sharing == .locks && believingMarker
        capabilities = Capabilities(
            compareAndSwap: isLocked, durability: .powerLoss, changes: isLocked,
            signals: isLocked ? .pushed : .polled,
            sharedBetweenProcesses: true, maximumValueByteCount: maximumValueByteCount)
    }

    /// This store without creation: a missing store throws `BackendError.Kind.missing`. With ``Creation/whenNeeded``,
    /// the backend itself.
    public var requiringExisting: any KeyValueBackend {
        guard creation == .unlessRemote else { return self }
        return reopened(believingMarker: true)
    }

    /// A read-only form of this store, to copy its entries into another store. Intact entries can be read even if the
    /// marker `store.format` is damaged, missing or of a later format.
    ///
    /// A folder without entries is rejected as usual. Writes, deletions and requests for changes throw
    /// `BackendError.Kind.unsupported`. A folder that a tool shares has no marker, so only writing is different there.
    public var forRecovery: any KeyValueBackend {
        reopened(believingMarker: folder.isToolShared)
    }

    /// This store without creation.
    private func reopened(believingMarker: Bool) -> FileBackend {
        FileBackend(
            folder: folder.root, fileSystem: folder.fileSystem, sharing: folder.sharing, creating: .never, host: host,
            lockTimeout: lockTimeout, maximumValueByteCount: capabilities.maximumValueByteCount ?? 64 << 20,
            believingMarker: believingMarker)
    }

    /// Reads the file of one key, or only its header if the entry still has `knownVersion`.
    public func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        try BackendError.throwIfCancelled(.read, key: key)
        return try describing(.read, key: key) { () throws(BackendError) in
            guard try folder.stateForReading() == .store else { return Answer(.absent) }
            let outcome = try folder.entry(key, unless: knownVersion)
            if outcome == .absent { try folder.confirmAbsence() }
            return Answer(outcome)
        }
    }

    /// Writes one key: two syncs, and one more for each folder that this process has not written to before.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try BackendError.throwIfCancelled(.write, key: key)
        try folder.checkWritable(key, .write, if: precondition)
        if let refusal = capabilities.refusal(of: value, at: key) { throw refusal }
        var generator = host.generator
        let entry = Entry(value: value, version: .random(using: &generator))
        do {
            let outcome = try await lock.exclusively(.write) { (lock) throws(BackendError) in
                try folder.makeStore()
                return try folder.write(entry, to: key, if: precondition, lock: lock)
            }
            if case .written = outcome { watch.changed() }
            return Answer(outcome)
        } catch {
            throw error.during(.write, key: key)
        }
    }

    /// Deletes one key: one sync. Folders are not removed.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try BackendError.throwIfCancelled(.delete, key: key)
        try folder.checkWritable(key, .delete, if: precondition)
        do {
            // A deletion does not create a missing store.
            if try folder.stateForReading() != .store {
                return Answer(precondition.holds(for: nil) ? .deleted : .conflict(nil))
            }
            let outcome = try await lock.exclusively(.delete) { (_) throws(BackendError) in
                try folder.makeStore()
                return try folder.delete(key, if: precondition)
            }
            if case .deleted = outcome { watch.changed() }
            return Answer(outcome)
        } catch {
            throw error.during(.delete, key: key)
        }
    }

    /// Lists keys: reads and sorts the names in each folder that it visits, and reads the header of each listed entry.
    ///
    /// An unreadable entry (damaged, of a later format, or not a regular file) is listed with a digest of its content
    /// as version; reading it throws the cause. An unreadable folder ends the listing after the keys before it, with an
    /// error that names the folder as a key.
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        try BackendError.throwIfCancelled(.list)
        return try describing(.list) { () throws(BackendError) in
            guard try folder.stateForReading() == .store else { return Answer(KeyPage(items: [], next: nil)) }
            let page = try folder.page(prefix: prefix, after: cursor, limit: limit)
            try folder.confirmAbsence()
            return Answer(page)
        }
    }

    /// Returns the changes after `cursor`. Reads only the part of the change log that was appended since the last call.
    ///
    /// The first request of a process also compares the log with the headers of all entries and repairs it, so it takes
    /// the writers' lock and changes files. After the first request to a store, versions of this software without the
    /// change log reject the store with `BackendError.Kind.newerFormat`.
    ///
    /// A damaged entry counts as changed, to the version described at ``list(prefix:after:limit:)``.
    ///
    /// A cursor expires if the store is wiped or restored to an earlier state, if a power cut removes the end of the
    /// log, after at least 10,000 more changes, and if a full disk forces the removal of the log.
    public func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
        -> Answer<ChangePage>
    {
        try await reading { (sequence) throws(BackendError) in
            try sequence.page(since: cursor, prefix: prefix, limit: limit)
        }
    }

    /// Returns the position of the latest change, with the work of ``changes(since:prefix:limit:)``.
    public func latestCursor() async throws(BackendError) -> Answer<ChangeCursor?> {
        try await reading { (sequence) throws(BackendError) in sequence.latestCursor }
    }

    /// Reads the sequence of changes; an empty one if there is no store.
    private func reading<Outcome: Sendable>(
        _ read: (ChangeSequence) throws(BackendError) -> Outcome
    ) async throws(BackendError) -> Answer<Outcome> {
        try BackendError.throwIfCancelled(.changes)
        guard capabilities.changes else {
            let what = folder.isToolShared ? "a folder that a tool shares" : "a store that is being recovered"
            throw BackendError(
                .unsupported, operation: .changes,
                message: "\(label): \(what) has no change log; list its keys instead")
        }
        do {
            guard try folder.stateForReading() == .store else { return Answer(try read(ChangeSequence())) }
            if let outcome = try changeReader.current(read) { return Answer(outcome) }
            // Examined again, so that a request for changes does not create a store that was removed.
            guard try folder.inspect() == .store else { return Answer(try read(ChangeSequence())) }
            return try await lock.exclusively(.changes) { (lock) throws(BackendError) in
                guard try folder.inspect() == .store else { return Answer(try read(ChangeSequence())) }
                return Answer(try read(changeReader.load(lock: lock)))
            }
        } catch {
            throw error.during(.changes)
        }
    }

    /// Signals after every change of this process or another process of this machine.
    ///
    /// The system reports changes (inotify, kqueue). On a network file system, or if the system has no more watches,
    /// only changes through this object are signalled, so also poll occasionally. Earlier versions of this software
    /// without signals write without one.
    public func signals() -> AsyncStream<Void> {
        capabilities.signals == .polled ? AsyncStream { _ in } : watch.subscribe()
    }

    private func describing<Result>(
        _ operation: BackendError.Operation, key: EntryKey? = nil, _ body: () throws(BackendError) -> Result
    ) throws(BackendError) -> Result {
        do {
            return try body()
        } catch {
            throw error.during(operation, key: key)
        }
    }
}

extension KeyValueBackend where Self == FileBackend {
    /// Creates a backend for the store in `folder`, with one file for each key.
    ///
    /// - Parameters:
    ///   - folder: The path of the folder.
    ///   - creation: The rule for creating a store that does not exist; by default the first write creates it, unless
    ///     the store is a remote.
    ///   - host: The source of versions, and the timer for waits.
    public static func file(
        _ folder: String, creating creation: FileBackend.Creation = .unlessRemote, host: HostServices = .system
    ) -> FileBackend {
        FileBackend(folder: folder, creating: creation, host: host)
    }

    /// Creates a backend for a folder that a file-sync tool shares between machines, to be used as a remote.
    ///
    /// - Parameters:
    ///   - folder: The path of the folder.
    ///   - creation: The rule for creating a folder that does not exist; by default the first write creates it, unless
    ///     the store is a remote.
    ///   - host: The source of versions, and the timer for waits.
    public static func folder(
        _ folder: String, creating creation: FileBackend.Creation = .unlessRemote, host: HostServices = .system
    ) -> FileBackend {
        FileBackend(folder: folder, sharing: .fileSyncTool, creating: creation, host: host)
    }
}
