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
///   A missing folder is an empty store; the first write makes it.
///
/// A precondition holds against every process on this machine. On a network file system that holds only where the
/// server honours `flock`, and folders that a synchronising tool copies between machines have no lock at all: give each
/// replica a key of its own there.
///
/// Calls do blocking file I/O on the caller's executor: some 0.01 ms for a read, two synchronisations for a write.
///
/// ```swift
/// let backend: some KeyValueBackend = .file("/var/lib/example/entitlements")
/// ```
public final class FileBackend: KeyValueBackend {
    /// What it honours: compare-and-swap between processes, and durability against power cuts. Changes are polled.
    public let capabilities: Capabilities
    /// `file:` and the folder.
    public let label: String

    private let folder: StoreFolder
    private let lock: StoreLock
    private let host: HostServices

    /// A store in `folder`. Nothing is touched until the first operation.
    ///
    /// - Parameters:
    ///   - folder: an absolute path, or one relative to the current directory at the time of each call.
    ///   - host: where versions come from, and the timer of waiting for the lock.
    ///   - lockTimeout: how long a write waits for other processes.
    ///   - maximumValueByteCount: larger values are refused with `BackendError.Kind.tooLarge`; 1 or more.
    public convenience init(
        folder: String, host: HostServices = .system, lockTimeout: Duration = .seconds(10),
        maximumValueByteCount: Int = 64 << 20
    ) {
        self.init(
            folder: folder, fileSystem: POSIXFileSystem(), host: host, lockTimeout: lockTimeout,
            maximumValueByteCount: maximumValueByteCount)
    }

    /// A store in `folder` of another file system.
    package init(
        folder: String, fileSystem: any FileSystem, host: HostServices = .system, lockTimeout: Duration = .seconds(10),
        maximumValueByteCount: Int = 64 << 20
    ) {
        precondition(
            (1...EntryFile.maximumValueByteCount).contains(maximumValueByteCount), "a value may have 1 byte to 1 GiB")
        let trimmed = String(folder.reversed().drop { $0 == "/" }.reversed())
        let root = trimmed.isEmpty ? (folder.isEmpty ? "." : "/") : trimmed
        self.folder = StoreFolder(root: root, fileSystem: fileSystem)
        self.lock = StoreLock(folder: self.folder, host: host, timeout: lockTimeout)
        self.host = host
        label = "file:\(root)"
        capabilities = Capabilities(
            compareAndSwap: true, durability: .powerLoss, changes: false, signals: .polled,
            sharedBetweenProcesses: true, maximumValueByteCount: maximumValueByteCount)
    }

    /// Reads one key: one file, or only its header when it still has `knownVersion`.
    public func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        try BackendError.throwIfCancelled(.read, key: key)
        return try describing(.read, key: key) { () throws(BackendError) in
            switch try folder.stateForReading() {
            case .empty: Answer(.absent)
            case .store: Answer(try folder.entry(key, unless: knownVersion))
            }
        }
    }

    /// Writes one key: two synchronisations, and one more for each folder that this process has not written to before.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try BackendError.throwIfCancelled(.write, key: key)
        if let maximum = capabilities.maximumValueByteCount, value.count > maximum {
            throw BackendError(
                .tooLarge, operation: .write, key: key,
                message: "a value has at most \(maximum) bytes here, this one has \(value.count)")
        }
        var generator = host.generator
        let entry = Entry(value: value, version: .random(using: &generator))
        do {
            return try await lock.exclusively(.write) { (lock) throws(BackendError) in
                try folder.makeStore()
                return Answer(try folder.write(entry, to: key, if: precondition, lock: lock))
            }
        } catch {
            throw error.during(.write, key: key)
        }
    }

    /// Deletes one key: one synchronisation. Folders stay.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try BackendError.throwIfCancelled(.delete, key: key)
        do {
            // Deleting from nothing makes no store.
            if try folder.stateForReading() == .empty {
                return Answer(precondition.holds(for: nil) ? .deleted : .conflict(nil))
            }
            return try await lock.exclusively(.delete) { (_) throws(BackendError) in
                try folder.makeStore()
                return Answer(try folder.delete(key, if: precondition))
            }
        } catch {
            throw error.during(.delete, key: key)
        }
    }

    /// Lists keys: reads the names of the folders on the way, sorts them, and reads the header of each listed entry.
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        try BackendError.throwIfCancelled(.list)
        return try describing(.list) { () throws(BackendError) in
            switch try folder.stateForReading() {
            case .empty: Answer(KeyPage(items: [], next: nil))
            case .store: Answer(try folder.page(prefix: prefix, after: cursor, limit: limit))
            }
        }
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
    /// A store in `folder`, one file a key; a missing folder is an empty store and is made by the first write.
    public static func file(_ folder: String, host: HostServices = .system) -> FileBackend {
        FileBackend(folder: folder, host: host)
    }
}
