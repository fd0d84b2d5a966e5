import Checksums
import SyncCore
import Synchronization

/// The folder of a file store: examines it and reads its entries. `StoreFolder+Writing` changes it.
///
/// | name | content |
/// |---|---|
/// | `store.format` | the marker: identifies a store and its format; written before the first entry |
/// | `store.changes` | the change log, see ``ChangeFile``; may be missing |
/// | `store.lock` | locked by a writer; its content names the folder of the last write |
/// | `…/NAME.entry` | one entry each, see ``KeyFileName`` and ``EntryFile`` |
/// | `…/.pending.tmp` | an incomplete entry of a running or killed writer |
///
/// No key has a file name with a dot before `.entry`, so these names cannot collide with that of an entry.
///
/// A folder that a file-sync tool shares contains only entries, the tool's copies of them (``ConflictCopy``), and
/// `~pending.tmp` during a write. Such tools ignore this name.
final class StoreFolder: Sendable {
    static let markerName = "store.format"
    static let lockName = "store.lock"
    static let pendingNames = [".pending.tmp", "~pending.tmp"]

    /// The first read of a file is long enough for its header and a small value.
    private static let firstReadByteCount = 4_096
    static let markerStart = "EntitlementSync file store "
    /// The format of a new store, which every version of this software reads and writes.
    static let firstFormat = 1
    /// The format after the first request for changes: every writer must append to the change log. There is no other
    /// difference.
    static let formatWithChanges = 2

    let root: String
    let fileSystem: any FileSystem
    let sharing: FileBackend.Sharing
    /// True if the first write may create the store.
    let mayBeCreated: Bool
    /// True if a store is recognized by its marker; otherwise its entries are enough, and nothing is written.
    let requiresMarker: Bool
    /// The source of tags for changes.
    let randomBits: @Sendable () -> UInt64
    let changePolicy: ChangePolicy
    let known = Mutex(Known())

    /// Cached knowledge about the folder.
    struct Known {
        var isStore = false
        /// The folders whose names were synced.
        var durableFolders: Set<String> = []
        /// The folders of keys that are not symbolic links.
        var plainFolders: Set<String> = []
        var lockIdentity: FileIdentity?
    }

    /// The state of a folder.
    enum State {
        case store
        /// The folder exists and is empty. The first write makes it a store.
        case empty
        /// The folder does not exist. The first write creates it and makes it a store.
        case missing
    }

    init(
        root: String, fileSystem: any FileSystem, sharing: FileBackend.Sharing, mayBeCreated: Bool,
        requiresMarker: Bool = true, randomBits: @escaping @Sendable () -> UInt64, changePolicy: ChangePolicy
    ) {
        self.root = root
        self.fileSystem = fileSystem
        self.sharing = sharing
        self.mayBeCreated = mayBeCreated
        self.requiresMarker = requiresMarker
        self.randomBits = randomBits
        self.changePolicy = changePolicy
    }

    var isToolShared: Bool { sharing == .fileSyncTool }

    /// The name of the temporary file for an entry.
    var pendingName: String { Self.pendingNames[isToolShared ? 1 : 0] }

    func path(of name: String) -> String { "\(root)/\(name)" }

    func path(of place: KeyFileName) -> String { folderPath(of: place) + "/" + place.file }

    func folderPath(of place: KeyFileName) -> String { ([root] + place.folders).joined(separator: "/") }

    /// The content of the marker for a store of `format`.
    static func marker(of format: Int) -> [UInt8] { Array("\(markerStart)\(format)\n".utf8) }

    /// The state of the folder for reading; cached once it is a store.
    func stateForReading() throws(BackendError) -> State {
        if known.withLock({ $0.isStore }) { return .store }
        let state = try inspect()
        if state == .store { known.withLock { $0.isStore = true } }
        return state
    }

    /// Throws if the store no longer exists after an entry was not found: an unmounted share looks the same.
    func confirmAbsence() throws(BackendError) {
        if !mayBeCreated { _ = try inspect() }
    }

