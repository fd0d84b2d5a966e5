import Foundation
import SQLiteRecovery
import SQLiteStorage
import SyncCore
import TestSupport
import Testing

@Suite("Possible losses with the files of an SQLite store")
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

    @Test("A log without its file, or beside an empty file, is refused and left unchanged, and can be recovered")
    func logWithoutFile() async throws {
        let store = try await fill(100)
        let (missing, empty) = (try folder.freshFolder() + "/s", try folder.freshFolder() + "/s")
        // While the store is open, all of its writes are in the WAL.
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

    @Test("A store is readable only by its owner, and a copy gets the mode of its source")
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

    @Test("A copy has no log: it is readable on read-only media, and can be written to later")
    func quietCopy() async throws {
        try await fill(3).backup(to: folder.path(of: "copy"))
        let header = try Data(contentsOf: URL(fileURLWithPath: folder.path(of: "copy"))).prefix(20)
        // In the file format, these bytes mean that the file is not in WAL mode.
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

    @Test("A copy is complete or does not exist, also when several are made at once, and no other file is replaced")
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

    @Test("A leftover log beside the target of a copy is refused")
    func logOfAnother() async throws {
        let store = try await fill(3)
        let target = folder.path(of: "copy")
        try FileManager.default.copyItem(atPath: path + "-wal", toPath: target + "-wal")
        let error = await expectKind(.unsupported) { try await store.backup(to: target) }
        #expect(error?.message.contains("copy-wal: the file already exists") == true)
        await expectKind(.unsupported) { try await store.recover(to: target) }
        #expect(!FileManager.default.fileExists(atPath: target))
    }

    @Test("A store that a later version changed while it was open is not written to")
    func migratedMeanwhile() async throws {
        let store = try await fill(1)
        try ForeignConnection(path: path).execute("PRAGMA user_version = 3")
        let key = try EntryKey("k/0")
        await expectKind(.newerFormat) { try await store.write([7], to: key, if: .any) }
        try ForeignConnection(path: path).execute("PRAGMA user_version = 2")
        guard case .found(let entry) = try await store.read(key).outcome else {
            Issue.record("the entry is missing")
            return
        }
        #expect(entry.value == [0])
        _ = try await store.write([7], to: key, if: .matches(entry.version))
    }

    @Test("The report of a recovery counts every key that was lost")
    func counted() async throws {
        let store = try await fill(400)
        try await store.backup(to: folder.path(of: "copy"))
        var bytes = try Data(contentsOf: URL(fileURLWithPath: folder.path(of: "copy")))
        // Damages most pages of the table and the index, but few of the changes.
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

    @Test("A file that never was a store is not recovered")
    func nothingFound() async throws {
        try Data(repeating: 65, count: 20_000).write(to: URL(fileURLWithPath: path))
        let target = folder.path(of: "recovered")
        await expectKind(.notAStore) { try await SQLiteBackend(path: path).recover(to: target) }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["store.sqlite"])
    }

    @Test("Damage of one entry does not affect others: they are listed, read and followed")
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

    @Test("A folder that is created, or created again, after the subscription sends signals")
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
