import Checksums
import Foundation
import SyncCore
import SyncCoreTesting
import SyncProtocol
import TestSupport
import Testing

extension Attacks {
    @Suite("Attacks through accounts", .serialized)
    struct AccountAttackTests {
        @Test("Password guesses are rejected after ten attempts without hashing")
        func guesses() async throws {
            let stage = try AttackStage()
            let name = #"{"grant_type":"password","username":"bystander","password":"wrong"}"#
            let guess = request("POST", "/v1/sessions", fields: ["Content-Type: application/json"], body: name)
            let count = Soak.guessCount
            var seen: [Int: Int] = [:]
            let (statuses, continuation) = AsyncStream.makeStream(of: Int.self)
            _ = try await stage.measure("\(count) wrong passwords", seconds: 120, growth: 96 << 20, least: count) { _ in
                defer { continuation.finish() }
                let connection = try RawConnection(port: stage.server.port)
                let rounds = count / 50
                for _ in 0..<rounds {
                    connection.send(String(repeating: guess, count: 50))
                    for _ in 0..<50 { continuation.yield(try #require(connection.answer()).status) }
                }
                return rounds * 50
            }
            for await status in statuses { seen[status, default: 0] += 1 }
            #expect(seen[400] == 10)
            #expect(seen[429] == count - 10)
            #expect(stage.server.stop() == 0)
        }

        @Test("Continuous batches of the maximum size delay only their own account")
        func batches() async throws {
            let stage = try AttackStage(["account-writes=20/200"])
            let alice = try AttackStage.signUp("alice", stage.server)
            let value = [UInt8](repeating: 0x78, count: 60_000)
            let operations = try (0..<BatchBody.maximumOperationCount).map { number in
                BatchOperation.write(WriteRequest(try EntryKey("\(alice.prefix)\(number)"), value: value, if: .any))
            }
            let body = BatchBody.bytes(of: operations)
            let head = request(
                "POST", "/v1/batch",
                fields: alice.fields + ["Content-Type: \(BatchBody.mediaType)", "Content-Length: \(body.count)"])
            let (statuses, continuation) = AsyncStream.makeStream(of: Int.self)
            _ = try await stage.measure("batches of \(body.count >> 20) MiB", growth: 256 << 20, least: 8) { isWanted in
                defer { continuation.finish() }
                var number = 0
                while isWanted(number) {
                    let connection = try RawConnection(port: stage.server.port)
                    connection.send(Array(head.utf8) + body)
                    if let answer = connection.answer() {
                        continuation.yield(answer.status)
                        number += 1
                    }
                }
                return number
            }
            var seen: [Int: Int] = [:]
            for await status in statuses { seen[status, default: 0] += 1 }
            print("batches: \(seen.sorted { $0.key < $1.key })")
            #expect((seen[200] ?? 0) >= 1)
            #expect((seen[429] ?? 0) > (seen[200] ?? 0))
            #expect(stage.server.stop() == 0)
        }

        @Test("Keys with colliding hashes cost no more than others", arguments: ["sqlite", "file"])
        func collisions(_ kind: String) async throws {
            let folder = try TemporaryFolder()
            let server = try ServerProcess(
                store: "\(kind):\(folder.path(of: "store"))",
                options: ["--limit", "account-keys=none", "--limit", "account-writes=none", "--log-level", "error"])
            let alice = try AttackStage.signUp("alice", server)
            let colliding = CollidingKeys.make(1_024, prefix: alice.prefix)
            #expect(Set(colliding).count == 1_024)
            #expect(Set(colliding.map { XXHash64.digest(of: Array($0.utf8)) }).count == 1)
            var generator = SeededGenerator(seed: printedSeed("keys that do not collide"))
            let plain = colliding.map { $0.dropLast(24) + String(UInt64.random(in: 0...(.max), using: &generator)) }
            let others = try times(plain.map { String($0) }, alice, server)
            let attacked = try times(colliding, alice, server)
            print("\(kind): 256 keys each \(others), of one XXH64 \(attacked)")
            // If they formed one hash chain, the last part would take seven times as long as the first.
            let (first, last) = (try #require(attacked.first), try #require(attacked.last))
            expectFigure(last < first * 4)
            #expect(server.stop() == 0)
        }

        /// The time to write and read each 256 of `keys`.
        private func times(
            _ keys: [String], _ account: AttackStage.Account, _ server: ServerProcess
        ) throws -> [Duration] {
            let connection = try RawConnection(port: server.port)
            func send(_ operations: [BatchOperation]) {
                let body = BatchBody.bytes(of: operations)
                let fields =
                    account.fields + [
                        "Content-Type: \(BatchBody.mediaType)", "Content-Length: \(body.count)",
                    ]
                connection.send(Array(request("POST", "/v1/batch", fields: fields).utf8) + body)
                #expect(connection.answer()?.status == 200)
            }
            return try stride(from: 0, to: keys.count, by: BatchBody.maximumOperationCount).map { part in
                let some = try keys[part..<min(part + BatchBody.maximumOperationCount, keys.count)].map {
                    try EntryKey($0)
                }
                let start = ContinuousClock.now
                send(some.map { .write(WriteRequest($0, value: [1], if: .any)) })
                for _ in 0..<3 { send(some.map { .read(ReadRequest($0)) }) }
                return ContinuousClock.now - start
            }
        }
    }
}

@Suite("SipHash-2-4")
struct SipHashTests {
    @Test("Digests match the test vectors of the authors (appendix A of the paper; 0 and 8 bytes)")
    func vectors() {
        let key: (UInt64, UInt64) = (0x0706_0504_0302_0100, 0x0F0E_0D0C_0B0A_0908)
        #expect(SipHash.digest(of: Array(0..<15), key: key) == 0xA129_CA61_49BE_45E5)
        #expect(SipHash.digest(of: [], key: key) == 0x726F_DB47_DD0E_0E31)
        #expect(SipHash.digest(of: Array(0..<8), key: key) == 0x93F5_F579_9A93_2462)
    }
}

/// Keys with equal unseeded XXH64: of two words in the same lane, the second one is chosen so that it cancels the
/// effect of the first.
enum CollidingKeys {
    private static let prime1: UInt64 = 0x9E37_79B1_85EB_CA87
    private static let prime2: UInt64 = 0xC2B2_AE3D_27D4_EB4F

    static func make(_ count: Int, prefix: String) -> [String] {
        let padding = (32 - prefix.utf8.count % 32) % 32
        let start = Array(prefix.utf8) + [UInt8](repeating: UInt8(ascii: "p"), count: padding)
        // The state of the lane after the prefix.
        var lane = prime1 &+ prime2
        for offset in stride(from: 0, to: start.count, by: 32) { lane = round(lane, word(start, offset)) }
        let inverse = inverted(prime2)
        var (keys, target): ([String], UInt64?) = ([], nil)
        var taken: Set<UInt64> = []
        var generator = SeededGenerator(seed: 7)
        while keys.count < count {
            // Eight letters with four random bits each.
            let random = generator.next()
            let letters = (0..<8).map { UInt8(ascii: "A") + UInt8(random >> UInt64($0 * 4) & 15) }
            let first = word(letters, 0)
            let middle = round(lane, first)
            let wanted = target ?? (middle &+ 0x4141_4141_4141_4141 &* prime2)
            target = wanted
            let second = (wanted &- middle) &* inverse
            guard isText(second), taken.insert(first).inserted else { continue }
            let filling = [UInt8](repeating: UInt8(ascii: "f"), count: 24)
            keys.append(
                String(decoding: start + bytes(first) + filling + bytes(second) + filling, as: UTF8.self))
        }
        return keys
    }

    private static func round(_ lane: UInt64, _ word: UInt64) -> UInt64 {
        let sum = lane &+ word &* prime2
        return (sum << 31 | sum >> 33) &* prime1
    }

    private static func word(_ bytes: [UInt8], _ offset: Int) -> UInt64 {
        (0..<8).reversed().reduce(0) { $0 << 8 | UInt64(bytes[offset + $1]) }
    }

    private static func bytes(_ word: UInt64) -> [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: word >> ($0 * 8)) } }

    /// Returns `true` if all bytes are visible ASCII characters that a key allows.
    private static func isText(_ word: UInt64) -> Bool {
        bytes(word).allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "\\") }
    }

    /// The inverse of an odd number modulo 2^64, by Newton's method.
    private static func inverted(_ number: UInt64) -> UInt64 {
        (0..<6).reduce(number) { inverse, _ in inverse &* (2 &- number &* inverse) }
    }
}
