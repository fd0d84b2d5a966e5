import FileStorage
import Foundation
import SQLiteStorage
import SyncCore

/// A new store that appears only when it is complete, even if the process is killed.
///
/// It is created as `NAME.incomplete/store` and renamed in one step when it is durable. `NAME.incomplete/lock` marks
/// the folder as made by syncd, and is locked while a process works in it. If a process is killed, the next one for the
/// same name removes its remains.
struct StagedStore {
    /// The store under its temporary name. The first write creates it.
    let store: any KeyValueBackend
    /// The temporary path.
    let stagedPath: String
    /// The temporary folder, which the next process for the same name empties.
    let folder: String

    private let url: StoreURL
    private let path: String
    private let lock: OpenFile

    private static let fileSystem = POSIXFileSystem()
    private static let note = Array("syncd makes a store here and removes this folder afterwards\n".utf8)
    /// The names that syncd and SQLite use in the folder.
    private static let names: Set = ["lock", "store", "store-wal", "store-shm", "store-journal"]

    /// The prefix of the names of SQLite's drafts.
    private static let draft = "store.pending-"

    /// Creates the store `url` with `body`, and moves it to its name if `body` returns `true` with its value. A `body`
    /// that renames a draft in ``folder`` itself returns `false`.
    ///
    /// - Throws: ``Failure`` if the name is taken, and the errors of `body`. On an error no store is created.
    static func make<Value>(
        _ url: StoreURL, _ body: (StagedStore) async throws -> (Value, Bool)
    ) async throws -> (Value, Bool) {
        guard let location = url.location else { throw Failure(.usage, "\(url.text) is not on this machine") }
        let store = try StagedStore(url, at: location.path)
        let result: (Value, Bool)
        do {
            try store.checkName()
            result = try await body(store)
            if result.1 { try await store.finish() }
        } catch {
            // This error is the one to report. The next process for this name removes the rest.
            try? store.remove()
            throw error
        }
        try store.remove()
        return result
    }

    private init(_ url: StoreURL, at path: String) throws {
        (self.url, self.path) = (url, path)
        folder = path + ".incomplete"
        stagedPath = folder + "/store"
        store = url.moved(to: stagedPath).open(host: .system, mayCreateRemote: true)
        let parent = Self.parent(of: path)
        if url.isDatabase {
            guard access(parent, F_OK) == 0 else {
                throw Failure(.notFound, "\(url.text): the folder \(parent) does not exist: create it first")
            }
        } else {
            do {
                try FileManager.default.createDirectory(atPath: parent, withIntermediateDirectories: true)
            } catch {
                throw Failure(.refused, "\(url.text): the folder \(parent) cannot be created: choose another place")
            }
        }
        lock = try Self.take(folder)
        do {
            try removeContent()
            try Self.calling(folder) {
                try Self.note.withUnsafeBytes { try Self.fileSystem.write(lock, $0, at: 0) }
                // Durable before anything else is in the folder, so that the folder can be recognized.
                try Self.fileSystem.synchronize(lock)
                try Self.synchronize(folder)
            }
        } catch {
            Self.fileSystem.close(lock)
            throw error
        }
    }

    /// Creates the folder, or takes it over from a process that has ended.
    private static func take(_ folder: String) throws -> OpenFile {
        let path = folder + "/lock"
        while true {
            do throws(FileSystemError) { try fileSystem.createFolder(folder) } catch {
                guard error.code == EEXIST else { throw Failure(folder, error) }
                try checkOurs(folder)
            }
            do {
                let lock = try fileSystem.open(path, .createShared)
                var isOurs = false
                defer { if !isOurs { fileSystem.close(lock) } }
                guard try fileSystem.tryLock(lock) else {
                    throw Failure(.tryAgain, "\(folder): another syncd is creating this store: wait for it")
                }
                // The former holder may have removed the file meanwhile.
                isOurs = try fileSystem.identity(of: lock) == fileSystem.identity(at: path)
                if isOurs { return lock }
            } catch let error as FileSystemError where error.code != ENOENT {
                throw Failure(folder, error)
            } catch is FileSystemError {
                continue
            }
        }
    }

