import Checksums
import Entitlements
import EntitlementsTestSupport
import Testing

@testable import SyncSimulation

@Suite("The model's ledger")
struct ModelLedgerTests {
    /// A document without checksums, built by hand from the layout.
    private func document(
        _ run: [UInt8], count: UInt8, format: UInt8 = 1, flags: UInt8 = 0, section: [UInt8] = []
    ) -> [UInt8] {
        Array("ESLG".utf8) + [format, 0, flags, 0, count, 0, 0, 0, UInt8(run.count), 0, 0, 0]
            + [UInt8(section.count), 0, 0, 0] + [UInt8](repeating: 0, count: 24) + run + section
    }

    @Test("A handwritten document is decoded")
    func handWritten() throws {
        let spend: [UInt8] = [
            3, 8, 7, 0x42, 1, 0x73,  // the spend "s"
            0, 0, 0, 0, 0, 0, 1, 0, 0x0A, 1, 0x63, 0x10, 5, 0x2A, 0,  // incomplete: without environment and replica
        ]
        let ledger = try #require(ModelLedger(document: document(spend, count: 1, section: [9])))
        #expect(ledger.records.map(\.key) == [[0x42, 1, 0x73]])
        #expect(ledger.records.map(\.order) == [[0, 0, 0, 0, 0, 0, 1, 0]])
        #expect(ledger.records.map(\.payload) == [[0x0A, 1, 0x63, 0x10, 5, 0x2A, 0]])
        #expect(ledger.facts.otherKeys == [[0x42, 1, 0x73]])
        #expect(ModelLedger(document: document([], count: 0)) == ModelLedger())
        #expect(ModelLedger(document: document([], count: 0, flags: 1))?.isErased == true)
    }

    @Test("Other formats are rejected")
    func refused() {
        let record: [UInt8] = [1, 0, 0, 0x73]
        #expect(ModelLedger(document: document(record, count: 1)) != nil)
        #expect(ModelLedger(document: []) == nil)
        #expect(ModelLedger(document: document(record, count: 1, format: 2)) == nil)
        #expect(ModelLedger(document: document(record, count: 1, flags: 1)) == nil)
        #expect(ModelLedger(document: document(record, count: 1, flags: 2)) == nil)
        #expect(ModelLedger(document: document(record, count: 2)) == nil)
        #expect(ModelLedger(document: document(record + record, count: 2)) == nil)
        #expect(ModelLedger(document: document([1, 0, 0, 0x74] + record, count: 2)) == nil)
        #expect(ModelLedger(document: document([0, 0, 0], count: 1)) == nil)
        #expect(ModelLedger(document: document([0x81, 0, 0, 0, 0x73], count: 1)) == nil)
        #expect(ModelLedger(document: document(record, count: 1) + [0]) == nil)
    }

    @Test("A truncated document is rejected")
    func truncated() throws {
        var random = SplitMix64(seed: 4)
        let bytes = LedgerDocument(ledger: .random(using: &random), localSection: [1, 2]).encoded()
        #expect(ModelLedger(document: bytes) != nil)
        for count in bytes.indices { #expect(ModelLedger(document: Array(bytes[..<count])) == nil) }
    }

    @Test("The model rejects the same documents as production, apart from wrong checksums")
    func damaged() throws {
        try forAll("damage is seen alike", cases: 10_000) { random, place in
            let document = LedgerDocument(
                ledger: random.chance(1, in: 20) ? .erased : .random(upTo: 4, using: &random),
                localSection: random.bytes(0...3))
            var bytes = document.encoded()
            for _ in 0..<random.int(1...2) {
                let bounds = random.chance(1, in: 3) ? 0..<20 : bytes.indices
                let index = Int.random(in: bounds, using: &random)
                switch random.int(0...3) {
                case 0: bytes[index] = random.pick([0, 1, 2, 0x7F, 0x80, 0xFF])
                case 1: bytes[index] ^= 1 << UInt8(random.int(0...7))
                case 2: bytes.remove(at: index)
                default: bytes.insert(random.pick([0, 1, 0x80]), at: index)
                }
            }
            bytes.mendChecksums()
            let read = try? LedgerDocument(decoding: bytes)
            let model = ModelLedger(document: bytes)
            try #require((model == nil) == (read == nil), "\(bytes), \(place)")
            guard let model, let read else { return }
            try #require(model.isErased == read.ledger.isErased, "\(place)")
            try #require(
                model.records
                    == read.ledger.records.map { ModelRecord(key: $0.key, order: $0.order, payload: $0.payload) },
                "\(place)")
        }
    }

    @Test("Join and cover agree with production on random ledgers")
    func join() throws {
        try forAll("unions agree", cases: 2_000) { random, place in
            func ledger() -> Ledger { random.chance(1, in: 15) ? .erased : .random(using: &random) }
            let (left, right) = (ledger(), ledger())
            let join = Ledger.join(left, right)
            let (a, b) = (try left.modelled, try right.modelled)
            try #require(ModelLedger.join(a, b) == (try join.ledger.modelled), "\(place)")
            try #require(ModelLedger.join(b, a) == (try join.ledger.modelled), "\(place)")
            try #require(a.covers(b) == !join.leftLacks, "\(place)")
            try #require(b.covers(a) == !join.rightLacks, "\(place)")
            try #require(ModelLedger.join(a, b).covers(a) && ModelLedger.join(a, b).covers(b), "\(place)")
        }
    }

    @Test("A ledger covers its records and weaker ones, and no others")
    func covers() {
        func record(_ key: UInt8, _ order: UInt8, _ payload: [UInt8]) -> ModelRecord {
            ModelRecord(key: [key], order: [order], payload: payload)
        }
        let ledger = ModelLedger([record(2, 5, [5]), record(1, 5, [5])])
        #expect(ledger.records.map(\.key) == [[1], [2]])
        #expect(ledger.covers(ledger) && ledger.covers(ModelLedger()))
        #expect(ledger.covers(ModelLedger([record(1, 4, [9])])))
        #expect(ledger.covers(ModelLedger([record(1, 5, [4, 9])])))
        #expect(!ledger.covers(ModelLedger([record(1, 5, [5, 0])])))
        #expect(!ledger.covers(ModelLedger([record(1, 6, [])])))
        #expect(!ledger.covers(ModelLedger([record(3, 0, [])])))
        #expect(ledger.missing(of: ModelLedger([record(1, 1, []), record(3, 0, [])])) == record(3, 0, []))
        var erased = ModelLedger()
        erased.isErased = true
        #expect(erased.covers(ledger) && !ledger.covers(erased))
        #expect(ModelLedger.join(ledger, erased) == erased)
    }
}

extension [UInt8] {
    /// Corrects the checksums, if the lengths in the header are valid.
    fileprivate mutating func mendChecksums() {
        guard count >= 44 else { return }
        func number(_ offset: Int) -> Int { (0..<4).reduce(0) { $0 | Int(self[offset + $1]) << (8 * $1) } }
        let (run, section) = (number(12), number(16))
        if 44 + run + section == count {
            write(XXHash64.digest(of: self[44..<44 + run]), at: 20)
            write(XXHash64.digest(of: self[(44 + run)...]), at: 28)
        }
        write(XXHash64.digest(of: self[..<36]), at: 36)
    }

    private mutating func write(_ value: UInt64, at offset: Int) {
        for index in 0..<8 { self[offset + index] = UInt8(truncatingIfNeeded: value >> (8 * UInt64(index))) }
    }
}
