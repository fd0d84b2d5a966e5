import FileStorage
import Foundation
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Permissions of the files of a file store")
struct AccessTests {
    private let folder: TemporaryFolder
    private let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path(of: "new/store")
    }

    /// Writes entries, deletes one, requests changes, and returns the modes of everything in the folder.
    private func modes(_ store: FileBackend) async throws -> [String: Int] {
        for name in ["a/b/ledger", "a/c"] { _ = try await store.write([1], to: EntryKey(name), if: .absent) }
        _ = try await store.delete(EntryKey("a/c"), if: .any)
        _ = try await store.changes(since: nil, limit: 10)
        var modes: [String: Int] = [:]
        for name in try FileManager.default.subpathsOfDirectory(atPath: folder.path) {
            modes[name] = try mode(of: folder.path(of: name))
        }
        return modes
    }

    private func mode(of path: String) throws -> Int? {
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        return (attributes[.posixPermissions] as? NSNumber)?.intValue
    }

    @Test("Files and folders are private to the owner: other users cannot read names or hold the lock")
    func owner() async throws {
        let modes = try await modes(FileBackend(folder: path))
        #expect(
            modes == [
                "new": 0o700, "new/store": 0o700, "new/store/a": 0o700, "new/store/a/b": 0o700,
                "new/store/store.format": 0o600, "new/store/store.lock": 0o600, "new/store/store.changes": 0o600,
                "new/store/a/b/ledger.entry": 0o600,
            ])
    }

    @Test("Files and folders are private to the owner in a folder that a tool shares, too")
    func toolShared() async throws {
        let store = FileBackend(folder: path, sharing: .fileSyncTool)
        _ = try await store.write([1], to: EntryKey("a/k"), if: .any)
        for name in ["new/store", "new/store/a"] { #expect(try mode(of: folder.path(of: name)) == 0o700) }
        #expect(try mode(of: folder.path(of: "new/store/a/k.entry")) == 0o600)
    }

    @Test("With group access, files and folders are shared with the group, regardless of the umask")
    func group() async throws {
        let modes = try await modes(FileBackend(folder: path, access: .group))
        for (name, mode) in modes { #expect(mode & 0o777 == (name.contains(".") ? 0o660 : 0o770), "\(name)") }
        #expect(modes["new/store/a"].map { $0 & 0o2000 } == 0o2000, "new files get the folder's group")
    }

    @Test("An existing store keeps its modes, and new files in it are private to the owner")
    func existing() async throws {
        let store = FileBackend(folder: path)
        _ = try await store.write([1], to: EntryKey("k"), if: .any)
        for (name, mode) in [("", 0o755), ("/store.lock", 0o644), ("/store.changes", 0o644), ("/k.entry", 0o640)] {
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path + name)
        }
        _ = try await FileBackend(folder: path).write([2], to: EntryKey("k"), if: .any)
        #expect(try mode(of: path) == 0o755)
        #expect(try mode(of: path + "/store.lock") == 0o644)
        #expect(try mode(of: path + "/k.entry") == 0o600)
        guard case .found(let entry) = try await store.read(EntryKey("k")).outcome else {
            Issue.record("the entry is missing")
            return
        }
        #expect(entry.value == [2])
    }
}
