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
    ///   - process: lets a process of its own open the store in a folder, write and end, with
    ///     `CrashTrial.history(command:)`. Without it the store is opened anew in this process for each of the
    ///     ``lives``, which cannot find a counter that all objects of a process share.
    ///   - open: opens the store in a folder, which it makes if it must.
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
    /// Puts a copy of `backup` in the place of `folder`, or nothing. What was there is kept under another name, since
    /// somebody may still have files open.
    private func replace(_ folder: String, by backup: String?) throws {
        let files = FileManager.default
        if files.fileExists(atPath: folder) { try files.moveItem(atPath: folder, toPath: next()) }
        if let backup, files.fileExists(atPath: backup) { try files.copyItem(atPath: backup, toPath: folder) }
    }

    /// Several histories at one place, see ``StoreUnderTest/lives``.
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
