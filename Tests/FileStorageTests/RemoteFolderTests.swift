import Checksums
import FileStorage
import Foundation
import SyncCore
import TestSupport
import Testing

@Suite("A folder as a remote")
struct RemoteFolderTests {
    private let folder: TemporaryFolder
    private let key: EntryKey

    init() throws {
        folder = try TemporaryFolder()
        key = try EntryKey("a/k")
    }

    private func path(_ name: String) -> String { folder.path(of: name) }

    private func expectMissing(_ store: any KeyValueBackend, _ words: String) async {
        let calls: [() async throws -> Void] = [
            { _ = try await store.read(key) }, { _ = try await store.list(prefix: "", after: nil, limit: 1) },
            { _ = try await store.write([1], to: key, if: .any) }, { _ = try await store.delete(key, if: .any) },
        ]
        for call in calls {
            let error = await expectKind(.missing) { try await call() }
            #expect(error?.disposition == .transient && error?.message.contains(words) == true)
        }
    }

    @Test("A missing folder is an error and is not created", arguments: [FileBackend.Sharing.locks, .fileSyncTool])
    func missing(sharing: FileBackend.Sharing) async throws {
        let store = FileBackend(folder: path("deep/remote"), sharing: sharing)
        await expectMissing(store.requiringExisting, "the folder does not exist; mount it")
        await expectMissing(
            store.retrying(RetryPolicy(maximumAttempts: 1)).requiringExisting, "the folder does not exist")
        await expectMissing(FileBackend(folder: path("deep/remote"), sharing: sharing, creating: .never), "not exist")
        #expect(!FileManager.default.fileExists(atPath: path("deep")))
    }

    @Test("An empty folder, such as a mount point without its share, is not a store without purchases")
    func empty() async throws {
        try FileManager.default.createDirectory(atPath: path("mnt"), withIntermediateDirectories: false)
        await expectMissing(FileBackend(folder: path("mnt")).requiringExisting, "the folder is empty; mount it")
        #expect(try FileManager.default.contentsOfDirectory(atPath: path("mnt")) == [])
        // A tool's folder has no marker; it is a store because the folder exists.
        let shared = FileBackend(folder: path("mnt"), sharing: .fileSyncTool).requiringExisting
        #expect(try await shared.read(key).outcome == .absent)
        _ = try await shared.write([1], to: key, if: .any)
    }

    @Test(
        "A folder that disappears while in use is missing, not empty",
        arguments: [FileBackend.Sharing.locks, .fileSyncTool])
    func goesAway(sharing: FileBackend.Sharing) async throws {
        let maker = FileBackend(folder: path("remote"), sharing: sharing, creating: .whenNeeded)
        _ = try await maker.requiringExisting.write([1], to: key, if: .any)
        let remote = FileBackend(folder: path("remote"), sharing: sharing).requiringExisting
        guard case .found = try await remote.read(key).outcome else {
            Issue.record("missing")
            return
        }
        try FileManager.default.moveItem(atPath: path("remote"), toPath: path("away"))
        await expectMissing(remote, "the folder does not exist")
        try FileManager.default.moveItem(atPath: path("away"), toPath: path("remote"))
        _ = try await remote.write([2], to: key, if: .any)
    }

    @Test("A missing folder is created if permitted, and by default for a device's local store")
    func made() async throws {
        let created = FileBackend(folder: path("x/y"), creating: .whenNeeded)
        _ = try await created.requiringExisting.write([1], to: key, if: .absent)
        _ = try await FileBackend(folder: path("own")).write([1], to: key, if: .absent)
        #expect(try await FileBackend(folder: path("own")).requiringExisting.read(key).outcome != .absent)
    }
}

@Suite("Unexpected objects in place of the file store's files")
struct OddFileTests {
    private let folder: TemporaryFolder
    private let store: FileBackend
    private let key: EntryKey

    init() throws {
        folder = try TemporaryFolder()
        store = FileBackend(folder: folder.path(of: "store"))
        key = try EntryKey("k")
    }

    private func path(_ name: String) -> String { folder.path(of: "store/\(name)") }

    private func make(_ kind: String, at name: String) throws {
        try? FileManager.default.removeItem(atPath: path(name))
        try FileManager.default.createDirectory(
            atPath: folder.path(of: "store"), withIntermediateDirectories: true)
        switch kind {
        case "pipe": #expect(mkfifo(path(name), 0o600) == 0)
        case "dangling link":
            try FileManager.default.createSymbolicLink(atPath: path(name), withDestinationPath: "/nowhere/at/all")
        case "link":
            let target = folder.path(of: "target")
            try Data("EntitlementSync file store 1\n".utf8).write(to: URL(fileURLWithPath: target))
            try FileManager.default.createSymbolicLink(atPath: path(name), withDestinationPath: target)
        default: try FileManager.default.createDirectory(atPath: path(name), withIntermediateDirectories: false)
        }
    }

    @Test("An unexpected object is an error at once", arguments: ["pipe", "dangling link", "link", "folder"])
    func marker(kind: String) async throws {
        try make(kind, at: "store.format")
        await expectKind(.notAStore) { try await store.read(key) }
        await expectKind(.notAStore) { try await store.list(prefix: "", after: nil, limit: 1) }
        await expectKind(.notAStore) { try await store.write([1], to: key, if: .any) }
    }

    @Test(
        "An unexpected object in place of an entry or of the lock is an error too",
        arguments: ["pipe", "dangling link", "link", "folder"])
    func entryAndLock(kind: String) async throws {
        _ = try await store.write([1], to: key, if: .absent)
        try make(kind, at: "k.entry")
        let error = await expectKind(.notAStore) { try await store.read(key) }
        #expect(error?.message.hasPrefix(path("k.entry")) == true)
        await expectKind(.notAStore) { try await store.write([2], to: key, if: .absent) }
        try make(kind, at: "store.lock")
        await expectKind(.notAStore) { try await store.write([2], to: EntryKey("other"), if: .any) }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path(of: "store")).count == 4)
    }

    @Test("A length beyond all limits is damage, and no memory is allocated for it")
    func hugeLengths() async throws {
        _ = try await store.write([1], to: key, if: .absent)
        let whole = Array(try Data(contentsOf: URL(fileURLWithPath: path("k.entry"))))
        for field in [12..<16, 16..<24] {
            for byte in [0x7F, 0x80, 0xFF] as [UInt8] {
                var bytes = whole
                for offset in field { bytes[offset] = offset == field.lowerBound ? byte : 0xFF }
                #expect(throws: EntryFile.Problem.self) { try EntryFile.header(of: bytes) }
                try Data(bytes).write(to: URL(fileURLWithPath: path("k.entry")))
                await expectKind(.damaged) { try await store.read(key) }
            }
        }
    }

    @Test("A value longer than the limit is damage even if the checksum is valid")
    func boundedLength() throws {
        // The header of an entry with a value of 1 GiB and one byte.
        let entry = Entry(value: [], version: EntryVersion(bytes: Array(0..<16)))
        var bytes = EntryFile.encode(entry, key: key)
        bytes.replaceSubrange(16..<24, with: [0, 0, 0, 0, 0x40, 0, 0, 1])
        let sum = withUnsafeBytes(of: XXHash64.digest(of: bytes[..<41]).bigEndian) { Array($0) }
        bytes.replaceSubrange(41..<49, with: sum)
        let problem = #expect(throws: EntryFile.Problem.self) { try EntryFile.header(of: bytes) }
        #expect(problem == .damaged("byte 16: the header has an invalid key or length"))
    }
}
