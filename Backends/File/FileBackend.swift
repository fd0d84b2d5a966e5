public import SyncCore

/// A store in a folder, one file a key: for a device's own data, for a shared disk, for anything up to some ten
/// thousand keys.
///
/// - **Durable**: an acknowledged write has survived a power cut. The entry is written beside the old one,
///   synchronised, renamed, and the folder synchronised (on Apple's systems with `F_FULLFSYNC`).
/// - **Atomic**: a reader sees the old entry or the new one, and needs no lock.
/// - **Shared**: any number of tasks and processes may use one folder. Writers take turns by an advisory lock; one that
///   does not get it within `lockTimeout` answers `BackendError.Kind.busy`.
/// - **Checked**: every read verifies a checksum and that the file belongs to the key. Damage is
///   `BackendError.Kind.damaged` with the file's path and the place in it, never an absence. A write under
///   `Precondition.any` replaces a damaged entry.
/// - **Careful**: a folder that has other files in it is refused with `BackendError.Kind.notAStore` and left as it
///   was.
///   For a device's own store a missing folder is an empty store, and the first write makes it. As the remote of an
///   engine it must be there, see ``Creation``.
/// - **Plain**: no symbolic link is followed to a file, and only regular files are opened.
/// - **Private**: other users of the machine can neither read the store nor hold its lock, unless ``Access/group`` says
///   otherwise.
///
/// A precondition holds against every process on this machine. On a network file system that holds only where the
/// server honours `flock`. A folder that a tool copies between machines has no lock at all; ``Sharing/fileSyncTool`` is
/// the form for it.
///
/// Calls do blocking file I/O on the caller's executor: some 0.01 ms for a read, two synchronisations for a write.
///
/// ```swift
/// let backend: some KeyValueBackend = .file("/var/lib/example/entitlements")
/// let remote = FileBackend(folder: "/home/alice/Dropbox/example", sharing: .fileSyncTool)
/// ```
public final class FileBackend: KeyValueBackend {
    /// What it honours: compare-and-swap between processes unless a tool shares the folder, and durability against
    /// power cuts; a sequence of changes and pushed signals, unless a tool shares the folder.
    public let capabilities: Capabilities
    /// `file:` and the folder, or `folder:` and the folder where a tool shares it.
    public let label: String

    private let folder: StoreFolder
    private let lock: StoreLock
    private let changeReader: ChangeReader
    private let watch: StoreWatch
    private let host: HostServices
    private let creation: Creation
    private let lockTimeout: Duration

    /// A store in `folder`. Nothing is touched until the first operation.
    ///
    /// - Parameters:
    ///   - folder: an absolute path, or one relative to the current directory at the time of each call.
    ///   - sharing: the kind of writers that share the folder.
    ///   - access: the users of this machine who may use what the store creates.
    ///   - creation: the rule for creating a store that does not exist.
    ///   - host: the source of versions, and the timer of waiting for the lock.
    ///   - lockTimeout: the longest wait of a write for other processes.
    ///   - maximumValueByteCount: larger values are refused with `BackendError.Kind.tooLarge`; 1 or more.
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

