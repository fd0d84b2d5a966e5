import Foundation
import GRDB
import SQLiteStorage
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("What is no store of ours")
struct SQLiteRefusalTests {
    private let folder: TemporaryFolder
    private let path: String
    private let key: EntryKey

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path(of: "store.sqlite")
        key = try EntryKey("k")
    }

    /// The names and bytes of all that is in the folder.
    private func contents() throws -> [String: Data] {
        var contents: [String: Data] = [:]
        for name in try FileManager.default.subpathsOfDirectory(atPath: folder.path) {
            contents[name] = FileManager.default.contents(atPath: folder.path(of: name)) ?? Data()
        }
        return contents
    }

    /// Every operation is refused with `kind`, and nothing changes.
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

    @Test("is left alone: a store of a later version")
    func newer() async throws {
        _ = try await SQLiteBackend(path: path).write([1], to: key, if: .any)
        try ForeignConnection(path: path).execute("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA user_version = 3")
        try ForeignConnection(path: path).execute("PRAGMA wal_checkpoint(TRUNCATE)")
        try await expectRefusal(.newerFormat)
    }

    @Test("is left alone: another application's database, by its number or by its tables")
    func foreign() async throws {
        let foreign = try ForeignConnection(path: path)
        try foreign.execute("CREATE TABLE note (text TEXT); INSERT INTO note VALUES ('x')")
        try await expectRefusal(.notAStore)
        try foreign.execute("PRAGMA application_id = 1234")
        try await expectRefusal(.notAStore)
    }

    @Test("is left alone: a store of ours with somebody else's table")
    func extended() async throws {
        _ = try await SQLiteBackend(path: path).write([1], to: key, if: .any)
        try ForeignConnection(path: path).execute("CREATE TABLE note (text TEXT)")
        let error = await expectKind(.notAStore) { try await SQLiteBackend(path: path).read(key) }
        #expect(error?.message.contains("note") == true)
    }

    @Test("is left alone: text, a folder, and a folder that is not there")
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

    /// What a user without rights is told who reads and writes.
    private func attempted() throws -> (read: String, write: String) {
        let process = try BuiltProgram.startProbe("try", "sqlite:\(folder.path)", "65534")
        guard case .line(let read) = process.hear(), case .line(let write) = process.hear() else {
            throw BackendError(.other, message: "StoreProbe says nothing, and ends with \(process.wait())")
        }
        return (read, write)
    }

    @Test("is refused where the user may not write, and read where that needs no writing")
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

    @Test("is no obstacle when it is an empty file, or the journal of one who was killed while making a store")
    func halfMade() async throws {
        #expect(FileManager.default.createFile(atPath: path, contents: nil))
        _ = try await SQLiteBackend(path: path).write([1], to: key, if: .absent)
        #expect(try await SQLiteBackend(path: path).read(key).outcome != .absent)
        let other = folder.path(of: "other.sqlite")
        // What SQLite leaves when it is killed in its first transaction: a journal that says "0 pages before".
        var journal = Data([0xD9, 0xD5, 0x05, 0xF9, 0x20, 0xA1, 0x63, 0xD7] + [UInt8](repeating: 0, count: 504))
        journal.replaceSubrange(20..<28, with: [0, 0, 2, 0, 0, 0, 0x10, 0])
        try journal.write(to: URL(fileURLWithPath: other + "-journal"))
        try Data(repeating: 0, count: 8_192).write(to: URL(fileURLWithPath: other))
        let store = SQLiteBackend(path: other)
        #expect(try await store.read(key).outcome == .absent)
        _ = try await store.write([1], to: key, if: .absent)
        #expect(try await SQLiteBackend(path: other).read(key).outcome != .absent)
    }

    @Test("is no obstacle when its maker was killed while it changed to write-ahead logging")
    func halfSwitched() async throws {
        _ = try await SQLiteBackend(path: path).write([1], to: key, if: .any)
        let maker = try ForeignConnection(path: path)
        try maker.execute("PRAGMA journal_mode = DELETE")
        let other = folder.path(of: "other.sqlite")
        try maker.queue.inDatabase { db in
            try db.beginTransaction(.immediate)
            // More than a page in the cache: the journal is synchronised, and pages are written to the file.
            try db.execute(
                sql: """
                    PRAGMA cache_size = 1;
                    CREATE TABLE filler AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
                    SELECT randomblob(1000) FROM n
                    """)
            // What is left of it if it ends now. SQLite undoes it, but not for a connection that only reads.
            for suffix in ["", "-journal"] {
                try FileManager.default.copyItem(atPath: path + suffix, toPath: other + suffix)
            }
            try db.rollback()
        }
        guard case .found(let entry) = try await SQLiteBackend(path: other).read(key).outcome else {
            Issue.record("the entry is gone")
            return
        }
        #expect(entry.value == [1])
        #expect(try await SQLiteBackend(path: other).integrityCheck().isIntact)
    }
}
