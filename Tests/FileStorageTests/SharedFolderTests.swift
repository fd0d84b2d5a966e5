import FileStorage
import Foundation
import SyncCore
import TestSupport
import Testing

@Suite("A folder that a file-sync tool shares")
struct SharedFolderTests {
    private let folder: TemporaryFolder
    private let store: FileBackend
    private let key: EntryKey

    init() throws {
        folder = try TemporaryFolder()
        store = FileBackend(folder: folder.path(of: "shared"), sharing: .fileSyncTool)
        key = try EntryKey("a/ledger/phone")
    }

    private func path(_ name: String) -> String { folder.path(of: "shared/a/ledger/\(name)") }

    private func put(_ bytes: [UInt8], at name: String) throws {
        try Data(bytes).write(to: URL(fileURLWithPath: path(name)))
    }

    private func bytes(of name: String) throws -> [UInt8] {
        Array(try Data(contentsOf: URL(fileURLWithPath: path(name))))
    }

    private func names() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path(of: "shared/a/ledger")).sorted()
    }

    private func listed() async throws -> [String] {
        try await store.list(prefix: "a/ledger/", after: nil, limit: 100).outcome.items.map(\.key.text)
    }

    private func value(of text: String) async throws -> [UInt8]? {
        if case .found(let entry) = try await store.read(EntryKey(text)).outcome { entry.value } else { nil }
    }

    @Test("The store passes the conformance checks of a store without compare-and-swap")
    func conformance() async {
        let folder = folder
        await expectConformance(of: "shared folder") {
            FileBackend(folder: try folder.freshFolder(), sharing: .fileSyncTool, maximumValueByteCount: 1 << 21)
        }
    }

    @Test("The folder contains only entries: no marker, no lock, no temporary files")
    func layout() async throws {
        _ = try await store.write([1], to: key, if: .any)
        _ = try await store.write([2], to: key, if: .any)
        let all = try FileManager.default.subpathsOfDirectory(atPath: folder.path(of: "shared")).sorted()
        #expect(all == ["a", "a/ledger", "a/ledger/phone.entry"])
        #expect(store.label == "folder:\(folder.path(of: "shared"))")
    }

    /// The names that tools give to a conflict copy of `phone.entry`, as documented by their makers.
    private static let copies = [
        "phone (Alice's conflicted copy 2026-01-01).entry", "phone (conflicted copy 2026-01-01 120000).entry",
        "phone.sync-conflict-20260101-120000-ABCDEFG.entry", "phone 2.entry", "phone (1).entry",
        "phone-LAPTOP.entry", "phone-laptop.entry", "phone (SFConflict alice 2026-01-01-12-00-00).entry",
        "phone.entry.conflict1", "phone.entry..path1", "Phone.entry", "phone (Fall von Jürgen).entry",
    ]

    @Test("Conflict copies are listed and read, and never written or deleted", arguments: copies)
    func conflictCopies(name: String) async throws {
        _ = try await store.write([1], to: key, if: .any)
        let copy = try bytes(of: "phone.entry")
        _ = try await store.write([2], to: key, if: .any)
        try put(copy, at: name)
        let other = try #require(try await listed().first { $0 != key.text })
        #expect(try await listed().count == 2)
        #expect(try await value(of: other) == [1])
        #expect(try await value(of: key.text) == [2])
        // A name that could belong to an entry may be written by its replica.
        guard name != "phone-laptop.entry" else { return }
        await expectKind(.unsupported) { try await store.write([3], to: EntryKey(other), if: .any) }
        await expectKind(.unsupported) { try await store.delete(EntryKey(other), if: .any) }
        #expect(try bytes(of: name) == copy)
    }

    @Test(
        "Temporary files and files of other programs are ignored",
        arguments: [
            ".syncthing.phone.entry.tmp", "~syncthing~phone.entry.tmp", ".phone.entry.a1B2c3", "phone.entry.part",
            "phone.entry.12ab.partial", "~pending.tmp", ".DS_Store", "desktop.ini", ".stfolder", "notes.txt",
            "phone.entry.crdownload",
        ])
    func ignored(name: String) async throws {
        _ = try await store.write([1], to: key, if: .any)
        try put([9], at: name)
        #expect(try await listed() == [key.text])
        _ = try await store.write([2], to: key, if: .any)
        #expect(try await value(of: key.text) == [2])
        #expect(try names().contains(name) == (name != "~pending.tmp"), "only the own temporary file is removed")
    }

    @Test("Half-copied and damaged files are listed, reading them throws, and other entries are not affected")
    func halfCopied() async throws {
        _ = try await store.write([UInt8](repeating: 1, count: 100), to: key, if: .any)
        let whole = try bytes(of: "phone.entry")
        _ = try await store.write([2], to: EntryKey("a/ledger/tablet"), if: .any)
        for count in [0, 1, 39, 60, whole.count - 1] {
            try put(Array(whole[..<count]), at: "laptop (1).entry")
            try put(Array(whole[..<count]), at: "phone.entry")
            #expect(try await listed() == ["a/ledger/laptop (1).entry", key.text, "a/ledger/tablet"])
            await expectKind(.damaged) { try await store.read(key) }
            await expectKind(.damaged) { try await store.read(EntryKey("a/ledger/laptop (1).entry")) }
            #expect(try await value(of: "a/ledger/tablet") == [2])
        }
        try put(whole, at: "phone.entry")
        #expect(try await value(of: key.text)?.count == 100)
    }

    @Test("An entry that iCloud Drive has not downloaded is unavailable until it is, and no write replaces it")
    func notDownloaded() async throws {
        let tablet = try EntryKey("a/ledger/tablet")
        _ = try await store.write([1], to: key, if: .any)
        _ = try await store.write([2], to: tablet, if: .any)
        let whole = try bytes(of: "tablet.entry")
        try FileManager.default.removeItem(atPath: path("tablet.entry"))
        try put(Array("bplist00".utf8), at: ".tablet.entry.icloud")
        #expect(try await listed() == ["a/ledger/.tablet.entry.icloud", key.text])
        let placeholder = try EntryKey("a/ledger/.tablet.entry.icloud")
        for missing in [tablet, placeholder] {
            let error = await expectKind(.unavailable) { try await store.read(missing) }
            #expect(error?.disposition == .transient)
            #expect(error?.message.contains("iCloud Drive has not downloaded this file yet; download it") == true)
        }
        await expectKind(.unavailable) { try await store.write([3], to: tablet, if: .any) }
        await expectKind(.unavailable) { try await store.delete(tablet, if: .any) }
        #expect(!FileManager.default.fileExists(atPath: path("tablet.entry")))
        #expect(try await value(of: key.text) == [1])
        try FileManager.default.removeItem(atPath: path(".tablet.entry.icloud"))
        try put(whole, at: "tablet.entry")
        #expect(try await value(of: tablet.text) == [2])
        _ = try await store.write([3], to: tablet, if: .any)
        #expect(try await value(of: tablet.text) == [3])
    }

    @Test("An entry or marker of a store with locks that iCloud Drive has not downloaded is unavailable")
    func lockedStoreNotDownloaded() async throws {
        let root = folder.path(of: "locked")
        let locked = FileBackend(folder: root)
        let other = try EntryKey("a/ledger/tablet")
        for name in [key, other] { _ = try await locked.write([1], to: name, if: .absent) }
        func move(_ name: String, to target: String) throws {
            try FileManager.default.moveItem(atPath: "\(root)/\(name)", toPath: "\(root)/\(target)")
        }
        try move("a/ledger/tablet.entry", to: "a/ledger/.tablet.entry.icloud")
        await expectKind(.unavailable) { try await locked.read(other) }
        await expectKind(.unavailable) { try await locked.write([2], to: other, if: .absent) }
        await expectKind(.unavailable) { try await locked.list(prefix: "", after: nil, limit: 10) }
        try move("a/ledger/.tablet.entry.icloud", to: "a/ledger/tablet.entry")
        #expect(try await locked.list(prefix: "", after: nil, limit: 10).outcome.items.map(\.key) == [key, other])
        try move("store.format", to: ".store.format.icloud")
        await expectKind(.unavailable) { try await FileBackend(folder: root).read(key) }
        await expectKind(.unavailable) { try await FileBackend(folder: root).write([2], to: key, if: .any) }
    }

    @Test("An object that is not a regular file is listed as damaged, and is not waited for")
    func oddFiles() async throws {
        _ = try await store.write([1], to: key, if: .any)
        #expect(mkfifo(path("pipe.entry"), 0o600) == 0)
        try FileManager.default.createSymbolicLink(
            atPath: path("link.entry"), withDestinationPath: path("phone.entry"))
        try FileManager.default.createDirectory(atPath: path("folder.entry"), withIntermediateDirectories: false)
        #expect(try await listed().count == 4)
        for name in ["pipe", "link", "folder"] {
            await expectKind(.notAStore) { try await store.read(EntryKey("a/ledger/\(name)")) }
        }
    }

    @Test("An entry of another folder is not accepted, so one account cannot read the purchases of another")
    func otherAccount() async throws {
        _ = try await store.write([1], to: EntryKey("b/ledger/phone"), if: .any)
        _ = try await store.write([2], to: key, if: .any)
        let foreign = Array(try Data(contentsOf: URL(fileURLWithPath: folder.path(of: "shared/b/ledger/phone.entry"))))
        for name in ["phone.entry", "phone (1).entry"] {
            try put(foreign, at: name)
            let key = try EntryKey("a/ledger/" + (name == "phone.entry" ? "phone" : name))
            let error = await expectKind(.damaged) { try await store.read(key) }
            #expect(error?.message.contains("entry of another key") == true)
        }
    }

    @Test("A shared folder and a store with locks refuse each other's folders")
    func twoForms() async throws {
        let locked = FileBackend(folder: folder.path(of: "locked"))
        _ = try await locked.write([1], to: key, if: .absent)
        let wrong = FileBackend(folder: folder.path(of: "locked"), sharing: .fileSyncTool)
        await expectKind(.notAStore) { try await wrong.list(prefix: "", after: nil, limit: 1) }
        await expectKind(.notAStore) { try await wrong.write([2], to: key, if: .any) }
        _ = try await store.write([1], to: key, if: .any)
        let other = FileBackend(folder: folder.path(of: "shared"))
        let error = await expectKind(.damaged) { try await other.write([2], to: key, if: .any) }
        #expect(error?.message.contains("folder:DIR") == true)
        // It is refused even if its marker is lost.
        try FileManager.default.removeItem(atPath: folder.path(of: "locked/store.format"))
        await expectKind(.notAStore) { try await wrong.write([2], to: key, if: .any) }
        let lost = FileBackend(folder: folder.path(of: "locked"))
        let reported = await expectKind(.damaged) { try await lost.read(key) }
        #expect(reported?.message.contains("folder:DIR") == false)
    }

    @Test("The folder may be reached through a symbolic link")
    func linkedRoot() async throws {
        _ = try await store.write([1], to: key, if: .any)
        try FileManager.default.createSymbolicLink(
            atPath: folder.path(of: "link"), withDestinationPath: folder.path(of: "shared"))
        let linked = FileBackend(folder: folder.path(of: "link"), sharing: .fileSyncTool)
        _ = try await linked.write([2], to: key, if: .any)
        #expect(try await value(of: key.text) == [2])
    }
}
