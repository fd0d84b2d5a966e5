public import SyncCore
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension StoreUnderTest {
    /// A store that lives wholly in a folder of its own.
    ///
    /// It is opened again by opening the folder again, backed up by copying the folder, and wiped or put back by
    /// opening another folder beside it (`FOLDER.copy1`, …), since the first object may still have files open.
    /// Whoever made `path` removes it and what is beside it.
    ///
    /// The copy is made while the store is open but nobody writes. A store whose files need more than that (a log to be
    /// closed first) supplies ``backup`` itself.
    ///
    /// - Parameters:
    ///   - path: an empty folder, or none yet.
    ///   - kill: see ``kill``.
    ///   - failing: opens the folder in a way that fails now and then, see ``failing``.
    ///   - open: opens the store in a folder, which it makes if it must.
    public static func inFolder(
        _ path: String, kill: (@Sendable (_ seed: UInt64) async throws -> CrashReport)? = nil,
        failing: (@Sendable (_ path: String) async throws -> any KeyValueBackend)? = nil,
        open: @escaping @Sendable (_ path: String) async throws -> any KeyValueBackend
    ) async throws -> StoreUnderTest {
        let copies = FolderCopies(of: path)
        var store = StoreUnderTest(try await open(path), reopen: { try await open(path) }, kill: kill)
        if let failing { store.failing = { try await failing(path) } }
        store.wipe = { try await open(copies.next()) }
        store.backup = {
            let copy = try copies.copy(path)
            return { try await open(try copies.copy(copy)) }
        }
        return store
    }
}

/// Names copies of a folder and makes them.
private final class FolderCopies: Sendable {
    private let path: String
    private let count = Mutex(0)

    init(of path: String) {
        self.path = path
    }

    /// The name of another folder beside the first; nothing is there yet.
    func next() -> String {
        let number = count.withLock { count in
            count += 1
            return count
        }
        return "\(path).copy\(number)"
    }

    /// Copies `folder`, and answers where the copy is. A folder that is not there yet is an empty store.
    func copy(_ folder: String) throws -> String {
        let copy = next()
        if FileManager.default.fileExists(atPath: folder) {
            try FileManager.default.copyItem(atPath: folder, toPath: copy)
        }
        return copy
    }
}
