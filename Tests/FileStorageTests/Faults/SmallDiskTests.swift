import FileStorage
import Foundation
import SyncCore
import TestSupport
import Testing

/// Requires the permission to mount a file system. Otherwise the tests are skipped with a message.
@Suite("The file store on a disk of 256 KB", .enabled(if: SmallDisk.isPossible, "a tmpfs cannot be mounted here"))
struct SmallDiskTests {
    private let disk: SmallDisk
    private let store: FileBackend

    init() throws {
        disk = try SmallDisk(kilobytes: 256)
        store = FileBackend(folder: disk.path(of: "store"))
    }

    private func key(_ number: Int) throws(BackendError) -> EntryKey {
        try EntryKey("accounts/\(number % 4)/\(number)")
    }

    /// Writes entries until no space is left; returns the number of acknowledged ones.
    private func fill() async throws -> Int {
        for number in 0..<1_000 {
            do throws(BackendError) {
                _ = try await store.write(
                    [UInt8](repeating: UInt8(number % 250), count: 3_000), to: key(number), if: .absent)
            } catch {
                #expect(error.kind == .full && error.disposition == .permanent)
                #expect(error.message.contains("no space is left; free some") && error.key == (try? key(number)))
                return number
            }
        }
        return 1_000
    }

    private func expectAll(_ numbers: Range<Int>) async throws {
        let other = FileBackend(folder: disk.path(of: "store"))
        for number in numbers {
            guard case .found(let entry) = try await other.read(key(number)).outcome else {
                Issue.record("\(number) was acknowledged and is missing")
                return
            }
            #expect(entry.value == [UInt8](repeating: UInt8(number % 250), count: 3_000))
        }
        let keys = try numbers.map { try key($0) }.sorted()
        #expect(try await other.list(prefix: "", after: nil, limit: 1_000).outcome.items.map(\.key) == keys)
    }

    @Test("On a full disk, writes fail, acknowledged entries stay, deletions succeed, and writing resumes")
    func full() async throws {
        let count = try await fill()
        #expect((20..<100).contains(count))
        try await expectAll(0..<count)
        try disk.fill()
        await expectKind(.full) { try await store.write([UInt8](repeating: 1, count: 5_000), to: key(0), if: .any) }
        try await expectAll(0..<count)
        // A deletion must succeed even without a free byte.
        for number in (count / 2)..<count { #expect(try await store.delete(key(number), if: .any).outcome == .deleted) }
        try await expectAll(0..<(count / 2))
        try disk.empty()
        let again = try await FileBackend(folder: disk.path(of: "store")).write([1], to: EntryKey("again"), if: .absent)
        guard case .written(let version) = again.outcome else {
            Issue.record("\(again)")
            return
        }
        let changes = try await store.changes(since: nil, limit: 1_000).outcome.changes
        #expect(changes.filter { $0.version != nil }.count == count / 2 + 1)
        #expect(changes.contains { $0.version == version })
        let left = try FileManager.default.subpathsOfDirectory(atPath: disk.path(of: "store"))
        #expect(!left.contains { $0.hasSuffix(".tmp") })
    }

    @Test("A read-only store can be read, and changes are refused with a reason")
    func readOnly() async throws {
        _ = try await store.write([7], to: key(1), if: .absent)
        let cursor = try await store.changes(since: nil, limit: 10).outcome.cursor
        try disk.makeReadOnly()
        for store in [store, FileBackend(folder: disk.path(of: "store"))] {
            guard case .found(let entry) = try await store.read(key(1)).outcome else {
                Issue.record("missing")
                return
            }
            #expect(entry.value == [7])
            #expect(try await store.list(prefix: "", after: nil, limit: 10).outcome.items.count == 1)
            for error in [
                await expectKind(.permissionDenied) { try await store.write([8], to: key(1), if: .any) },
                await expectKind(.permissionDenied) { try await store.delete(key(1), if: .any) },
            ] {
                #expect(error?.disposition == .permanent && error?.message.contains("mount it for writing") == true)
            }
        }
        // An earlier reader can continue. The first request of a process would have to repair the log.
        #expect(try await store.changes(since: cursor, limit: 10).outcome.changes.isEmpty)
        await expectKind(.permissionDenied) {
            try await FileBackend(folder: disk.path(of: "store")).changes(since: nil, limit: 10)
        }
        await expectKind(.permissionDenied) {
            try await FileBackend(folder: disk.path(of: "new/store")).write([1], to: key(1), if: .any)
        }
    }
}