    /// Throws unless the folder is missing, is empty, or was left by a process of syncd.
    private static func checkOurs(_ folder: String) throws {
        let isOurs: Bool
        do {
            fileSystem.close(try fileSystem.open(folder, .plainFolder))
            let names = Set(try fileSystem.names(inFolder: folder))
            if names.contains("lock"), names.allSatisfy({ Self.names.contains($0) || $0.hasPrefix(Self.draft) }) {
                isOurs = try isNoted(folder, alone: names.count == 1)
            } else {
                isOurs = names.isEmpty
            }
        } catch let error as FileSystemError {
            if error.code == ENOENT { return }
            throw Failure(folder, error)
        }
        guard isOurs else {
            throw Failure(.refused, "\(folder): not created by syncd: move it away, or choose another name")
        }
    }

    /// Returns `true` if the lock file contains the note of syncd. If the folder has no other file, it may be empty.
    private static func isNoted(_ folder: String, alone: Bool) throws -> Bool {
        let lock = try fileSystem.open(folder + "/lock", .read)
        defer { fileSystem.close(lock) }
        var bytes = [UInt8](repeating: 0, count: note.count + 1)
        let count = try bytes.withUnsafeMutableBytes { try fileSystem.read(lock, into: $0, at: 0) }
        return bytes[..<count].elementsEqual(note) || (alone && count == 0)
    }

    /// Throws if the name is taken by anything but an empty folder.
    private func checkName() throws {
        var status = stat()
        guard lstat(path, &status) == 0 else { return }
        guard !url.isDatabase, status.st_mode & S_IFMT == S_IFDIR else { throw taken }
        let names = try Self.calling(path) { try Self.fileSystem.names(inFolder: path) }
        guard names.isEmpty else { throw taken }
    }

    private var taken: Failure { Failure(.refused, "\(url.text) already exists: choose a new name") }

    /// Moves the store to its name.
    private func finish() async throws {
        if let database = store as? SQLiteBackend {
            // The backup is durable, has no log beside it, and replaces no other file. A second database object would
            // conflict with the first while that one closes.
            return try await database.backup(to: path, draftingIn: folder)
        }
        var status = stat()
        if lstat(path, &status) == 0 { chmod(stagedPath, status.st_mode & 0o7777) }
        // Replaces only an empty folder.
        guard rename(stagedPath, path) == 0 else {
            let code = errno
            guard ![ENOTEMPTY, EEXIST, ENOTDIR].contains(code) else { throw taken }
            throw Failure(path, FileSystemError(call: "rename", path: path, code: code))
        }
        try Self.calling(path) { try Self.synchronize(Self.parent(of: path)) }
    }

    private func removeContent() throws {
        let names = try Self.calling(folder) { try Self.fileSystem.names(inFolder: folder) }
        for name in names.sorted() where name != "lock" {
            do {
                try FileManager.default.removeItem(atPath: "\(folder)/\(name)")
            } catch {
                throw Failure(.failed, "\(folder): the remains of an interrupted copy cannot be removed: remove them")
            }
        }
    }

    private func remove() throws {
        defer { Self.fileSystem.close(lock) }
        try removeContent()
        try Self.calling(folder) { try Self.fileSystem.removeFile(folder + "/lock") }
        // Not empty if the next process for the same name has already created its own.
        guard rmdir(folder) == 0 || [ENOENT, ENOTEMPTY, EEXIST].contains(errno) else {
            throw Failure(folder, FileSystemError(call: "rmdir", path: folder, code: errno))
        }
    }

    private static func parent(of path: String) -> String {
        "/" + path.split(separator: "/").dropLast().joined(separator: "/")
    }

    private static func synchronize(_ folder: String) throws(FileSystemError) {
        let file = try fileSystem.open(folder, .folder)
        defer { fileSystem.close(file) }
        try fileSystem.synchronize(file)
    }

    private static func calling<Result>(_ path: String, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch let error as FileSystemError { throw Failure(path, error) }
    }
}

extension Failure {
    fileprivate init(_ path: String, _ error: FileSystemError) {
        let isRefused = [EACCES, EPERM, EROFS, ENOTDIR, ELOOP].contains(error.code)
        self.init(isRefused ? .refused : .failed, "\(path): the new store cannot be created there (\(error))")
    }
}
