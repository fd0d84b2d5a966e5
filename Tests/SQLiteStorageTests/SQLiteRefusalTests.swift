import Foundation
import GRDB
import SQLiteStorage
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Files that are not a supported SQLite store")
struct SQLiteRefusalTests {
    private let folder: TemporaryFolder
    private let path: String
    private let key: EntryKey

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path(of: "store.sqlite")
        key = try EntryKey("k")
    }

    /// The names and bytes of all files in the folder.
    private func contents() throws -> [String: Data] {
        var contents: [String: Data] = [:]
        for name in try FileManager.default.subpathsOfDirectory(atPath: folder.path) {
            contents[name] = FileManager.default.contents(atPath: folder.path(of: name)) ?? Data()
        }
        return contents
    }

    /// Expects that every operation is refused with `kind` and changes nothing.
    private func expectRefusal(
        _ kind: BackendError.Kind, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let before = try contents()
        let store = SQLiteBackend(path: path)
        let error = await expectKind(kind, sourceLocation: sourceLocation) { try await store.read(key) }
        #expect(
            error?.message.hasPrefix(path) == true && error?.disposition == .permanent, "\(String(describing: error))")
        await expectKind(kind, sourceLocation: sourceLocation) { try await store.write([1], to: key, if: .any) }
        await expectKind(kind, sourceLocation: sourceLocation) { try await store.delete(key, if: .any) }
        await expectKind(kind, sourceLocation: sourceLocation) {
            try await store.list(prefix: "", after: nil, limit: 1)
        }
        await expectKind(kind, sourceLocation: sourceLocation) { try await store.changes(since: nil, limit: 1) }
        #expect(try contents() == before, sourceLocation: sourceLocation)
    }

    @Test("A store of a later version is refused and left unchanged")
    func newer() async throws {
        _ = try await SQLiteBackend(path: path).write([1], to: key, if: .any)
        try ForeignConnection(path: path).execute("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA user_version = 3")
        try ForeignConnection(path: path).execute("PRAGMA wal_checkpoint(TRUNCATE)")
        try await expectRefusal(.newerFormat)
    }

    @Test("A database of another application, recognized by its ID or its tables, is refused and left unchanged")
    func foreign() async throws {
        let foreign = try ForeignConnection(path: path)
        try foreign.execute("CREATE TABLE note (text TEXT); INSERT INTO note VALUES ('x')")
        try await expectRefusal(.notAStore)
        try foreign.execute("PRAGMA application_id = 1234")
        try await expectRefusal(.notAStore)
    }

    @Test("A store with a table of another application is refused and left unchanged")
    func extended() async throws {
        _ = try await SQLiteBackend(path: path).write([1], to: key, if: .any)
        try ForeignConnection(path: path).execute("CREATE TABLE note (text TEXT)")
        let error = await expectKind(.notAStore) { try await SQLiteBackend(path: path).read(key) }
        #expect(error?.message.contains("note") == true)
    }

    @Test("A text file, a folder, and a missing folder are refused and left unchanged")
    func others() async throws {
        try Data("Dear Sir or Madam, this is no database at all.\n".utf8).write(to: URL(fileURLWithPath: path))
        try await expectRefusal(.notAStore)
        try Data(repeating: 65, count: 10_000).write(to: URL(fileURLWithPath: path))
        try await expectRefusal(.notAStore)
        try FileManager.default.removeItem(atPath: path)
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        try await expectRefusal(.notAStore)
        let lost = SQLiteBackend(path: folder.path(of: "none/store.sqlite"))
        let error = await expectKind(.missing) { try await lost.write([1], to: key, if: .any) }
        #expect(error?.disposition == .permanent && error?.message.contains("does not exist") == true)
        await expectKind(.notAStore) { try await SQLiteBackend(path: "/dev/null").write([1], to: key, if: .any) }
    }

    /// The results of a read and a write by a user without permissions.
    private func attempted() throws -> (read: String, write: String) {
        let process = try BuiltProgram.startProbe("try", "sqlite:\(folder.path)", "65534")
        guard case .line(let read) = process.hear(), case .line(let write) = process.hear() else {
            throw BackendError(.other, message: "StoreProbe printed nothing and ended with \(process.wait())")
        }
        return (read, write)
    }

    @Test("A write without permission is refused, and a read succeeds if it needs no writing")
    func unwritable() async throws {
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: folder.path)
        let empty = try attempted()
        #expect(empty.read == "read absent")
        #expect(
            empty.write.hasPrefix("write permissionDenied permanent write \"k\": \(path): "), "\(empty.write)")
        #expect(try contents().isEmpty)
        let store = SQLiteBackend(path: path)
        _ = try await store.write([7], to: key, if: .any)
        let before = try contents()["store.sqlite"]
        let full = try attempted()
        #expect(full.read.hasPrefix("read found") || full.read.hasPrefix("read permissionDenied"), "\(full.read)")
        #expect(full.write.hasPrefix("write permissionDenied permanent"), "\(full.write)")
        #expect(try contents()["store.sqlite"] == before)
    }

    @Test("An empty file, or the journal of a process killed during creation, does not prevent the creation of a store")
    func halfMade() async throws {
        #expect(FileManager.default.createFile(atPath: path, contents: nil))
        _ = try await SQLiteBackend(path: path).write([1], to: key, if: .absent)
        #expect(try await SQLiteBackend(path: path).read(key).outcome != .absent)
        let other = folder.path(of: "other.sqlite")
        // A killed first transaction of SQLite leaves a journal that states "0 pages before".
        var journal = Data([0xD9, 0xD5, 0x05, 0xF9, 0x20, 0xA1, 0x63, 0xD7] + [UInt8](repeating: 0, count: 504))
        journal.replaceSubrange(20..<28, with: [0, 0, 2, 0, 0, 0, 0x10, 0])
        try journal.write(to: URL(fileURLWithPath: other + "-journal"))
        try Data(repeating: 0, count: 8_192).write(to: URL(fileURLWithPath: other))
        let store = SQLiteBackend(path: other)
        #expect(try await store.read(key).outcome == .absent)
        _ = try await store.write([1], to: key, if: .absent)
        #expect(try await SQLiteBackend(path: other).read(key).outcome != .absent)
    }

    @Test("A store whose creator was killed during the switch to WAL mode can be used")
    func halfSwitched() async throws {
        _ = try await SQLiteBackend(path: path).write([1], to: key, if: .any)
        let maker = try ForeignConnection(path: path)
        try maker.execute("PRAGMA journal_mode = DELETE")
        let other = folder.path(of: "other.sqlite")
        try maker.queue.inDatabase { db in
            try db.beginTransaction(.immediate)
            // More than the page cache can hold, so the journal is synced and pages are written to the file.
            try db.execute(
                sql: """
                    PRAGMA cache_size = 1;
                    CREATE TABLE filler AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
                    SELECT randomblob(1000) FROM n
                    """)
            // The state if the process ended now. SQLite rolls it back, but not on a read-only connection.
            for suffix in ["", "-journal"] {
                try FileManager.default.copyItem(atPath: path + suffix, toPath: other + suffix)
            }
            try db.rollback()
        }
        guard case .found(let entry) = try await SQLiteBackend(path: other).read(key).outcome else {
            Issue.record("the entry is missing")
            return
        }
        #expect(entry.value == [1])
        #expect(try await SQLiteBackend(path: other).integrityCheck().isIntact)
    }
}
