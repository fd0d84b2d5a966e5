import EntitlementsTestSupport
import Testing

@testable import Entitlements

@Suite("Joining ledgers is a union by key, independent of the content of records")
struct LedgerJoinTests {
    @Test("Commutative, associative, idempotent and absorbing, over every kind of record, known or not")
    func joinLaws() throws {
        try forAll("join laws", cases: 10_000) { random, place in
            let (a, b, c) = (
                Ledger.random(using: &random), Ledger.random(using: &random), Ledger.random(using: &random)
            )
            let union = a.joined(with: b)
            try #require(union == b.joined(with: a), "commutative; \(place)")
            try #require(union.joined(with: c) == a.joined(with: b.joined(with: c)), "associative; \(place)")
            try #require(a.joined(with: a) == a, "idempotent; \(place)")
            try #require(union.joined(with: a) == union && b.joined(with: union) == union, "absorbing; \(place)")
            try #require(a.joined(with: Ledger()) == a && Ledger().joined(with: a) == a, "neutral; \(place)")
            try #require(union.count == union.records.count, "\(place)")
        }
    }

    @Test("A join equals a dictionary of the largest record for each key")
    func agreesWithModel() throws {
        try forAll("join model", cases: 10_000) { random, place in
            let left = (0..<random.int(0...10)).map { _ in Record.random(using: &random) }
            let right = (0..<random.int(0...10)).map { _ in
                left.isEmpty || random.chance(2, in: 3) ? Record.random(using: &random) : random.pick(left)
            }
            let (leftModel, rightModel) = (Model(left), Model(right))
            let unionModel = Model(left + right)
            let join = Ledger.join(Ledger(left), Ledger(right))
            try #require(join.ledger.records == unionModel.records, "\(place)")
            try #require(join.ledger == Ledger(left + right), "\(place)")
            try #require(join.leftLacks == (leftModel.records != unionModel.records), "left lacks; \(place)")
            try #require(join.rightLacks == (rightModel.records != unionModel.records), "right lacks; \(place)")
            for record in left + right {
                try #require(join.ledger[record.key] == unionModel.byKey[record.key], "\(place)")
            }
        }
    }

    @Test("Of two records with one key, the larger order is kept; of equal orders, the larger payload")
    func largerStays() {
        func record(_ order: [UInt8], _ payload: [UInt8]) -> Record { Record(key: [1], order: order, payload: payload) }
        let ascending = [
            record([], [9, 9]), record([0], []), record([0], [0]), record([0], [0, 0]), record([0], [0xFF]),
            record([0, 0], []), record([1], []), record([0x80], []), record([0xFF], [1]),
        ]
        for (index, smaller) in ascending.enumerated() {
            for larger in ascending[(index + 1)...] {
                let join = Ledger.join(Ledger([smaller]), Ledger([larger]))
                #expect(join.ledger.records == [larger])
                #expect(join.leftLacks)
                #expect(!join.rightLacks)
            }
        }
    }

    @Test("Equal ledgers lack nothing, and an empty ledger lacks every record")
    func lacks() {
        let ledger = Ledger([Record(key: [1], order: [], payload: [])])
        let same = Ledger.join(ledger, Ledger(ledger.records))
        #expect(!same.leftLacks && !same.rightLacks)
        let none = Ledger.join(Ledger(), Ledger())
        #expect(!none.leftLacks && !none.rightLacks && none.ledger.isEmpty)
        let first = Ledger.join(Ledger(), ledger)
        #expect(first.leftLacks && !first.rightLacks && first.ledger == ledger)
        let second = Ledger.join(ledger, Ledger())
        #expect(!second.leftLacks && second.rightLacks && second.ledger == ledger)
    }

    @Test("Records of every size are copied byte by byte, at each boundary of their length's encoding")
    func sizes() throws {
        let sizes = [1, 127, 128, 129, 16_383, 16_384, LedgerLimits.maximumPartByteCount]
        let records = sizes.enumerated().map { index, size in
            Record(
                key: [UInt8(index)] + [UInt8](repeating: 7, count: size - 1),
                order: [UInt8](repeating: 8, count: index), payload: [UInt8](repeating: UInt8(index), count: size))
        }
        let even = Ledger(records.enumerated().filter { $0.offset.isMultiple(of: 2) }.map(\.element))
        let odd = Ledger(records.enumerated().filter { !$0.offset.isMultiple(of: 2) }.map(\.element))
        let union = even.joined(with: odd)
        #expect(union.records == records)
        #expect(try LedgerDocument(decoding: LedgerDocument(ledger: union).encoded()).ledger == union)
    }

    @Test("Records of unknown kinds, with unknown fields or with random bytes survive a merge unchanged")
    func strangersSurvive() throws {
        try forAll("strangers survive", cases: 2_000) { random, place in
            let stranger = Record(
                key: [0xFF] + random.bytes(1...20), order: random.bytes(0...20), payload: random.bytes(0...200))
            let mine = Ledger([stranger]).joined(with: .random(using: &random))
            let theirs = Ledger.random(using: &random).joined(with: mine)
            let read = try LedgerDocument(decoding: LedgerDocument(ledger: theirs).encoded()).ledger
            try #require(read[stranger.key] == stranger, "\(place)")
            try #require(Fact(stranger).record == stranger, "\(place)")
        }
    }

    @Test("Any order, repetition and interruption of exchanges among five replicas ends in the same bytes")
    func replicasConverge() throws {
        try forAll("replicas converge", cases: 500) { random, place in
            var replicas = (0..<5).map { _ in Ledger.random(upTo: 6, using: &random) }
            let all = replicas.reduce(Ledger()) { $0.joined(with: $1) }
            for _ in 0..<random.int(0...20) {
                let (from, to) = (Int(random.int(0...4)), Int(random.int(0...4)))
                replicas[to] = replicas[to].joined(with: replicas[from])
            }
            for index in replicas.indices { replicas[0] = replicas[0].joined(with: replicas[index]) }
            for index in replicas.indices { replicas[index] = replicas[index].joined(with: replicas[0]) }
            try #require(replicas.allSatisfy { $0 == all }, "\(place)")
            let rest = Ledger.join(replicas[1], replicas[4])
            try #require(!rest.leftLacks && !rest.rightLacks, "\(place)")
        }
    }
}

/// A reference implementation of a ledger with a dictionary and a comparison of arrays.
private struct Model {
    var byKey: [[UInt8]: Record] = [:]

    init(_ records: [Record]) {
        for record in records {
            guard let held = byKey[record.key] else {
                byKey[record.key] = record
                continue
            }
            let isLarger =
                held.order == record.order
                ? held.payload.lexicographicallyPrecedes(record.payload)
                : held.order.lexicographicallyPrecedes(record.order)
            if isLarger { byKey[record.key] = record }
        }
    }

    var records: [Record] {
        byKey.values.sorted { $0.key.lexicographicallyPrecedes($1.key) }
    }
}
