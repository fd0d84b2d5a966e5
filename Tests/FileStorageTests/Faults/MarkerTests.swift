import FileStorage
import Foundation
import SyncCore
import TestSupport
import Testing

@Suite("A file store with a damaged or missing marker")
struct MarkerTests {
    private let folder: TemporaryFolder
    private let keys: [EntryKey]
    private let marker: URL

    init() async throws {
        folder = try TemporaryFolder()
        keys = try ["a/b/k", "c", "d/Ä"].map { try EntryKey($0) }
        let store = FileBackend(folder: folder.path)
        for key in keys { _ = try await store.write(Array(key.text.utf8), to: key, if: .absent) }
        marker = URL(fileURLWithPath: folder.path(of: "store.format"))
    }

    private func store() -> FileBackend { FileBackend(folder: folder.path) }

    private func tree() throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: folder.path).sorted()
    }

    private func expectRefused(_ kinds: Set<BackendError.Kind>, _ comment: String) async throws {
        let before = try tree()
        let errors = [
            await expectKind(nil) { try await store().read(keys[0]) },
            await expectKind(nil) { try await store().write([1], to: keys[0], if: .any) },
            await expectKind(nil) { try await store().delete(keys[0], if: .any) },
            await expectKind(nil) { try await store().list(prefix: "", after: nil, limit: 10) },
            await expectKind(nil) { try await store().changes(since: nil, limit: 10) },
            await expectKind(nil) { try await store().requiringExisting.read(keys[0]) },
        ]
        for case let error? in errors {
            #expect(kinds.contains(error.kind), "\(comment): \(error)")
            #expect(error.message.hasPrefix(marker.path), "\(comment)")
            if error.kind == .damaged { #expect(error.message.contains("syncd store recover"), "\(comment)") }
        }
        #expect(try tree() == before, "\(comment)")
    }

    private func expectRecoverable(_ comment: String) async throws {
        let recovery = store().forRecovery
        #expect(try await recovery.list(prefix: "", after: nil, limit: 10).outcome.items.map(\.key) == keys)
        for key in keys {
            guard case .found(let entry) = try await recovery.read(key).outcome else {
                Issue.record("\(comment): \(key) is missing")
                continue
            }
            #expect(entry.value == Array(key.text.utf8))
        }
    }

    @Test("A flipped bit means damage or a later format; the entries are recoverable, and the marker is not replaced")
    func flippedBits() async throws {
        let whole = try Data(contentsOf: marker)
        for bit in 0..<(8 * whole.count) {
            var bytes = whole
            bytes[bit / 8] ^= 1 << UInt8(bit % 8)
            try bytes.write(to: marker)
            try await expectRefused([.damaged, .newerFormat], "bit \(bit)")
            try await expectRecoverable("bit \(bit)")
            #expect(try Data(contentsOf: marker) == bytes)
        }
        for count in 0..<whole.count {
            try whole.prefix(count).write(to: marker)
            try await expectRefused([.damaged], "\(count) bytes")
        }
    }

    @Test("A missing marker means damage, also if all entries are in folders")
    func missing() async throws {
        try FileManager.default.removeItem(at: marker)
        try await expectRefused([.damaged], "missing")
        try FileManager.default.removeItem(atPath: folder.path(of: "c.entry"))
        try await expectRefused([.damaged], "missing, with folders only")
        #expect(try await store().forRecovery.read(keys[0]).outcome != .absent)
        #expect(!FileManager.default.fileExists(atPath: marker.path))
    }

    @Test("An unrelated folder is distinguished from a store without its marker, even if it has files with such names")
    func foreign() async throws {
        let other = FileBackend(folder: folder.path(of: "other"))
        try FileManager.default.createDirectory(atPath: folder.path(of: "other/a"), withIntermediateDirectories: true)
        try Data("diary".utf8).write(to: URL(fileURLWithPath: folder.path(of: "other/a/monday.entry")))
        for store in [other, other.forRecovery] as [any KeyValueBackend] {
            await expectKind(.notAStore) { try await store.read(keys[0]) }
            await expectKind(.notAStore) { try await store.list(prefix: "", after: nil, limit: 1) }
        }
        await expectKind(.missing) { try await FileBackend(folder: "/nowhere").forRecovery.read(keys[0]) }
    }

    @Test("A store that is opened for recovery is read-only, even if it is intact")
    func readOnly() async throws {
        for isWhole in [true, false] {
            if !isWhole { try FileManager.default.removeItem(at: marker) }
            let before = try tree()
            let recovery = store().forRecovery
            #expect(!recovery.capabilities.compareAndSwap && !recovery.capabilities.changes)
            await expectKind(.unsupported) { try await recovery.write([1], to: keys[0], if: .any) }
            await expectKind(.unsupported) { try await recovery.delete(keys[0], if: .any) }
            await expectKind(.unsupported) { try await recovery.changes(since: nil, limit: 1) }
            #expect(try await recovery.read(EntryKey("none")).outcome == .absent)
            #expect(try tree() == before)
        }
    }
}
