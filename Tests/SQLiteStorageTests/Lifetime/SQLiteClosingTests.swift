import Foundation
import SQLiteRecovery
import SQLiteStorage
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Closing and copying an SQLite store")
struct SQLiteClosingTests {
    private let folder: TemporaryFolder
    private let path: String
    private let store: SQLiteBackend

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path(of: "store.sqlite")
        store = SQLiteBackend(path: path)
    }

    /// The names of the store's files.
    private func names() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasPrefix("store") }.sorted()
    }

    private func put(_ value: UInt8, _ key: String, in store: SQLiteBackend) async throws {
        _ = try await store.write([value], to: EntryKey(key), if: .any)
    }

    private func value(_ key: String, in store: SQLiteBackend) async throws -> UInt8? {
        guard case .found(let entry) = try await store.read(EntryKey(key)).outcome else { return nil }
        return entry.value.first
    }

    /// Copies only the file at `path`.
    private func copyOfFile() throws -> String {
        let copy = try folder.freshFolder() + "/store.sqlite"
        try FileManager.default.copyItem(atPath: path, toPath: copy)
        return copy
    }

    @Test("A closed store is one file, and a copy of this file is complete")
    func oneFile() async throws {
        for number in 0..<100 { try await put(UInt8(number), "k/\(number)", in: store) }
        #expect(try names() == ["store.sqlite", "store.sqlite-shm", "store.sqlite-wal"])
        try await store.close()
        #expect(try names() == ["store.sqlite"])
        let copy = SQLiteBackend(path: try copyOfFile())
        for number in 0..<100 { #expect(try await value("k/\(number)", in: copy) == UInt8(number)) }
        #expect(try await copy.integrityCheck().wholeCount == 100)
    }

    @Test("A closed store can be used again: reads start no log, and the next write does")
    func reopened() async throws {
        try await put(1, "k", in: store)
        try await store.close()
        try await store.close()
        #expect(try await value("k", in: store) == 1)
        #expect(try names() == ["store.sqlite"])
        try await put(2, "l", in: store)
        #expect(try await store.journalMode() == "wal")
        #expect(try await store.synchronousPragma() == 2)
        #expect(try await value("k", in: store) == 1)
        #expect(try await value("l", in: store) == 2)
        try await store.close()
        #expect(try names() == ["store.sqlite"])
    }

    @Test("Closing checkpoints the log of a killed process")
    func leftLog() async throws {
        let process = try BuiltProgram.startProbe("count", "sqlite:\(folder.path)", "counter", "400", "1")
        for _ in 0..<5 { #expect(process.hear() == .line("raised")) }
        _ = process.killAndWait()
        #expect(try names().contains("store.sqlite-wal"))
        try await store.close()
        #expect(try names() == ["store.sqlite"])
        #expect(try await value("counter", in: SQLiteBackend(path: try copyOfFile())) != nil)
    }

    @Test("Closing leaves an empty log if another object has the store open, and does not create a missing store")
    func others() async throws {
        try await store.close()
        #expect(try names() == [])
        let other = SQLiteBackend(path: path)
        try await put(1, "k", in: store)
        #expect(try await value("k", in: other) == 1)
        try await store.close()
        #expect(try await value("k", in: SQLiteBackend(path: try copyOfFile())) == 1)
        try await put(2, "k", in: other)
        #expect(try await value("k", in: store) == 2)
        try await store.close()
        try await other.close()
        #expect(try names() == ["store.sqlite"])
        #expect(try await value("k", in: other) == 2)
    }

    @Test("Closing times out while another process writes, and loses nothing")
    func busy() async throws {
        try await put(1, "k", in: store)
        let lock = try WriteLock(path: path)
        let manual = ManualHost(seed: 1)
        let impatient = SQLiteBackend(path: path, host: manual.host, busyTimeout: .seconds(3))
        #expect(try await value("k", in: impatient) == 1)
        let error = await expectKind(.busy) { try await impatient.close() }
        #expect(error?.disposition == .transient)
        try lock.release()
        #expect(try await value("k", in: impatient) == 1)
    }

    /// Expects that a backup is refused if it replaces the file while a log of later writes is beside it.
    private func expectRefusal(_ backup: String) async throws {
        let log = try Data(contentsOf: URL(filePath: path + "-wal"))
        #expect(log.count > 4_096)
        let place = try folder.freshFolder() + "/store.sqlite"
        try FileManager.default.copyItem(atPath: backup, toPath: place)
        try log.write(to: URL(filePath: place + "-wal"))
        let before = try Data(contentsOf: URL(filePath: place))
        let restored = SQLiteBackend(path: place)
        let error = await expectKind(.damaged) { try await restored.read(EntryKey("k")) }
        #expect(error?.message.contains("move \(place)-wal and \(place)-shm away") == true, "\(error as Any)")
        await expectKind(.damaged) { try await restored.write([9], to: EntryKey("k"), if: .any) }
        await expectKind(.damaged) { try await restored.integrityCheck() }
        #expect(try Data(contentsOf: URL(filePath: place)) == before)
        #expect(try Data(contentsOf: URL(filePath: place + "-wal")) == log)
        // The recovery uses only the entries of the file.
        try await restored.recover(to: place + ".whole")
        #expect(try await value("k", in: SQLiteBackend(path: place + ".whole")) == 1)
        try FileManager.default.removeItem(atPath: place + "-wal")
        #expect(try await value("k", in: restored) == 1)
        #expect(try await value("later", in: restored) == nil)
    }

    @Test("A restored backup is refused if a log of later writes is beside it")
    func restoredBackup() async throws {
        try await put(1, "k", in: store)
        let backup = folder.path(of: "backup.sqlite")
        try await store.backup(to: backup)
        for number in 0..<10 { try await put(UInt8(10 + number), number == 0 ? "k" : "later", in: store) }
        try await expectRefusal(backup)
    }

    @Test("A restored copy of the closed store's file is refused if a log of later writes is beside it")
    func restoredCopy() async throws {
        try await put(1, "k", in: store)
        try await store.close()
        let copy = try copyOfFile()
        for number in 0..<10 { try await put(UInt8(10 + number), number == 0 ? "k" : "later", in: store) }
        try await expectRefusal(copy)
    }

    @Test("A store is never refused with its own log, regardless of how a process ended", arguments: 0..<3)
    func ownLog(round: Int) async throws {
        for number in 0..<20 {
            try await put(UInt8(number), "k", in: store)
            if number % 7 == round { try await store.close() }
            if number % 5 == round { try ForeignConnection(path: path).execute("PRAGMA wal_checkpoint(PASSIVE)") }
            let copy = try folder.freshFolder() + "/s"
            for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: path + suffix) {
                try FileManager.default.copyItem(atPath: path + suffix, toPath: copy + suffix)
            }
            #expect(try await value("k", in: SQLiteBackend(path: copy)) == UInt8(number))
        }
    }
}
