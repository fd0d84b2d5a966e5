import Checksums
import SyncCore
import Synchronization

/// The folder of a file store: what is in it, and how an entry is read from it. `StoreFolder+Writing` changes it.
///
/// | name | what |
/// |---|---|
/// | `store.format` | says that this is a store, and of which format; written before the first entry |
/// | `store.changes` | the log of changes, see ``ChangeFile``; may be missing |
/// | `store.lock` | held by a writer; its content names the folder that was written to last |
/// | `…/NAME.entry` | one entry each, see ``KeyFileName`` and ``EntryFile`` |
/// | `…/.pending.tmp` | an entry that is being written, or was when a process died |
///
/// No key has a file name with a dot before `.entry`, so none of these names can meet an entry's.
///
/// Where a file-sync tool shares the folder there are entries only, what the tool makes of them (``ConflictCopy``), and
/// `~pending.tmp` while an entry is being written: a name that such tools leave alone.
final class StoreFolder: Sendable {
    static let markerName = "store.format"
    static let lockName = "store.lock"
    static let pendingNames = [".pending.tmp", "~pending.tmp"]

    /// Small entries come with the read that fetches their header.
    private static let firstReadByteCount = 4_096
    static let markerStart = "EntitlementSync file store "
    /// What a new store has; every version of this software reads and writes it.
    static let firstFormat = 1
    /// From the first question for changes on: who writes here tells the log. Nothing else is different.
    static let formatWithChanges = 2

    let root: String
    let fileSystem: any FileSystem
    let sharing: FileBackend.Sharing
    /// Whether the first write may make the store.
    let mayBeMade: Bool
    /// Whether the folder is a store only with its marker; without, entries are enough, and nothing is written.
    let believesMarker: Bool
    /// Where the tags of changes come from.
    let randomBits: @Sendable () -> UInt64
    let changePolicy: ChangePolicy
    let known = Mutex(Known())

    /// What was found out about the folder and need not be asked again.
    struct Known {
        var isStore = false
        /// Folders whose own names are known to survive a power cut.
        var durableFolders: Set<String> = []
        /// Folders on the way to keys that are no symbolic links.
        var plainFolders: Set<String> = []
        var lockIdentity: FileIdentity?
    }

    /// What a folder is.
    enum State {
        case store
        /// There, with nothing in it: the first write makes it a store.
        case empty
        /// Not there: the first write makes it, and makes it a store.
        case missing
    }

    init(
        root: String, fileSystem: any FileSystem, sharing: FileBackend.Sharing, mayBeMade: Bool,
        believesMarker: Bool = true, randomBits: @escaping @Sendable () -> UInt64, changePolicy: ChangePolicy
    ) {
        self.root = root
        self.fileSystem = fileSystem
        self.sharing = sharing
        self.mayBeMade = mayBeMade
        self.believesMarker = believesMarker
        self.randomBits = randomBits
        self.changePolicy = changePolicy
    }

    var isToolShared: Bool { sharing == .fileSyncTool }

    /// The name of an entry that is being written.
    var pendingName: String { Self.pendingNames[isToolShared ? 1 : 0] }

    func path(of name: String) -> String { "\(root)/\(name)" }

    func path(of place: KeyFileName) -> String { folderPath(of: place) + "/" + place.file }

    func folderPath(of place: KeyFileName) -> String { ([root] + place.folders).joined(separator: "/") }

    /// The content of a new store's marker.
    static func marker(of format: Int) -> [UInt8] { Array("\(markerStart)\(format)\n".utf8) }

    /// What the folder is, asked once for a store that reads.
    func stateForReading() throws(BackendError) -> State {
        if known.withLock({ $0.isStore }) { return .store }
        let state = try inspect()
        if state == .store { known.withLock { $0.isStore = true } }
        return state
    }

    /// Looks again whether the store is there, after something was not found in it: a share that was unmounted in
    /// between has nothing either.
    func confirmAbsence() throws(BackendError) {
        if !mayBeMade { _ = try inspect() }
    }

    /// Looks what the folder is; throws unless it is a store that this software knows, or may become one.
    func inspect() throws(BackendError) -> State {
        let state =
            if isToolShared {
                try inspectToolShared()
            } else {
                believesMarker ? try inspectMarked() : try inspectUnmarked()
            }
        guard state != .store, !mayBeMade else { return state }
        let what = state == .missing ? "the folder does not exist" : "the folder is empty"
        throw BackendError(.missing, message: "\(root): \(what); mount it, or allow to create the store there")
    }

    private func inspectToolShared() throws(BackendError) -> State {
        guard let names = try names() else { return .missing }
        guard !names.contains(Self.markerName), !names.contains(Self.lockName) else {
            throw BackendError(
                .notAStore,
                message: "\(root): this is a store with locks, for a shared disk; choose a folder of the tool's")
        }
        return .store
    }

