#if Sealed
import Foundation
import SealedStorage
import Synchronization
import TestSupport
import Testing

/// Counts calls.
final class Counted: Sendable {
    private let calls = Mutex(0)

    var count: Int { calls.withLock { $0 } }

    func next() -> Int {
        calls.withLock { calls in
            calls += 1
            return calls
        }
    }
}

@Suite("A sealing key")
struct SealingKeyTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func file(_ bytes: [UInt8], permissions: Int = 0o600) throws -> String {
        let path = folder.path(of: "key-\(UUID().uuidString)")
        let made = FileManager.default.createFile(
            atPath: path, contents: Data(bytes), attributes: [.posixPermissions: permissions])
        try #require(made)
        return path
    }

    @Test("is read as 32 bytes or as 64 hexadecimal digits")
    func reads() throws {
        let bytes = Array<UInt8>(100..<132)
        let digits = bytes.map { String(format: "%02x", $0) }.joined()
        for text in [digits, digits + "\n", digits.uppercased() + " \r\n"] {
            #expect(try SealingKey(contentsOf: file(Array(text.utf8))).bytes == bytes)
        }
        #expect(try SealingKey(contentsOf: file(bytes)).bytes == bytes)
        #expect(SealingKey.random().bytes != SealingKey.random().bytes)
    }

    @Test(
        "is refused when it is none",
        arguments: [
            ([], "neither"), (Array("secret\n".utf8), "neither"), (Array(repeating: 7, count: 32), "all the same"),
            (Array(repeating: UInt8(ascii: "g"), count: 64), "neither"), (Array(0..<31), "neither"),
        ] as [([UInt8], String)])
    func refuses(bytes: [UInt8], reason: String) throws {
        let path = try file(bytes)
        let error = #expect(throws: SealingKeyError.self) { try SealingKey(contentsOf: path) }
        #expect(error?.description.hasPrefix(path) == true && error?.description.contains(reason) == true)
    }

    @Test("is refused when others may read it, or nobody can")
    func permissions() throws {
        let path = try file(Array(0..<32), permissions: 0o640)
        let error = #expect(throws: SealingKeyError.self) { try SealingKey(contentsOf: path) }
        #expect(error?.description.contains("chmod 600") == true)
        #expect(throws: SealingKeyError.self) { try SealingKey(contentsOf: folder.path(of: "missing")) }
        #expect(throws: SealingKeyError.self) { try SealingKey(bytes: [1, 2, 3]) }
    }
}
#endif
