import Checksums
import EntitlementsTestSupport
import Testing

@testable import Entitlements

@Suite("A damaged or newer document is rejected with the place and never partly read")
struct DamagedDocumentTests {
    private static func refusal(of bytes: [UInt8]) -> LedgerFormatError? {
        do {
            _ = try LedgerDocument(decoding: bytes)
            return nil
        } catch {
            return error
        }
    }

    @Test("A document truncated at any length is rejected")
    func everyLength() throws {
        let bytes = try Sample.document().encoded()
        for length in 0..<bytes.count {
            let error = try #require(Self.refusal(of: Array(bytes[..<length])), "\(length) bytes")
            #expect(error.kind == .damaged, "\(length) bytes")
            #expect(error.offset == (length < 4 ? 0 : length), "\(length) bytes")
        }
    }

    @Test("A document with any flipped bit is rejected")
    func everyBit() throws {
        let bytes = try Sample.document().encoded()
        let sectionStart = bytes.count - 3
        for bit in 0..<bytes.count * 8 {
            var flipped = bytes
            flipped[bit / 8] ^= 1 << (bit % 8)
            let error = try #require(Self.refusal(of: flipped), "bit \(bit)")
            let isFormat = (4..<6).contains(bit / 8) && flipped[4...5] != [0, 0]
            #expect(error.kind == (isFormat ? .newerFormat : .damaged), "bit \(bit)")
            let start =
                switch bit / 8 {
                case 4..<6: 4
                case 0..<44: 0
                case 44..<sectionStart: 44
                default: sectionStart
                }
            #expect(error.offset == start, "bit \(bit)")
        }
    }

    @Test("Trailing bytes are rejected")
    func trailingBytes() throws {
        let bytes = try Sample.document().encoded()
        for trailing in [[0], [0xFF, 0xFF], bytes] as [[UInt8]] {
            let error = try #require(Self.refusal(of: bytes + trailing))
            #expect(error.kind == .damaged)
            #expect(error.offset == bytes.count)
        }
    }

    @Test(
        "Bytes of another format are rejected",
        arguments: ["", "E", "<html>", "ESLH", "eslg and so on and so forth, for 44 bytes"])
    func strangers(text: String) throws {
        let error = try #require(Self.refusal(of: Array(text.utf8)))
        #expect(error.kind == .damaged)
        #expect(error.offset == 0)
        #expect(error.description == "at byte 0: this is not a ledger: it does not begin with ESLG")
    }

    @Test("A newer format and unknown flags are rejected, regardless of the following bytes")
    func newerFormats() throws {
        var header = DocumentHeader()
        header.format = 2
        var error = try #require(Self.refusal(of: header.encoded(run: [1, 2, 3])))
        #expect(error.kind == .newerFormat)
        #expect(error.description == "at byte 4: it is written in format 2, this version reads up to 1")
        header.format = 1
        header.reserved = 0x0100
        error = try #require(Self.refusal(of: header.encoded(run: [])))
        #expect(error.kind == .newerFormat)
        #expect(error.offset == 6)
        header.format = 0
        error = try #require(Self.refusal(of: header.encoded(run: [])))
        #expect(error.kind == .damaged)
        #expect(error.offset == 4)
    }

    @Test(
        "A header with wrong counts and valid checksums is rejected",
        arguments: [(0, 1, 0, 8), (2, 0, 0, 8), (1, 1, 0, 49), (1, -1, 0, 48), (1, 0, 1, 49), (1, 0, -1, 48)])
    func wrongCounts(records: Int, run: Int, section: Int, offset: Int) throws {
        var header = DocumentHeader()
        header.recordCount = records
        header.extraRunBytes = run
        header.extraSectionBytes = section
        // One record with the key 7, and a section of one byte.
        let error = try #require(Self.refusal(of: header.encoded(run: [1, 0, 0, 7], section: [9])))
        #expect(error.kind == .damaged)
        #expect(error.offset == (run == 1 && records == 0 ? 49 : offset))
    }

    @Test("The largest sizes in a header do not overflow")
    func hugeCounts() throws {
        var header = DocumentHeader()
        header.recordCount = Int(UInt32.max)
        header.extraRunBytes = Int(UInt32.max)
        header.extraSectionBytes = Int(UInt32.max)
        let error = try #require(Self.refusal(of: header.encoded(run: [])))
        #expect(error.kind == .damaged)
        #expect(error.offset == 44)
    }