    /// Examines the folder. Throws unless it is a store that this software supports, or may become one.
    func inspect() throws(BackendError) -> State {
        let state =
            if isToolShared {
                try inspectToolShared()
            } else {
                requiresMarker ? try inspectMarked() : try inspectUnmarked()
            }
        guard state != .store, !mayBeCreated else { return state }
        let what = state == .missing ? "the folder does not exist" : "the folder is empty"
        throw BackendError(.missing, message: "\(root): \(what); mount it, or allow the creation of the store")
    }

    private func inspectToolShared() throws(BackendError) -> State {
        guard let names = try names() else { return .missing }
        guard !names.contains(Self.markerName), !names.contains(Self.lockName) else {
            throw BackendError(
                .notAStore,
                message: "\(root): this is a store with locks, for a shared disk; choose another folder for the tool")
        }
        return .store
    }

    /// The names in the folder; `nil` if it does not exist.
    func names() throws(BackendError) -> [String]? {
        try ifThere { () throws(FileSystemError) in try fileSystem.names(inFolder: root) }
    }

    /// Reads the entry of `key`. The value is not read if the entry still has `knownVersion`.
    func entry(_ key: EntryKey, unless knownVersion: EntryVersion? = nil) throws(BackendError) -> ReadOutcome {
        let path = path(of: key)
        guard try hasPlainFolders(KeyFileName(key).folders), let file = try openEntry(path) else { return .absent }
        defer { fileSystem.close(file) }
        // A shared folder lists the placeholder of an entry, under a key of its own.
        if isToolShared, Placeholder.isPath(path) { throw Placeholder.error(path) }
        var bytes = try attempting { () throws(FileSystemError) in
            try fileSystem.bytes(of: file, limit: Self.firstReadByteCount)
        }
        let header = try header(of: bytes, key: key, path: path)
        if header.version == knownVersion { return .unchanged }
        if header.fileByteCount >= bytes.count, bytes.count == Self.firstReadByteCount {
            // Reads one more byte than expected, to detect a file that is too long.
            bytes += try attempting { () throws(FileSystemError) in
                try fileSystem.bytes(
                    of: file, from: bytes.count, limit: header.fileByteCount - bytes.count + 1)
            }
        }
        do throws(EntryFile.Problem) {
            return .found(Entry(value: try EntryFile.value(of: bytes, header: header), version: header.version))
        } catch {
            throw BackendError(error, path: path)
        }
    }

    /// The version of `key` without its value; `nil` if the key is absent.
    ///
    /// An entry that is permanently unreadable has a version too: a digest of the kind of error and of the first bytes
    /// of the file. So a damaged entry does not end a listing, each state of it has its own version, and reading it
    /// throws the cause.
    func version(of key: EntryKey) throws(BackendError) -> EntryVersion? { try standing(of: key)?.version }

    /// The version of a key, see ``version(of:)``, and `true` if only the content of the file determines it; `nil` if
    /// the key is absent. If an error of the disk or the permissions determine it, the same file may have another
    /// version later.
    func standing(of key: EntryKey) throws(BackendError) -> (version: EntryVersion, isCertain: Bool)? {
        let path = path(of: key)
        var bytes: [UInt8] = []
        do throws(BackendError) {
            guard try hasPlainFolders(KeyFileName(key).folders), let file = try openEntry(path) else { return nil }
            defer { fileSystem.close(file) }
            bytes = try attempting { () throws(FileSystemError) in
                try fileSystem.bytes(of: file, limit: EntryFile.maximumHeaderByteCount)
            }
            return (try header(of: bytes, key: key, path: path).version, true)
        } catch {
            guard error.disposition == .permanent else { throw error.during(.list, key: key) }
            let isCertain = [.damaged, .newerFormat, .notAStore].contains(error.kind)
            return (Self.version(of: bytes, unreadableFor: error.kind), isCertain)
        }
    }

    /// The digest has the length of written versions, because the change log has no room for longer ones.
    private static func version(of bytes: [UInt8], unreadableFor kind: BackendError.Kind) -> EntryVersion {
        let content = bytes + Array(kind.description.utf8)
        return EntryVersion(
            bytes: [UInt64(0), 1].flatMap { seed in
                withUnsafeBytes(of: XXHash64.digest(of: content, seed: seed).bigEndian) { Array($0) }
            })
    }

