import FileStorage
import Foundation
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("The conformance checks detect versions")
struct VersionTests {
    private static let looks = "versions look like random bits or digests, not like counters or timestamps"
    private static let tagLooks = "the tags of cursors look random, not like counters or timestamps"
    private static let lives = "no process reuses a version or a cursor, not even after a wipe or a restore"
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func store() throws -> String { try folder.freshFolder() + "/store" }

    private static func probe(_ kind: String, _ path: String) async throws -> WrittenHistory {
        try await CrashTrial.history { assignment in
            CrashTrial.Command(BuiltProgram.path(of: "StoreProbe"), ["write", "\(kind):\(path)", assignment])
        }
    }

    /// Returns the failed checks that concern versions and cursors. Other tests cover the rest.
    private func failures(of makeStore: @Sendable () async throws -> StoreUnderTest) async -> [String] {
        let words = ["version", "cursor", "backup"]
        let report = await Conformance.run(
            seed: 1, where: { check in words.contains { check.name.contains($0) } }, makeStore: makeStore)
        #expect(report.results.count > 10 && report.skipped.isEmpty, "\(report)")
        return report.failures.map(\.check)
    }

    @Test("that are counted in memory, although they never repeat in this process")
    func counters() async throws {
        let host = BrokenHost.counting()
        let failures = await failures {
            try await .inFolder(
                try store(), process: { try await Self.probe("file", $0) },
                open: { FileBackend(folder: $0, host: host) })
        }
        #expect(failures == [Self.looks, Self.tagLooks])
    }

    @Test("that look random but start again with each process")
    func restarted() async throws {
        let host = BrokenHost.restarting()
        let failures = await failures {
            try await .inFolder(
                try store(), process: { try await Self.probe("restarting", $0) },
                open: { FileBackend(folder: $0, host: host) })
        }
        #expect(failures == [Self.lives])
    }

    @Test("that start again with each object, without starting a process")
    func restartedObjects() async throws {
        let path = try store()
        let store = try await StoreUnderTest.inFolder(path) {
            FileBackend(folder: $0, host: BrokenHost.restarting())
        }
        let lives = try #require(store.lives)
        let histories = try await lives()
        #expect(histories.count == 4 && Set(histories.flatMap(\.versions)).count < 4 * 24)
        let sound = try await StoreUnderTest.inFolder(path + "2") { FileBackend(folder: $0) }
        let soundLives = try #require(sound.lives)
        let others = try await soundLives()
        #expect(Set(others.flatMap(\.versions)).count == 4 * 24 && Set(others.flatMap(\.tags)).count == 4 * 28)
    }

    @Test("Versions differ between consecutive processes, and a failing process is reported")
    func processes() async throws {
        let path = try store()
        let histories = [try await Self.probe("file", path), try await Self.probe("file", path)]
        #expect(histories.allSatisfy { $0.versions.count == 24 && $0.tags.count == 28 })
        #expect(Set(histories.flatMap(\.versions)).count == 48)
        let error = await #expect(throws: BackendError.self) { try await Self.probe("file", "/proc/none") }
        #expect(error?.message.contains("said: !") == true)
    }

    private static let count: UInt64 = 256

    private static func bytes(_ number: UInt64) -> [UInt8] { withUnsafeBytes(of: number.bigEndian) { Array($0) } }

    /// Generated versions, and the expected finding.
    struct Series: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let finding: String
        let version: @Sendable (_ number: UInt64, _ generator: inout SeededGenerator) -> [UInt8]

        init(
            _ name: String, _ finding: String,
            _ version: @escaping @Sendable (_ number: UInt64, _ generator: inout SeededGenerator) -> [UInt8]
        ) {
            testDescription = name
            self.finding = finding
            self.version = version
        }
    }

    @Test(
        "that show a pattern, and describe it",
        arguments: [
            Series("two words of a counter", "compared byte by byte, 255 of 255 are larger") { number, _ in
                bytes(number) + bytes(number + 1)
            },
            Series("a counter, last byte first", "compared byte by byte, 254 of 255 are larger") { number, _ in
                bytes(number).reversed()
            },
            Series("a countdown", "255 of 255 are smaller") { number, _ in bytes(1 << 40 - number) },
            Series("decimal digits", "compared byte by byte, 253 of 255 are larger") { number, _ in
                Array("\(number)".utf8)
            },
            Series("a time, then random bits", "compared byte by byte, 255 of 255 are larger") { number, generator in
                bytes(1_700_000_000_000 + number) + bytes(generator.next())
            },
            Series("a counter in another order", "of their bits vary") { number, _ in
                bytes(number / 8) + bytes(number % 8 ^ 5)
            },
            Series("a permuted byte", "of their bits vary") { number, _ in bytes((number * 0x9D) & 0xFF) },
            Series("multiples of a constant", "differ by the same amount") { number, _ in
                bytes(number &* 0x9E37_79B9_7F4A_7C95)
            },
            Series("a counter that overflows", "only 255 of 256 differ") { number, _ in bytes(number % 255) },
        ])
    func regular(series: Series) {
        var generator = SeededGenerator(seed: 3)
        let found = Regularity.found(in: (1...Self.count).map { series.version($0, &generator) })
        #expect(found?.contains(series.finding) == true, "\(found ?? "nothing found")")
    }

    @Test("Versions of 64 random bits or more pass, in any encoding")
    func random() {
        let seed = printedSeed("random versions")
        for round in 0..<200 {
            var generator = SeededGenerator(seed: seed &+ UInt64(round))
            let numbers = (0..<Self.count).map { _ in [generator.next(), generator.next()] }
            let encodings: [([UInt64]) -> [UInt8]] = [
                { Self.bytes($0[0]) }, { Self.bytes($0[0]) + Self.bytes($0[1]) },
                { $0.flatMap { Array(String($0, radix: 16).utf8) } }, { Array(String($0[0], radix: 10).utf8) },
                { Array("W/\"\(String($0[0], radix: 16))\"".utf8) },
            ]
            for (number, encode) in encodings.enumerated() {
                #expect(Regularity.found(in: numbers.map(encode)) == nil, "encoding \(number), seed \(seed)")
            }
        }
    }
}
