import FileStorage
import Foundation
import SQLiteStorage
import SyncCore

/// A new store that is there wholly or not at all, whenever the process is killed.
///
/// It is made as `NAME.incomplete/store`, and gets its name in one step when all of it is on the disk.
/// `NAME.incomplete/lock` says whose folder this is, and is held while a process is at work; what a killed process left
/// is removed by the next one for the same name.
struct StagedStore {
    /// The store while it is being made; nothing is there before the first write.
    let store: any KeyValueBackend
    /// Where it is then.
    let stagedPath: String
    /// The folder it is in, which is emptied by whoever comes next.
    let folder: String

    private let url: StoreURL
    private let path: String
    private let lock: OpenFile

    private static let fileSystem = POSIXFileSystem()
    private static let note = Array("syncd makes a store here and removes this folder afterwards\n".utf8)
    /// SQLite's files are beside the store's.
    private static let names: Set = [
        "lock", "store", "store-wal", "store-shm", "store-journal",
    ]

    /// How the names of SQLite's drafts begin.
    private static let draft = "store.pending-"

    /// Makes the store `url` by `body`; it gets its name if `body` answers true. A `body` that gives a draft in
    /// ``folder`` the name itself answers false.
    ///
    /// - Throws: where something has that name already, and whatever `body` throws; there is no new store then.
    static func make(_ url: StoreURL, _ body: (StagedStore) async throws -> Bool) async throws {
        guard let location = url.location else { return }
        let store = try StagedStore(url, at: location.path)
        do {
            try store.checkName()
            if try await body(store) { try await store.finish() }
        } catch {
            store.abandon()
            throw error
        }
        try store.remove()
    }

    private init(_ url: StoreURL, at path: String) throws(Failure) {
        (self.url, self.path) = (url, path)
        folder = path + ".incomplete"
        stagedPath = folder + "/store"
        store = url.moved(to: stagedPath).open(host: .system, mayCreateRemote: true)
        let parent = Self.parent(of: path)
        if case .sqlite = url.place {
            guard access(parent, F_OK) == 0 else {
                throw Failure(.notFound, "\(url.text): the folder \(parent) does not exist: make it first")
            }
        } else {
            do {
                try FileManager.default.createDirectory(atPath: parent, withIntermediateDirectories: true)
            } catch {
                throw Failure(.refused, "\(url.text): the folder \(parent) cannot be made: choose another place")
            }
        }
        lock = try Self.take(folder)
        do {
            try removeContent()
            try Self.calling(folder) { () throws(FileSystemError) in
                try Self.note.withUnsafeBytes { bytes in
                    Result { () throws(FileSystemError) in try Self.fileSystem.write(lock, bytes, at: 0) }
                }.get()
                // On the disk before anything else is in the folder, so that the folder is known as ours.
                try Self.fileSystem.synchronize(lock)
                try Self.synchronize(folder)
            }
        } catch {
            Self.fileSystem.close(lock)
            throw error
        }
    }

    /// Makes the folder, or takes it over from a process that is dead.
    private static func take(_ folder: String) throws(Failure) -> OpenFile {
        while true {
            do throws(FileSystemError) {
                try fileSystem.createFolder(folder)
            } catch {
                guard error.code == EEXIST else { throw Failure(folder, error) }
                try checkOurs(folder)
            }
            let path = folder + "/lock"
            do throws(FileSystemError) {
                let lock = try fileSystem.open(path, .createShared)
                do throws(FileSystemError) {
                    guard try fileSystem.tryLock(lock) else {
                        fileSystem.close(lock)
                        throw FileSystemError(call: "flock", path: path, code: EWOULDBLOCK)
                    }
                    // Whoever had it may have removed it meanwhile.
                    if try fileSystem.identity(of: lock) == fileSystem.identity(at: path) { return lock }
                    fileSystem.close(lock)
                } catch {
                    if error.code != EWOULDBLOCK { fileSystem.close(lock) }
                    throw error
                }
            } catch {
                if error.code == ENOENT { continue }
                guard error.code != EWOULDBLOCK else {
                    throw Failure(.tryAgain, "\(folder): another syncd is making this store: wait for it")
                }
                throw Failure(folder, error)
            }
        }
    }