    private func path(of key: EntryKey) -> String {
        guard isToolShared, let copy = ConflictCopy.place(of: key) else { return path(of: KeyFileName(key)) }
        return ([root] + copy.folders + [copy.file]).joined(separator: "/")
    }

    /// Returns `true` if all folders above an entry exist. Throws if one of them is a symbolic link.
    ///
    /// A link would redirect reads and writes out of the store, and syncing the folder that contains the link would not
    /// make them durable. Each folder is examined once a process: a user who can add a link later can also change the
    /// entries. A folder that a tool shares is set up by its users, and is read as it is.
    func hasPlainFolders(_ folders: [String]) throws(BackendError) -> Bool {
        guard !isToolShared, !folders.isEmpty else { return true }
        let deepest = ([root] + folders).joined(separator: "/")
        var path = deepest
        var knownCount = folders.count
        // Begins at the deepest known folder, because a listing examines every folder of a key, possibly a thousand.
        known.withLock { known in
            while knownCount > 0, !known.plainFolders.contains(path) {
                knownCount -= 1
                path.removeLast(1 + folders[knownCount].count)
            }
        }
        guard knownCount < folders.count else { return true }
        let found: Void? = try ifThere { () throws(FileSystemError) in
            for folder in folders[knownCount...] {
                path += "/" + folder
                fileSystem.close(try fileSystem.open(path, .plainFolder))
            }
        }
        guard found != nil else { return false }
        known.withLock { known in
            // This only bounds the memory, as for durable folders.
            if known.plainFolders.count >= 10_000 { known.plainFolders.removeAll() }
            known.plainFolders.insert(deepest)
        }
        return true
    }

    /// Throws unless `key` can be written under this precondition.
    func checkWritable(
        _ key: EntryKey, _ operation: BackendError.Operation, if precondition: Precondition
    ) throws(BackendError) {
        guard requiresMarker else {
            throw BackendError(
                .unsupported, operation: operation, key: key,
                message: "\(root): a store that is being recovered is read-only")
        }
        guard isToolShared else { return }
        guard precondition == .any else {
            throw BackendError(
                .unsupported, operation: operation, key: key,
                message: "\(root): a folder that a tool shares does not support conditions; use one key a replica")
        }
        guard !ConflictCopy.isKey(key) else {
            throw BackendError(
                .unsupported, operation: operation, key: key,
                message: "\(root): this is the key of a conflict copy, which is read-only")
        }
    }

    /// Opens the file of an entry; `nil` if there is none. An entry that is not downloaded is unavailable.
    private func openEntry(_ path: String) throws(BackendError) -> OpenFile? {
        if let file = try openIfThere(path) { return file }
        guard let placeholder = Placeholder.path(for: path), try exists(placeholder) else {
            // The download may have ended in the meantime.
            return try openIfThere(path)
        }
        throw Placeholder.error(path)
    }

    private func openIfThere(_ path: String) throws(BackendError) -> OpenFile? {
        try ifThere { () throws(FileSystemError) in try fileSystem.open(path, .read) }
    }

    /// Throws if there is only a placeholder for the file at `path`, which a write must not replace.
    func confirmDownloaded(_ path: String) throws(BackendError) {
        guard let placeholder = Placeholder.path(for: path), try exists(placeholder), try !exists(path) else { return }
        throw Placeholder.error(path)
    }

    /// Returns `true` if something has the name `path`.
    private func exists(_ path: String) throws(BackendError) -> Bool {
        try ifThere { () throws(FileSystemError) in try fileSystem.identity(at: path) } != nil
    }

    private func header(of bytes: [UInt8], key: EntryKey, path: String) throws(BackendError) -> EntryFile.Header {
        do throws(EntryFile.Problem) {
            let header = try EntryFile.header(of: bytes)
            // A copy may have any name, but it must belong to an entry in the same folder.
            guard header.key == key || (isToolShared && ConflictCopy.areSiblings(header.key, key)) else {
                throw EntryFile.Problem.damaged(
                    "byte \(EntryFile.fixedByteCount): this is the entry of another key, \"\(header.key)\"")
            }
            return header
        } catch {
            throw BackendError(error, path: path)
        }
    }
}
