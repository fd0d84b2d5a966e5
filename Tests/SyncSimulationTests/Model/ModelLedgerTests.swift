import Checksums
import Entitlements
import EntitlementsTestSupport
import Testing

@testable import SyncSimulation

@Suite("The model's ledger")
struct ModelLedgerTests {
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

    @Test("A record that a ledger does not cover is missing")
    func missing() {
        func record(_ key: UInt8, _ order: UInt8) -> ModelRecord {
            ModelRecord(key: [key], order: [order], payload: [])
        }
        let ledger = ModelLedger([record(2, 5), record(1, 5)])
        #expect(ledger.missing(of: ModelLedger([record(1, 1), record(3, 0)])) == record(3, 0))
        #expect(ledger.missing(of: ModelLedger([record(1, 1)])) == nil)
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
