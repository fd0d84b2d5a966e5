import Foundation
import SQLiteStorage
import SyncCore
import TestSupport
import Testing

@Suite("What could be lost with a SQLite store's files")
struct SQLiteLossTests {
    private let folder: TemporaryFolder
    private let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path(of: "store.sqlite")
    }

    private func fill(_ count: Int) async throws -> SQLiteBackend {
        let store = SQLiteBackend(path: path)
        for number in 0..<count {
            _ = try await store.write([UInt8(number % 251)], to: EntryKey("k/\(number)"), if: .absent)
        }
        return store
    }

    private func mode(_ name: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: folder.path(of: name))[.posixPermissions] as? Int
    }

    @Test("is refused and left alone: a log without its file, or beside an empty one; what is in it can be recovered")
    func logWithoutFile() async throws {
        let store = try await fill(100)
        let (missing, empty) = (try folder.freshFolder() + "/s", try folder.freshFolder() + "/s")
        // As long as the store is open, all of its writes are in the log.
        for (copy, suffix) in [(missing, ""), (missing, "-wal"), (empty, "-wal")] {
            try FileManager.default.copyItem(atPath: path + suffix, toPath: copy + suffix)
        }
        #expect(try await store.list(prefix: "", after: nil, limit: 1).outcome.items.count == 1)
        try FileManager.default.removeItem(atPath: missing)
        try Data().write(to: URL(fileURLWithPath: empty))
        let key = try EntryKey("new")
        for path in [missing, empty] {
            let log = try Data(contentsOf: URL(fileURLWithPath: path + "-wal"))
            let store = SQLiteBackend(path: path)
            let error = await expectKind(.damaged) { try await store.read(key) }
            #expect(error?.message.contains("-wal") == true)
            await expectKind(.damaged) { try await store.write([1], to: key, if: .absent) }
            await expectKind(.damaged) { try await store.list(prefix: "", after: nil, limit: 1) }
            #expect(try Data(contentsOf: URL(fileURLWithPath: path + "-wal")) == log)
            let report = try await store.recover(to: path + ".whole")
            #expect(report.recoveredCount == 100 && report.lostKeys.isEmpty && report.missingCount == 0)
        }
    }

    @Test("is for its owner's eyes only; a copy is for those of the source")
    func permissions() async throws {
        let store = try await fill(3)
        for name in ["store.sqlite", "store.sqlite-wal", "store.sqlite-shm"] { #expect(try mode(name) == 0o600) }
        try await store.backup(to: folder.path(of: "private"))
        #expect(try mode("private") == 0o600)
        try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: path)
        try await store.backup(to: folder.path(of: "shared"))
        try await store.recover(to: folder.path(of: "recovered"))
        #expect(try mode("shared") == 0o640)
        #expect(try mode("recovered") == 0o640)
    }

    @Test("is no log beside a copy: it can be read where nothing can be written, and written to afterwards")
    func quietCopy() async throws {
        try await fill(3).backup(to: folder.path(of: "copy"))
        let header = try Data(contentsOf: URL(fileURLWithPath: folder.path(of: "copy"))).prefix(20)
        // The file format's bytes for "written by a rollback journal".
        #expect(header[18] == 1 && header[19] == 1)
        let copy = SQLiteBackend(path: folder.path(of: "copy"))
        let key = try EntryKey("k/1")
        guard case .found(let entry) = try await copy.read(key).outcome else {
            Issue.record("the copy is empty")
            return
        }
        #expect(!FileManager.default.fileExists(atPath: folder.path(of: "copy-shm")))
        _ = try await copy.write([9], to: key, if: .matches(entry.version))
        #expect(try await copy.journalMode() == "wal")
        #expect(try await copy.read(key).outcome != .absent)
    }

    @Test("is whole or not there: a copy that several make at once, beside a file of somebody else's")
    func copiedTwice() async throws {
        let store = try await fill(50)
        let target = folder.path(of: "copy")
        let foreign = Data("mine".utf8)
        try foreign.write(to: URL(fileURLWithPath: target + ".pending"))
        let made = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    do throws(BackendError) {
                        try await store.backup(to: target)
                        return true
                    } catch {
                        #expect(error.kind == .unsupported && error.message.contains("the file already exists"))
                        return false
                    }
                }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(made == 1)
        #expect(try await SQLiteBackend(path: target).integrityCheck().wholeCount == 50)
        #expect(try Data(contentsOf: URL(fileURLWithPath: target + ".pending")) == foreign)
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.contains("pending") }
        #expect(names == ["copy.pending"])
    }

    @Test("does not come from a log that another store has left beside the copy's name")
    func logOfAnother() async throws {
        let store = try await fill(3)
        let target = folder.path(of: "copy")
        try FileManager.default.copyItem(atPath: path + "-wal", toPath: target + "-wal")
        let error = await expectKind(.unsupported) { try await store.backup(to: target) }
        #expect(error?.message.contains("copy-wal: the file already exists") == true)
        await expectKind(.unsupported) { try await store.recover(to: target) }
        #expect(!FileManager.default.fileExists(atPath: target))
    }

    @Test("is not written to when a later version has changed the store while it was open")
    func migratedMeanwhile() async throws {
        let store = try await fill(1)
        try ForeignConnection(path: path).execute("PRAGMA user_version = 3")
        let key = try EntryKey("k/0")
        await expectKind(.newerFormat) { try await store.write([7], to: key, if: .any) }
        try ForeignConnection(path: path).execute("PRAGMA user_version = 2")
        guard case .found(let entry) = try await store.read(key).outcome else {
            Issue.record("the entry is gone")
            return
        }
        #expect(entry.value == [0])
        _ = try await store.write([7], to: key, if: .matches(entry.version))
    }

    @Test("is counted: every key that a recovery cannot bring back")
    func counted() async throws {
        let store = try await fill(400)
        try await store.backup(to: folder.path(of: "copy"))
        var bytes = try Data(contentsOf: URL(fileURLWithPath: folder.path(of: "copy")))
        // Most of the pages of the table and of the index, but few of the changes.
        var isHit = false
        for page in 4..<(bytes.count / 4_096) where page % 3 != 0 {
            bytes.replaceSubrange((page * 4_096)..<(page * 4_096 + 4_096), with: Data(repeating: 0xFF, count: 4_096))
            isHit = true
        }
        #expect(isHit)
        let damaged = folder.path(of: "damaged")
        try bytes.write(to: URL(fileURLWithPath: damaged))
        let report = try await SQLiteBackend(path: damaged).recover(to: folder.path(of: "recovered"))
        print("recovered \(report.recoveredCount), named \(report.lostKeys.count), missing \(report.missingCount)")
        #expect(report.recoveredCount < 400)
        #expect(report.recoveredCount + report.lostKeys.count + report.missingCount <= 400)
        #expect(report.lostKeys.count + report.missingCount > 0)
    }

    @Test("is not made of a file that never was a store")
    func nothingFound() async throws {
        try Data(repeating: 65, count: 20_000).write(to: URL(fileURLWithPath: path))
        let target = folder.path(of: "recovered")
        await expectKind(.notAStore) { try await SQLiteBackend(path: path).recover(to: target) }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["store.sqlite"])
    }

    @Test("is told for one entry only: the others are listed, read and followed")
    func oneDamagedEntry() async throws {
        let store = try await fill(20)
        try await store.backup(to: folder.path(of: "copy"))
        try ForeignConnection(path: folder.path(of: "copy")).execute(
            "UPDATE entry SET checksum = checksum + 1 WHERE key = CAST('k/7' AS BLOB)")
        let damaged = SQLiteBackend(path: folder.path(of: "copy"))
        let key = try EntryKey("k/7")
        let changes = try await damaged.changes(since: nil, limit: 100).outcome.changes
        #expect(changes.count == 20 && changes.contains { $0.key == key && $0.version != nil })
        #expect(try await damaged.list(prefix: "", after: nil, limit: 100).outcome.items.count == 20)
        let error = await expectKind(.damaged) { try await damaged.read(key) }
        #expect(error?.key == key)
        let survey = try await StoreSurvey.of(damaged)
        #expect(survey.damage.map(\.key) == [key] && survey.wholeCount == 19)
    }

    @Test("is no reason for silence: the folder is made, or made anew, after somebody asked for signals")
    func signalsOfLaterFolder() async throws {
        let late = folder.path(of: "deep/er/store.sqlite")
        let parent = folder.path(of: "deep/er")
        let watcher = SQLiteBackend(path: late)
        var signals = watcher.signals().makeAsyncIterator()
        let key = try EntryKey("k")
        for _ in 0..<2 {
            try FileManager.default.createDirectory(atPath: parent, withIntermediateDirectories: true)
            let written = try await SQLiteBackend(path: late).write([1], to: key, if: .any).outcome
            var seen: WriteOutcome?
            while seen != written {
                #expect(await signals.next() != nil)
                if case .found(let entry) = try await watcher.read(key).outcome { seen = .written(entry.version) }
            }
            try FileManager.default.removeItem(atPath: folder.path(of: "deep"))
        }
    }
}
