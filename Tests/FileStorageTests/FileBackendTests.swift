import FileStorage
import Foundation
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("The file store")
struct FileBackendTests {
    private let folder: TemporaryFolder
    private let store: FileBackend

    init() throws {
        folder = try TemporaryFolder()
        store = FileBackend(folder: folder.path(of: "store"))
    }

    private func contents() throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: folder.path).sorted()
    }

    @Test("The store passes the conformance checks")
    func conformance() async {
        let folder = folder
        let seed = printedSeed("failing file system")
        await expectConformance(of: "file") {
            try await .inFolder(
                try folder.freshFolder(),
                failing: { FileBackend(folder: $0, fileSystem: FailingFileSystem(.seeded(seed, rate: 0.05))) },
                open: { FileBackend(folder: $0, maximumValueByteCount: 1 << 21) })
        }
    }

    @Test("The store passes the conformance checks behind retries over a faulty connection")
    func conformanceBehindRetries() async {
        let folder = folder
        let seed = printedSeed("retry over faulty file store")
        await expectConformance(of: "retry over faulty file") {
            FaultyBackend(
                FileBackend(folder: try folder.freshFolder()),
                plan: .seeded(seed, rate: 0.2, faults: [.transient])
            ).retrying(RetryPolicy(maximumAttempts: 40), host: ManualHost(seed: seed).host)
        }
    }

    @Test("Nothing is created before the first write")
    func untouched() async throws {
        let key = try EntryKey("a/b")
        #expect(try await store.read(key).outcome == .absent)
        #expect(try await store.list(prefix: "", after: nil, limit: 1).outcome.items.isEmpty)
        #expect(try await store.delete(key, if: .any).outcome == .deleted)
        #expect(try contents() == [])
    }

    #if os(Linux)
    @Test("A folder that cannot be created is a permanent error")
    func impossibleFolder() async throws {
        let key = try EntryKey("k")
        for path in ["/proc/entitlements", "/proc/entitlements/store"] {
            let error = await expectKind(.notAStore) {
                try await FileBackend(folder: path).write([1], to: key, if: .absent)
            }
            #expect(error?.disposition == .permanent)
            #expect(error?.message == "/proc/entitlements: no folder can be created there; choose another place")
        }
    }
    #endif

    @Test("A closed store can be opened by another process: a marker, a lock, a log and one file for each key")
    func reopening() async throws {
        let key = try EntryKey("accounts/Ä/ledger")
        let written = try await store.write([1, 2], to: key, if: .absent).outcome
        let entry = try await FileBackend(folder: folder.path(of: "store/")).read(key).outcome
        guard case .written(let version) = written else {
            Issue.record("\(written)")
            return
        }
        #expect(entry == .found(Entry(value: [1, 2], version: version)))
        #expect(
            try contents() == [
                "store", "store/accounts", "store/accounts/%c3%84", "store/accounts/%c3%84/ledger.entry",
                "store/store.changes", "store/store.format", "store/store.lock",
            ])
        let marker = try String(contentsOfFile: folder.path(of: "store/store.format"), encoding: .utf8)
        #expect(marker == "EntitlementSync file store 1\n")
    }

    @Test("Missing parents of the folder are created")
    func parents() async throws {
        let deep = FileBackend(folder: folder.path(of: "x/y/z"))
        _ = try await deep.write([1], to: EntryKey("k"), if: .absent)
        #expect(try await FileBackend(folder: folder.path(of: "x/y/z")).read(EntryKey("k")).outcome != .absent)
    }

    @Test("The longest keys can be used in a folder whose path is longer than PATH_MAX")
    func longPaths() async throws {
        let root = folder.path(
            of: Array(repeating: String(repeating: "r", count: 200), count: 12).joined(separator: "/"))
        let deep = FileBackend(folder: root)
        for unit in ["🦉", "/", "x"] {
            let key = try EntryKey(String(repeating: unit, count: 1_024 / unit.utf8.count))
            _ = try await deep.write([1], to: key, if: .absent)
            guard case .found = try await deep.read(key).outcome else {
                Issue.record("\(unit) is missing")
                return
            }
        }
        let listed = try await deep.list(prefix: "", after: nil, limit: 10).outcome.items.count
        #expect(listed == 3)
    }

    @Test("A folder with other files is refused and left unchanged")
    func foreignFolder() async throws {
        try FileManager.default.createDirectory(atPath: folder.path(of: "store"), withIntermediateDirectories: true)
        try Data([1]).write(to: URL(fileURLWithPath: folder.path(of: "store/thesis.txt")))
        await expectKind(.notAStore) { try await store.write([1], to: EntryKey("k"), if: .any) }
        await expectKind(.notAStore) { try await store.read(EntryKey("k")) }
        await expectKind(.notAStore) { try await store.list(prefix: "", after: nil, limit: 1) }
        #expect(try contents() == ["store", "store/thesis.txt"])
    }

    @Test("A store of a newer format, and a foreign marker, are refused", arguments: ["3", "99"])
    func newerStore(format: String) async throws {
        try FileManager.default.createDirectory(atPath: folder.path(of: "store"), withIntermediateDirectories: true)
        let marker = URL(fileURLWithPath: folder.path(of: "store/store.format"))
        try Data("EntitlementSync file store \(format)\nmore\n".utf8).write(to: marker)
        await expectKind(.newerFormat) { try await store.write([1], to: EntryKey("k"), if: .any) }
        await expectKind(.newerFormat) { try await store.read(EntryKey("k")) }
        try Data("Something else \(format)\n".utf8).write(to: marker)
        await expectKind(.notAStore) { try await store.write([1], to: EntryKey("k"), if: .any) }
        #expect(try contents().filter { $0.hasSuffix(".entry") } == [])
    }

    @Test("A file in place of the store's folder, or of a folder of keys, is refused")
    func fileInTheWay() async throws {
        try Data([1]).write(to: URL(fileURLWithPath: folder.path(of: "file")))
        for path in ["file", "file/below"] {
            let store = FileBackend(folder: folder.path(of: path))
            await expectKind(.notAStore) { try await store.write([1], to: EntryKey("k"), if: .any) }
            await expectKind(.notAStore) { try await store.read(EntryKey("k")) }
        }
        _ = try await store.write([1], to: EntryKey("other"), if: .any)
        try Data([1]).write(to: URL(fileURLWithPath: folder.path(of: "store/a")))
        await expectKind(.notAStore) { try await store.write([1], to: EntryKey("a/b"), if: .any) }
        await expectKind(.notAStore) { try await store.read(EntryKey("a/b")) }
    }

    @Test("An error in creating the folder gives advice in one line")
    func unwritable() async throws {
        // Even root cannot create folders there.
        let store = FileBackend(folder: "/proc/self/entitlements")
        let error = await expectKind(nil) { try await store.write([1], to: EntryKey("k"), if: .any) }
        let text = error.map { "\($0)" } ?? ""
        #expect(text.contains("/proc/self/entitlements") && !text.contains("\n"))
        #expect(error?.disposition != .outcomeUnknown && error?.operation == .write)
    }

    @Test("Temporary files of a killed writer are ignored, and removed by the next write")
    func leftovers() async throws {
        _ = try await store.write([1], to: EntryKey("a/k"), if: .any)
        let pending = folder.path(of: "store/a/.pending.tmp")
        try Data([9, 9]).write(to: URL(fileURLWithPath: pending))
        #expect(try await store.list(prefix: "", after: nil, limit: 10).outcome.items.count == 1)
        // A write to another folder finds it by the record in the lock file.
        _ = try await store.write([2], to: EntryKey("b/k"), if: .any)
        #expect(!FileManager.default.fileExists(atPath: pending))
        try Data([9, 9]).write(to: URL(fileURLWithPath: pending))
        _ = try await store.write([3], to: EntryKey("a/k"), if: .any)
        #expect(!FileManager.default.fileExists(atPath: pending))
        #expect(try await value(of: "a/k") == [3])
    }

    @Test("A record that leads out of the store is ignored")
    func forgedNote() async throws {
        _ = try await store.write([1], to: EntryKey("k"), if: .any)
        let outside = folder.path(of: ".pending.tmp")
        try Data([7]).write(to: URL(fileURLWithPath: outside))
        try Data("..\n".utf8).write(to: URL(fileURLWithPath: folder.path(of: "store/store.lock")))
        _ = try await store.write([2], to: EntryKey("a/k"), if: .any)
        #expect(FileManager.default.fileExists(atPath: outside))
    }

    @Test("A store whose folder was removed is created again")
    func removedFolder() async throws {
        _ = try await store.write([1], to: EntryKey("a/k"), if: .any)
        try FileManager.default.removeItem(atPath: folder.path(of: "store"))
        #expect(try await store.read(EntryKey("a/k")).outcome == .absent)
        _ = try await store.write([2], to: EntryKey("a/k"), if: .absent)
        #expect(try await FileBackend(folder: folder.path(of: "store")).read(EntryKey("a/k")).outcome != .absent)
    }

    private func value(of key: String) async throws -> [UInt8]? {
        if case .found(let entry) = try await store.read(EntryKey(key)).outcome { entry.value } else { nil }
    }
}