    /// A store in `folder` of another file system.
    package init(
        folder: String, fileSystem: any FileSystem, sharing: Sharing = .locks,
        creating creation: Creation = .unlessRemote, host: HostServices = .system,
        lockTimeout: Duration = .seconds(10), maximumValueByteCount: Int = 64 << 20,
        believingMarker: Bool = true, changePolicy: ChangePolicy = ChangePolicy()
    ) {
        precondition(
            (1...EntryFile.maximumValueByteCount).contains(maximumValueByteCount), "a value may have 1 byte to 1 GiB")
        self.creation = creation
        self.lockTimeout = lockTimeout
        let trimmed = String(folder.reversed().drop { $0 == "/" }.reversed())
        let root = trimmed.isEmpty ? (folder.isEmpty ? "." : "/") : trimmed
        self.folder = StoreFolder(
            root: root, fileSystem: fileSystem, sharing: sharing, mayBeMade: creation != .never,
            believesMarker: believingMarker, randomBits: host.randomBits, changePolicy: changePolicy)
        self.lock = StoreLock(folder: self.folder, host: host, timeout: lockTimeout)
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

    /// This store, without creation: a missing one is `BackendError.Kind.missing`. With
    /// ``Creation/whenNeeded`` the store itself.
    public var requiringExisting: any KeyValueBackend {
        guard creation == .unlessRemote else { return self }
        return FileBackend(
            folder: folder.root, fileSystem: folder.fileSystem, sharing: folder.sharing, creating: .never, host: host,
            lockTimeout: lockTimeout, maximumValueByteCount: capabilities.maximumValueByteCount ?? 64 << 20)
    }

    /// This store in a form for copying its entries into another one: whole entries are read even if the marker
    /// `store.format` is damaged, missing or of a later format.
    ///
    /// A folder without any entry is refused as ever. Nothing is written: writes, deletions and questions for changes
    /// are `BackendError.Kind.unsupported`. In a folder that a tool shares there is no marker, and nothing else to it.
    public var forRecovery: any KeyValueBackend {
        FileBackend(
            folder: folder.root, fileSystem: folder.fileSystem, sharing: folder.sharing, creating: .never, host: host,
            lockTimeout: lockTimeout, maximumValueByteCount: capabilities.maximumValueByteCount ?? 64 << 20,
            believingMarker: folder.isToolShared)
    }

    /// Reads one key: one file, or only its header when it still has `knownVersion`.
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

    /// Writes one key: two synchronisations, and one more for each folder that this process has not written to before.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try BackendError.throwIfCancelled(.write, key: key)
        try folder.checkWritable(key, .write, if: precondition)
        if let maximum = capabilities.maximumValueByteCount, value.count > maximum {
            throw BackendError(
                .tooLarge, operation: .write, key: key,
                message: "a value has at most \(maximum) bytes here, this one has \(value.count)")
        }
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

    /// Deletes one key: one synchronisation. Folders stay.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try BackendError.throwIfCancelled(.delete, key: key)
        try folder.checkWritable(key, .delete, if: precondition)
        do {
            // Deleting from nothing makes no store.
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

    /// Lists keys: reads the names of the folders on the way, sorts them, and reads the header of each listed entry.
    ///
    /// An entry that cannot be read, being damaged, of a later format or no file, is listed with a version that is a
    /// digest of its content; reading it throws the reason. A folder that cannot be read is an error that names it
    /// as a key, after a page of what comes before.
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

    /// The changes after `cursor`. Reads only the part of the log that was appended since the last call.
    ///
    /// The first question of a process also compares the log with all entries, which reads the header of each, and
    /// mends it; so it takes the writers' lock and changes files. From the first question ever on, versions of this
    /// software that know nothing of changes refuse the store with `BackendError.Kind.newerFormat`.
    ///
    /// A damaged entry has changed, and its version is as in ``list(prefix:after:limit:)``.
    ///
    /// A cursor expires when the store was wiped or put back to before it, when a power cut took the log's end, when
    /// 10,000 changes at least have come after it, and when a disk was too full to keep the log.
    public func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage> {
        try BackendError.throwIfCancelled(.changes)
        guard capabilities.changes else {
            let what = folder.isToolShared ? "a folder that a tool shares" : "a store that is being recovered"
            throw BackendError(
                .unsupported, operation: .changes,
                message: "\(label): \(what) keeps no sequence of changes; list its keys instead")
        }
        do {
            guard try folder.stateForReading() == .store else { return try emptyPage(since: cursor, limit: limit) }
            if let page = try changeReader.page(since: cursor, limit: limit) { return Answer(page) }
            // Looked at again, so that asking makes no store where one was removed.
            guard try folder.inspect() == .store else { return try emptyPage(since: cursor, limit: limit) }
            return try await lock.exclusively(.changes) { (lock) throws(BackendError) in
                guard try folder.inspect() == .store else { return try emptyPage(since: cursor, limit: limit) }
                return Answer(try changeReader.load(lock: lock).page(since: cursor, limit: limit))
            }
        } catch {
            throw error.during(.changes)
        }
    }

    /// Signals after every change, of this process or another of the machine.
    ///
    /// Told by the system (inotify, kqueue). Where it refuses to watch one folder more, and on a network file system,
    /// only changes made through this object are signalled; so look now and then all the same. Versions of this
    /// software that know no signals write without one.
    public func signals() -> AsyncStream<Void> {
        capabilities.signals == .polled ? AsyncStream { _ in } : watch.subscribe()
    }

    private func emptyPage(since cursor: ChangeCursor?, limit: Int) throws(BackendError) -> Answer<ChangePage> {
        Answer(try ChangeSequence().page(since: cursor, limit: limit))
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
    /// A store in `folder`, one file a key.
    ///
    /// - Parameters:
    ///   - folder: its path.
    ///   - creation: the rule for creating a store that does not exist; by default the first write creates it, unless
    ///     the store is a remote.
    ///   - host: the source of versions, and the timer of waiting for other processes.
    public static func file(
        _ folder: String, creating creation: FileBackend.Creation = .unlessRemote, host: HostServices = .system
    ) -> FileBackend {
        FileBackend(folder: folder, creating: creation, host: host)
    }

    /// A store in a folder that a file-sync tool shares between machines, as a remote.
    ///
    /// - Parameters:
    ///   - folder: its path.
    ///   - creation: the rule for creating a folder that does not exist; by default the first write creates it, unless
    ///     the store is a remote.
    ///   - host: the source of versions, and the timer of waiting for other processes.
    public static func folder(
        _ folder: String, creating creation: FileBackend.Creation = .unlessRemote, host: HostServices = .system
    ) -> FileBackend {
        FileBackend(folder: folder, sharing: .fileSyncTool, creating: creation, host: host)
    }
}