    /// The names in the folder; `nil` when it is missing.
    func names() throws(BackendError) -> [String]? {
        do {
            return try fileSystem.names(inFolder: root)
        } catch {
            guard error.isMissing else { throw BackendError(error) }
            return nil
        }
    }

    /// The entry of `key`, `nil` when there is none; its value stays empty when it still has `knownVersion`.
    func entry(_ key: EntryKey, unless knownVersion: EntryVersion? = nil) throws(BackendError) -> ReadOutcome {
        let path = path(of: key)
        guard try isOnPlainWay(KeyFileName(key).folders), let file = try openEntry(path) else { return .absent }
        defer { fileSystem.close(file) }
        var bytes = try attempting { () throws(FileSystemError) in
            try fileSystem.bytes(of: file, limit: Self.firstReadByteCount)
        }
        let header = try header(of: bytes, key: key, path: path)
        if header.version == knownVersion { return .unchanged }
        if header.fileByteCount >= bytes.count, bytes.count == Self.firstReadByteCount {
            // One byte more than there should be, to notice when there is.
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

    /// The version of `key` without its value, `nil` when there is none.
    ///
    /// What cannot be read, and not by trying again, has a version all the same: a digest of the error's kind and of
    /// what the file begins with. So one damaged entry ends no listing, each state of it has a version of its own, and
    /// reading it tells what is wrong.
    func version(of key: EntryKey) throws(BackendError) -> EntryVersion? { try standing(of: key)?.version }

    /// The version of a key, see ``version(of:)``, and whether the file's content decides it: where the disk or the
    /// rights do, the same file may have another one tomorrow.
    func standing(of key: EntryKey) throws(BackendError) -> (version: EntryVersion, isCertain: Bool)? {
        let path = path(of: key)
        var bytes: [UInt8] = []
        do throws(BackendError) {
            guard try isOnPlainWay(KeyFileName(key).folders), let file = try openEntry(path) else { return nil }
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

    /// As long as the versions that are written: the log of changes has no room for others.
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

    /// Whether the folders on the way to an entry are there; throws when one of them is a symbolic link.
    ///
    /// A link would lead reads and writes out of the store, and synchronising the folder that it stands in would not
    /// keep it. Looked at once a process: whoever puts a link there later could as well change the entries. A folder
    /// that a tool shares is laid out by people, and only read as it is.
    func isOnPlainWay(_ folders: [String]) throws(BackendError) -> Bool {
        guard !isToolShared, !folders.isEmpty else { return true }
        let deepest = ([root] + folders).joined(separator: "/")
        var path = deepest
        var knownCount = folders.count
        // From the deepest that is known: a listing comes by every folder of a key, and they may be a thousand.
        known.withLock { known in
            while knownCount > 0, !known.plainFolders.contains(path) {
                knownCount -= 1
                path.removeLast(1 + folders[knownCount].count)
            }
        }
        guard knownCount < folders.count else { return true }
        do {
            for folder in folders[knownCount...] {
                path += "/" + folder
                fileSystem.close(try fileSystem.open(path, .plainFolder))
            }
        } catch {
            guard error.isMissing else { throw BackendError(error) }
            return false
        }
        known.withLock { known in
            // A bound, not a cache policy, as for the folders that are durable.
            if known.plainFolders.count >= 10_000 { known.plainFolders.removeAll() }
            known.plainFolders.insert(deepest)
        }
        return true
    }

    /// Throws unless `key` can be written under this precondition.
    func checkWritable(
        _ key: EntryKey, _ operation: BackendError.Operation, if precondition: Precondition
    ) throws(BackendError) {
        guard believesMarker else {
            throw BackendError(
                .unsupported, operation: operation, key: key,
                message: "\(root): a store that is being recovered is only read")
        }
        guard isToolShared else { return }
        guard precondition == .any else {
            throw BackendError(
                .unsupported, operation: operation, key: key,
                message: "\(root): a folder that a tool shares cannot write conditionally; give each replica a key")
        }
        guard !ConflictCopy.isKey(key) else {
            throw BackendError(
                .unsupported, operation: operation, key: key,
                message: "\(root): such a key is that of a tool's conflict copy, which is only read")
        }
    }

    private func openEntry(_ path: String) throws(BackendError) -> OpenFile? {
        do {
            return try fileSystem.open(path, .read)
        } catch {
            guard error.isMissing else { throw BackendError(error) }
            return nil
        }
    }

    private func header(of bytes: [UInt8], key: EntryKey, path: String) throws(BackendError) -> EntryFile.Header {
        do throws(EntryFile.Problem) {
            let header = try EntryFile.header(of: bytes)
            // A copy may be called as it likes, but it is of an entry beside it and of no other account's.
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
