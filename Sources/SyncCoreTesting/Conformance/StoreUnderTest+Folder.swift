public import SyncCore
import Synchronization

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension StoreUnderTest {
    /// A store that consists of one folder.
    ///
    /// It is reopened by opening the folder again and backed up by copying the folder. It is wiped or restored by
    /// opening another folder beside it (`FOLDER.copy1`, …), because the first object may still have files open. The
    /// caller removes `path` and the folders beside it.
    ///
    /// The copy is made while the store is open and not being written. A store whose files need more than that, such as
    /// closing a log first, must supply ``backup`` itself.
    ///
    /// - Parameters:
    ///   - path: The path of a folder that is empty or does not exist.
    ///   - kill: See ``kill``.
    ///   - failing: Opens the folder in a way that makes operations fail occasionally; see ``failing``.
    ///   - process: Starts a process that opens the store in a folder, writes and exits, by
    ///     `CrashTrial.history(command:)`. Without it, this process opens the store again for each of the ``lives``.
    ///     That cannot detect a counter shared by all objects of a process.
    ///   - open: Opens the store in a folder, and creates it if necessary.
    public static func inFolder(
        _ path: String, kill: (@Sendable (_ seed: UInt64) async throws -> CrashReport)? = nil,
        failing: (@Sendable (_ path: String) async throws -> any KeyValueBackend)? = nil,
        process: (@Sendable (_ path: String) async throws -> WrittenHistory)? = nil,
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
        let write = process ?? { try await WrittenHistory(writingInto: try await open($0)) }
        store.lives = { try await copies.lives(write) }
        return store
    }
}

/// Names and makes copies of a folder.
private final class FolderCopies: Sendable {
    private let path: String
    private let count = Mutex(0)

    init(of path: String) {
        self.path = path
    }

    /// Returns the path of a folder beside the first one that does not exist yet.
    func next() -> String {
        let number = count.withLock { count in
            count += 1
            return count
        }
        return "\(path).copy\(number)"
    }

    /// Copies `folder` and returns the path of the copy. A folder that does not exist counts as an empty store.
    func copy(_ folder: String) throws -> String {
        let copy = next()
        if FileManager.default.fileExists(atPath: folder) {
            try FileManager.default.copyItem(atPath: folder, toPath: copy)
        }
        return copy
    }
    /// Replaces `folder` by a copy of `backup`, or by nothing. The old content is moved to another name, because its
    /// files may still be open.
    private func replace(_ folder: String, by backup: String?) throws {
        let files = FileManager.default
        if files.fileExists(atPath: folder) { try files.moveItem(atPath: folder, toPath: next()) }
        if let backup, files.fileExists(atPath: backup) { try files.copyItem(atPath: backup, toPath: folder) }
    }

    /// Writes several histories at one place; see ``StoreUnderTest/lives``.
    func lives(_ write: (_ path: String) async throws -> WrittenHistory) async throws -> [WrittenHistory] {
        let place = next()
        var histories = [try await write(place)]
        let backup = try copy(place)
        histories.append(try await write(place))
        try replace(place, by: backup)
        histories.append(try await write(place))
        try replace(place, by: nil)
        histories.append(try await write(place))
        return histories
    }
}
