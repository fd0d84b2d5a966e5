import SyncCore
import SyncCoreTesting
import SyncProtocol
import TestSupport
import Testing

@Suite("Batch bodies")
struct BatchBodyTests {
    private static let version = EntryVersion(bytes: [7, 8])

    private static func operations() throws -> [BatchOperation] {
        let key = try EntryKey("a/ä")
        return [
            .read(ReadRequest(key)), .read(ReadRequest(key, unless: version)),
            .write(WriteRequest(key, value: [1, 2], if: .absent)),
            .write(WriteRequest(key, value: [], if: .any)),
            .write(WriteRequest(key, value: nil, if: .matches(version))),
        ]
    }

    private static func results() throws -> [BatchResult] {
        let entry = Entry(value: [1], version: version)
        let error = BackendError(.full, key: try EntryKey("a"), message: "no space is left; free some")
        return [
            .read(.found(entry)), .read(.found(Entry(value: [], version: version))), .read(.absent), .read(.unchanged),
            .write(.written(version)), .write(.deleted), .write(.conflict(entry)), .write(.conflict(nil)),
            .conflictWithoutValue(version), .problem(Problem(error)),
        ]
    }

    @Test("Batches survive encoding and decoding unchanged")
    func roundTrip() throws {
        let operations = try Self.operations()
        #expect(try BatchBody.operations(BatchBody.bytes(of: operations)) == operations)
        let results = try Self.results()
        #expect(try BatchBody.results(BatchBody.bytes(ofAnswer: results)) == results)
        #expect(BatchBody.bytes(of: []).isEmpty)
    }

    // Encoded by hand after the documentation of the proto3 encoding: tag, length, content.
    @Test("The encoding follows the messages of Docs/wire.proto")
    func bytes() throws {
        let key = try EntryKey("k")
        #expect(
            BatchBody.bytes(of: [
                .read(ReadRequest(key, unless: Self.version)), .write(WriteRequest(key, value: [], if: .absent)),
            ]) == [
                0x0A, 9, 0x0A, 7, 0x0A, 1, 0x6B, 0x12, 2, 7, 8,
                0x0A, 9, 0x12, 7, 0x0A, 1, 0x6B, 0x12, 0, 0x20, 1,
            ])
        #expect(
            BatchBody.bytes(ofAnswer: [.read(.absent), .write(.written(Self.version)), .write(.conflict(nil))]) == [
                0x0A, 2, 0x12, 0, 0x0A, 4, 0x22, 2, 7, 8, 0x0A, 2, 0x32, 0,
            ])
        #expect(
            BatchBody.bytes(ofAnswer: [.conflictWithoutValue(Self.version)]) == [0x0A, 6, 0x42, 4, 0x0A, 2, 7, 8])
    }

    @Test("A malformed operation is rejected")
    func refusals() async throws {
        let broken: [(bytes: [UInt8], kind: BackendError.Kind)] = [
            ([0x0A], .damaged), ([0x0A, 1], .damaged), ([0x0A, 0], .damaged), ([0x08, 1, 0x0A, 0], .damaged),
            // No key; a key with a control character; a key that is not UTF-8.
            ([0x0A, 2, 0x0A, 0], .invalidKey), ([0x0A, 5, 0x0A, 3, 0x0A, 1, 1], .invalidKey),
            ([0x0A, 5, 0x0A, 3, 0x0A, 1, 0xFF], .damaged),
            // A write without a condition, with a false one, with an empty version.
            ([0x0A, 5, 0x12, 3, 0x0A, 1, 0x6B], .damaged), ([0x0A, 7, 0x12, 5, 0x0A, 1, 0x6B, 0x18, 0], .damaged),
            ([0x0A, 7, 0x12, 5, 0x0A, 1, 0x6B, 0x2A, 0], .damaged),
            // A known version of 65 bytes.
            ([0x0A, 72, 0x0A, 70, 0x0A, 1, 0x6B, 0x12, 65] + [UInt8](repeating: 1, count: 65), .damaged),
        ]
        for (bytes, kind) in broken {
            await expectKind(kind) { try BatchBody.operations(bytes) }
        }
        let many = [UInt8](repeatElement([0x0A, 5, 0x0A, 3, 0x0A, 1, 0x6B], count: 257).joined())
        await expectKind(.tooLarge) { try BatchBody.operations(many) }
        #expect(try BatchBody.operations(many.dropLast(7)).count == 256)
        for bytes in [
            [0x0A, 0], [0x0A, 3, 0x0A, 1, 0], [0x0A, 2, 0x22, 0], [0x0A, 2, 0x3A, 0], [0x0A, 2, 0x12, 1],
        ]
            as [[UInt8]]
        {
            await expectKind(.damaged) { try BatchBody.results(bytes) }
        }
    }

    @Test("Random bytes are either read or rejected")
    func hostile() throws {
        var generator = SeededGenerator(seed: printedSeed("BatchBodyTests"))
        let seeds = [BatchBody.bytes(of: try Self.operations()), BatchBody.bytes(ofAnswer: try Self.results())]
        var readCount = 0
        for _ in 0..<20_000 {
            var bytes = seeds.randomElement(using: &generator) ?? []
            for _ in 0..<Int.random(in: 0...4, using: &generator) {
                let index = Int.random(in: 0..<bytes.count, using: &generator)
                switch Int.random(in: 0..<3, using: &generator) {
                case 0: bytes[index] = .random(in: 0...255, using: &generator)
                case 1: bytes.insert(.random(in: 0...255, using: &generator), at: index)
                default: if bytes.count > 1 { bytes.remove(at: index) }
                }
            }
            if let operations = try? BatchBody.operations(bytes) {
                #expect(try BatchBody.operations(BatchBody.bytes(of: operations)) == operations)
                readCount += 1
            }
            if let results = try? BatchBody.results(bytes) {
                #expect(try BatchBody.results(BatchBody.bytes(ofAnswer: results)) == results)
                readCount += 1
            }
        }
        // Otherwise the test has read almost nothing.
        #expect(readCount > 1_000)
    }
}