    /// Throws unless the folder is what a process of this kind left, or empty.
    private static func checkOurs(_ folder: String) throws(Failure) {
        let isOurs: Bool
        do throws(FileSystemError) {
            fileSystem.close(try fileSystem.open(folder, .plainFolder))
            let names = Set(try fileSystem.names(inFolder: folder))
            if names.contains("lock"), names.allSatisfy({ Self.names.contains($0) || $0.hasPrefix(Self.draft) }) {
                isOurs = try isNoted(folder, alone: names.count == 1)
            } else {
                isOurs = names.isEmpty
            }
        } catch {
            if error.code == ENOENT { return }
            throw Failure(folder, error)
        }
        guard isOurs else {
            throw Failure(.refused, "\(folder): this was not made by syncd: move it away, or choose another name")
        }
    }

    /// Whether the lock's note is there; one that is alone may lack it still.
    private static func isNoted(_ folder: String, alone: Bool) throws(FileSystemError) -> Bool {
        let lock = try fileSystem.open(folder + "/lock", .read)
        defer { fileSystem.close(lock) }
        var bytes = [UInt8](repeating: 0, count: note.count + 1)
        let count = try bytes.withUnsafeMutableBytes { buffer in
            Result { () throws(FileSystemError) in try fileSystem.read(lock, into: buffer, at: 0) }
        }.get()
        return bytes[..<count].elementsEqual(note) || (alone && count == 0)
    }

    /// Throws when something has the name already; an empty folder does not matter.
    private func checkName() throws(Failure) {
        var status = stat()
        guard lstat(path, &status) == 0 else { return }
        let isFolder = status.st_mode & S_IFMT == S_IFDIR
        if case .sqlite = url.place { throw taken }
        guard isFolder else { throw taken }
        let names = try Self.calling(path) { () throws(FileSystemError) in try Self.fileSystem.names(inFolder: path) }
        guard names.isEmpty else { throw taken }
    }

    private var taken: Failure { Failure(.refused, "\(url.text) has something in it already: name a new store") }

    /// Gives the store its name.
    private func finish() async throws {
        if let database = store as? SQLiteBackend {
            // All on the disk, without a log beside it, and never in the place of another file. Through the same
            // object: a second one would meet the first while that is closing.
            return try await database.backup(to: path, draftingIn: folder)
        }
        var status = stat()
        if lstat(path, &status) == 0 { chmod(stagedPath, status.st_mode & 0o7777) }
        // Takes the place of an empty folder and of nothing else.
        guard rename(stagedPath, path) == 0 else {
            let code = errno
            guard ![ENOTEMPTY, EEXIST, ENOTDIR].contains(code) else { throw taken }
            throw Failure(path, FileSystemError(call: "rename", path: path, code: code))
        }
        try Self.calling(path) { () throws(FileSystemError) in try Self.synchronize(Self.parent(of: path)) }
    }

    private func removeContent() throws(Failure) {
        let names = try Self.calling(folder) { () throws(FileSystemError) in
            try Self.fileSystem.names(inFolder: folder)
        }
        for name in names.sorted() where name != "lock" {
            do {
                try FileManager.default.removeItem(atPath: "\(folder)/\(name)")
            } catch {
                throw Failure(.failed, "\(folder): what an interrupted copy left there cannot be removed: remove it")
            }
        }
    }

    private func remove() throws(Failure) {
        defer { Self.fileSystem.close(lock) }
        try removeContent()
        try Self.calling(folder) { () throws(FileSystemError) in try Self.fileSystem.removeFile(folder + "/lock") }
        // Not empty: the next process makes one for the same name already.
        guard rmdir(folder) == 0 || [ENOENT, ENOTEMPTY, EEXIST].contains(errno) else {
            throw Failure(folder, FileSystemError(call: "rmdir", path: folder, code: errno))
        }
    }

    private func abandon() {
        do {
            try remove()
        } catch {
            // The error that brought us here is the one to report; the next one for this name removes the rest.
        }
    }

    private static func parent(of path: String) -> String {
        let parent = path.split(separator: "/").dropLast().joined(separator: "/")
        return "/" + parent
    }

    private static func synchronize(_ folder: String) throws(FileSystemError) {
        let file = try fileSystem.open(folder, .folder)
        defer { fileSystem.close(file) }
        try fileSystem.synchronize(file)
    }

    private static func calling<Result>(
        _ path: String, _ body: () throws(FileSystemError) -> Result
    ) throws(Failure) -> Result {
        do { return try body() } catch { throw Failure(path, error) }
    }
}

extension Failure {
    fileprivate init(_ path: String, _ error: FileSystemError) {
        let isRefused = [EACCES, EPERM, EROFS, ENOTDIR, ELOOP].contains(error.code)
        self.init(isRefused ? .refused : .failed, "\(path): the new store cannot be made there (\(error))")
    }
}
