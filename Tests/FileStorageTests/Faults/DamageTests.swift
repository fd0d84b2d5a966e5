import Checksums
import FileStorage
import Foundation
import SyncCore
import TestSupport
import Testing

@Suite("Damage to the entries of a file store")
struct DamageTests {
    private let folder: TemporaryFolder
    private let store: FileBackend
    private let key: EntryKey
    private let file: URL
    private let whole: [UInt8]

    init() async throws {
        folder = try TemporaryFolder()
        store = FileBackend(folder: folder.path)
        key = try EntryKey("accounts/alice")
        _ = try await store.write(Array("the value".utf8), to: key, if: .absent)
        _ = try await store.write([1], to: EntryKey("other"), if: .absent)
        file = URL(fileURLWithPath: folder.path(of: "accounts/alice.entry"))
        whole = Array(try Data(contentsOf: file))
    }

    private func expectDamaged(_ bytes: [UInt8], _ comment: String) async throws {
        try Data(bytes).write(to: file)
        let error = await expectKind(.damaged) { try await store.read(key) }
        #expect(error?.message.hasPrefix(file.path) == true, "\(comment): \(error?.message ?? "")")
        #expect(error?.key == key && error?.operation == .read, "\(comment)")
    }

    @Test("A flipped bit is detected, and the error names the file")
    func flippedBits() async throws {
        for bit in 0..<(whole.count * 8) {
            var bytes = whole
            bytes[bit / 8] ^= 1 << UInt8(bit % 8)
            try await expectDamaged(bytes, "bit \(bit)")
        }
    }

    @Test("Truncation and growth to any length are detected")
    func lengths() async throws {
        for count in 0..<whole.count { try await expectDamaged(Array(whole[..<count]), "\(count) bytes") }
        for count in 1...40 { try await expectDamaged(whole + [UInt8](repeating: 0, count: count), "\(count) more") }
    }

    @Test("Damage at the end of a large entry, and bytes after it, are detected")
    func large() async throws {
        for size in [4_000, 4_018, 4_019, 4_020, 4_021, 4_022, 100_000] {
            _ = try await store.write([UInt8](repeating: 7, count: size), to: key, if: .any)
            let bytes = Array(try Data(contentsOf: file))
            try await expectDamaged(bytes + [0], "size \(size), one more")
            try await expectDamaged(bytes.dropLast(), "size \(size), one less")
            var flipped = bytes
            flipped[bytes.count - 9] ^= 1
            try await expectDamaged(flipped, "size \(size), last byte")
        }
    }

    @Test("A copy under another key's name is detected by a read and does not end a listing")
    func copied() async throws {
        try Data(whole).write(to: URL(fileURLWithPath: folder.path(of: "accounts/bob.entry")))
        let bob = try EntryKey("accounts/bob")
        let error = await expectKind(.damaged) { try await store.read(bob) }
        #expect(error?.message.contains("accounts/bob.entry") == true)
        let items = try await store.list(prefix: "", after: nil, limit: 10).outcome.items
        #expect(items.map(\.key.text) == ["accounts/alice", "accounts/bob", "other"])
        // The version is a digest of the file and differs from that of any entry.
        #expect(items[1].version != items[0].version && items[1].version.bytes.count == 16)
        await expectKind(.damaged) { try await store.read(bob, unless: items[1].version) }
        await expectKind(.damaged) { try await store.write([1], to: bob, if: .matches(items[1].version)) }
        for limit in 1...3 {
            var (found, cursor) = ([EntryKey](), EntryKey?.none)
            repeat {
                let page = try await store.list(prefix: "", after: cursor, limit: limit).outcome
                found += page.items.map(\.key)
                cursor = page.next
            } while cursor != nil
            #expect(found == items.map(\.key), "pages of \(limit)")
        }
    }

    @Test("A damaged entry is kept under a precondition, replaced under any, and other keys are not affected")
    func repair() async throws {
        try await expectDamaged(Array(whole.dropLast()), "truncated")
        await expectKind(.damaged) { try await store.write([2], to: key, if: .absent) }
        #expect(try await store.read(EntryKey("other")).outcome != .absent)
        _ = try await store.write([2], to: key, if: .any)
        guard case .found(let entry) = try await store.read(key).outcome else {
            Issue.record("not repaired")
            return
        }
        #expect(entry.value == [2])
    }

    @Test("Damage is distinguished from an entry of a newer format")
    func newerFormat() async throws {
        var bytes = whole
        bytes[11] = 2
        // A writer of that format would have added its own checksum.
        bytes.replaceSubrange(40..<64, with: [UInt8](repeating: 0xAB, count: 24))
        try Data(bytes).write(to: file)
        let error = await expectKind(.newerFormat) { try await store.read(key) }
        #expect(error?.message.contains("format 2") == true)
    }

    @Test("The format of an entry is documented and stable: version 1 writes exactly these bytes")
    func layout() throws {
        let entry = Entry(value: [0xFF], version: EntryVersion(bytes: Array(0..<16)))
        let header =
            Array("ESyncEnt".utf8) + [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1] + Array(0..<16) + [0x6B]
        let headerSum = withUnsafeBytes(of: XXHash64.digest(of: header).bigEndian) { Array($0) }
        let body = header + headerSum + [0xFF]
        let sum = withUnsafeBytes(of: XXHash64.digest(of: body).bigEndian) { Array($0) }
        #expect(EntryFile.encode(entry, key: try EntryKey("k")) == body + sum)
    }
}
