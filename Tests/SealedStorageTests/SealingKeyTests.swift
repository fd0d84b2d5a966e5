#if Sealed
import Foundation
import SealedStorage
import Synchronization
import TestSupport
import Testing

/// A counter of calls.
final class CallCounter: Sendable {
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

    @Test("is read from 32 bytes or 64 hexadecimal digits")
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
        "is rejected if its length or digits are wrong, or all bytes are equal",
        arguments: [
            ([], "64 hexadecimal digits"), (Array("secret\n".utf8), "64 hexadecimal digits"),
            (Array(repeating: 7, count: 32), "equal bytes"),
            (Array(repeating: UInt8(ascii: "g"), count: 64), "64 hexadecimal digits"),
            (Array(0..<31), "64 hexadecimal digits"),
        ] as [([UInt8], String)])
    func rejects(bytes: [UInt8], reason: String) throws {
        let path = try file(bytes)
        let error = #expect(throws: SealingKeyError.self) { try SealingKey(contentsOf: path) }
        #expect(error?.description.hasPrefix(path) == true && error?.description.contains(reason) == true)
    }

    @Test("is rejected if other users can read its file, or the file is missing")
    func permissions() throws {
        let path = try file(Array(0..<32), permissions: 0o640)
        let error = #expect(throws: SealingKeyError.self) { try SealingKey(contentsOf: path) }
        #expect(error?.description.contains("chmod 600") == true)
        #expect(throws: SealingKeyError.self) { try SealingKey(contentsOf: folder.path(of: "missing")) }
        #expect(throws: SealingKeyError.self) { try SealingKey(bytes: [1, 2, 3]) }
    }
}
#endif