    @Test(
        "Unsorted, non-canonical and incomplete runs with valid checksums are rejected",
        arguments: [
            ([1, 0, 0, 9, 1, 0, 0, 7], 4, "the records are out of order"),
            ([1, 0, 0, 7, 1, 0, 0, 7], 4, "the records are out of order"),
            ([2, 0, 0, 7, 0, 1, 0, 0, 7], 5, "the records are out of order"),
            ([1, 0, 0, 7, 0, 0, 0], 4, "a record has an empty key"),
            ([0, 1, 1, 5, 5], 0, "a record has an empty key"),
            ([0x81, 0x00, 0, 0, 7], 0, "a record's length is malformed"),
            ([1, 0x80, 0x00, 0, 7], 1, "a record's length is malformed"),
            ([1, 0, 0x80, 0x80, 0x00, 7], 2, "a record's length is malformed"),
            ([0xFF, 0xFF, 0xFF, 0xFF, 0x01, 0, 0], 0, "a record's length is malformed"),
            ([0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01], 0, "a record's length is malformed"),
            ([0x80], 0, "a record's length is malformed"), ([1], 1, "a record's length is malformed"),
            ([1, 0], 2, "a record's length is malformed"), ([1, 0, 0], 0, "a record runs past the end"),
            ([1, 1, 1, 7, 7], 0, "a record runs past the end"),
            ([1, 0, 0, 7, 1, 0, 0x7F, 8], 4, "a record runs past the end"),
        ] as [([UInt8], Int, String)])
    func badRuns(run: [UInt8], offset: Int, reason: String) throws {
        var header = DocumentHeader()
        header.recordCount = 1
        let error = try #require(Self.refusal(of: header.encoded(run: run)))
        #expect(error == LedgerFormatError(.damaged, offset: 44 + offset, reason: reason))
    }

    @Test("A part of more than one mebibyte is rejected")
    func largeParts() throws {
        let payload = [UInt8](repeating: 0, count: LedgerLimits.maximumPartByteCount + 1)
        let record = Record(key: [7], order: [], payload: payload).encoded
        var header = DocumentHeader()
        header.recordCount = 1
        let error = try #require(Self.refusal(of: header.encoded(run: record)))
        #expect(error.kind == .tooLarge)
        #expect(error.offset == 44)
    }

    @Test("Random runs with valid checksums are rejected or encode to the same bytes again")
    func randomRuns() throws {
        var read = 0
        let cases = try forAll("random runs", cases: 20_000) { random, place in
            var run: [UInt8] = []
            for _ in 0..<random.int(0...4) {
                // Small lengths, so that some runs are well formed.
                let lengths = (0..<3).map { _ in UInt8(random.pick([0, 1, 2, 3, random.int(0...255)])) }
                run += lengths + random.bytes(0...6)
            }
            var header = DocumentHeader()
            header.recordCount = Int(random.int(0...3))
            let bytes = header.encoded(run: run)
            guard let document = try? LedgerDocument(decoding: bytes) else { return }
            read += 1
            try #require(document.encoded() == bytes, "\(place)")
            try #require(Ledger(document.ledger.records) == document.ledger, "\(place)")
            for record in document.ledger.records { try #require(Fact(record).record.key == record.key, "\(place)") }
        }
        #expect(read * 200 > cases)
    }

    @Test("Documents with a few changed bytes and recomputed checksums are rejected or read completely")
    func mutatedRuns() throws {
        let original = try Sample.document()
        var read = 0
        let cases = try forAll("mutated runs", cases: 20_000) { random, place in
            var run = original.ledger.run
            for _ in 0..<random.int(1...3) {
                let index = Int(random.int(0...Int64(run.count - 1)))
                switch random.int(0...2) {
                case 0: run[index] = UInt8.random(in: 0...255, using: &random)
                case 1: run.remove(at: index)
                default: run.insert(UInt8.random(in: 0...255, using: &random), at: index)
                }
            }
            var header = DocumentHeader()
            header.recordCount = 2
            let bytes = header.encoded(run: run)
            guard let document = try? LedgerDocument(decoding: bytes) else { return }
            read += 1
            try #require(document.encoded() == bytes, "\(place)")
            // Reading the facts of an accepted document must not trap either.
            let replay = Replay(
                Facts(account: document.ledger, device: document.ledger), catalog: try Shop.catalog())
            try #require(replay.snapshot(at: try Timestamp("2026-03-01")).subscriptions.count >= 2, "\(place)")
        }
        #expect(read * 20 > cases)
    }
}

/// Writes a document with a valid layout and valid checksums around invalid contents.
private struct DocumentHeader {
    var format = 1
    var reserved = 0
    var recordCount = 0
    var extraRunBytes = 0
    var extraSectionBytes = 0

    func encoded(run: [UInt8], section: [UInt8] = []) -> [UInt8] {
        var bytes = Array("ESLG".utf8)
        func append(_ number: Int, _ count: Int) {
            for index in 0..<count { bytes.append(UInt8(truncatingIfNeeded: number >> (8 * index))) }
        }
        append(format, 2)
        append(reserved, 2)
        append(recordCount, 4)
        append(min(run.count + extraRunBytes, Int(UInt32.max)), 4)
        append(min(section.count + extraSectionBytes, Int(UInt32.max)), 4)
        append(Int(bitPattern: UInt(XXHash64.digest(of: run))), 8)
        append(Int(bitPattern: UInt(XXHash64.digest(of: section))), 8)
        append(Int(bitPattern: UInt(XXHash64.digest(of: bytes))), 8)
        return bytes + run + section
    }
}
