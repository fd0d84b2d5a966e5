import FileStorage
import Foundation
import SyncCore
import TestSupport
import Testing

@Suite("A symbolic link in place of a folder of keys")
struct LinkedFolderTests {
    private let folder: TemporaryFolder
    private let key: EntryKey

    init() throws {
        folder = try TemporaryFolder()
        key = try EntryKey("a/b/k")
    }

    private func store() -> FileBackend { FileBackend(folder: folder.path(of: "store")) }

    @Test("A link is not followed: reading, listing, writing and deleting report it and change nothing")
    func refused() async throws {
        _ = try await store().write([1], to: key, if: .absent)
        for path in ["a", "a/b"] {
            let place = folder.path(of: "store/\(path)")
            let elsewhere = folder.path(of: "elsewhere")
            try FileManager.default.moveItem(atPath: place, toPath: elsewhere)
            try FileManager.default.createSymbolicLink(atPath: place, withDestinationPath: elsewhere)
            let before = try FileManager.default.subpathsOfDirectory(atPath: elsewhere)
            let errors = [
                await expectKind(.notAStore) { try await store().read(key) },
                await expectKind(.notAStore) { try await store().list(prefix: "a/", after: nil, limit: 10) },
                await expectKind(.notAStore) { try await store().write([2], to: key, if: .any) },
                await expectKind(.notAStore) { try await store().write([2], to: key, if: .absent) },
                await expectKind(.notAStore) { try await store().write([2], to: EntryKey("a/b/new"), if: .any) },
                await expectKind(.notAStore) { try await store().delete(key, if: .any) },
            ]
            for error in errors { #expect(error?.message.hasPrefix(place) == true) }
            #expect(try FileManager.default.subpathsOfDirectory(atPath: elsewhere) == before)
            try FileManager.default.removeItem(atPath: place)
            try FileManager.default.moveItem(atPath: elsewhere, toPath: place)
        }
        guard case .found(let entry) = try await store().read(key).outcome else {
            Issue.record("missing")
            return
        }
        #expect(entry.value == [1])
    }

    @Test("Each folder is examined once, so even a key with a thousand slashes does not slow a listing down")
    func deepKey() async throws {
        let deepest = try EntryKey(String(repeating: "/", count: 1_024))
        _ = try await store().write([1], to: deepest, if: .absent)
        let fileSystem = FailingFileSystem(.none)
        let fresh = FileBackend(folder: folder.path(of: "store"), fileSystem: fileSystem)
        for _ in 0..<2 {
            let page = try await fresh.list(prefix: "", after: nil, limit: 7)
            #expect(page.outcome.items.map(\.key) == [deepest])
        }
        let openings = fileSystem.calls.count { $0 == "open" }
        #expect((1_024..<1_100).contains(openings), "\(openings) files and folders were opened")
    }

    @Test("A link to the store's own folder is followed")
    func linkedRoot() async throws {
        _ = try await store().write([1], to: key, if: .absent)
        try FileManager.default.createSymbolicLink(
            atPath: folder.path(of: "link"), withDestinationPath: folder.path(of: "store"))
        let linked = FileBackend(folder: folder.path(of: "link"))
        _ = try await linked.write([2], to: key, if: .any)
        #expect(try await linked.changes(since: nil, limit: 10).outcome.changes.map(\.key) == [key])
    }
}
