import EntitlementsTestSupport
import Testing

@testable import Entitlements

@Suite("An unreadable record is kept, synced unchanged, and has no effect")
struct UnreadableFactTests {
    private static let transaction: [UInt8] = [0x0A, 1, 0x73, 0x12, 1, 0x65, 0x1A, 1, 0x31]  // s/e/1
    private static let key: [UInt8] = [0x0A, 9] + transaction
    private static let order = [UInt8](repeating: 0, count: 17)
    private static let owl: [UInt8] = [0x0A, 3, 0x6F, 0x77, 0x6C]

    private static func reason(key: [UInt8] = key, order: [UInt8] = order, payload: [UInt8] = owl) -> String? {
        guard case .unreadable(_, let reason) = Fact(Record(key: key, order: order, payload: payload)) else {
            return nil
        }
        return reason
    }

    @Test("The record from which the invalid ones are derived is readable")
    func baseline() {
        #expect(Self.reason() == nil)
    }

    @Test(
        "Invalid keys are unreadable",
        arguments: [
            ([0x22, 0], "a transaction lacks a store, an environment or an id"),
            ([0x2A, 0], "an assertion lacks a group, a source or an environment"),
            ([0xC2, 0x0C, 1, 7], "a kind of fact that this version does not know"),
            ([], "the key is empty"),
            ([0], "a field number is out of range"),
            ([0x0B], "wire type 3 is not proto3"),
            ([0x0A], "a number runs past the end"),
            ([0x0A, 10] + transaction, "a field runs past the end"),
            ([0x08, 1], "a length-delimited field is expected"),
            ([0x0A, 0], "a transaction lacks a store, an environment or an id"),
            ([0x0A, 6] + transaction[..<6], "a transaction lacks a store, an environment or an id"),
            ([0x0A, 2, 0x0A, 0], "an id must not be empty"),
            ([0x0A, 3, 0x0A, 1, 0x0A], "\"\u{FFFD}\" contains control characters, which an id must not"),
            ([0x0A, 4, 0x0A, 2, 0xC3, 0x28], "a text is not UTF-8"),
            // The same transaction in other encodings: another field order, a padded length, a repeated field.
            ([0x0A, 9, 0x12, 1, 0x65, 0x0A, 1, 0x73, 0x1A, 1, 0x31], "the key is not written canonically"),
            ([0x0A, 0x89, 0] + transaction, "the key is not written canonically"),
            ([0x8A, 0, 9] + transaction, "the key is not written canonically"),
            (key + key, "the key is not written canonically"),
            (key + [0x78, 1], "the key is not written canonically"),
            ([0x0A, 12, 0x0A, 1, 0x72] + transaction, "the key is not written canonically"),
            ([0x12, 11, 0x0A, 9] + transaction, "a recording lacks a transaction or a replica"),
            ([0x12, 14, 0x0A, 9] + transaction + [0x12, 1, 7], "a replica id has 16 bytes"),
            ([0x32, 0], "a flag lacks a product or an environment"),
            ([0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02], "a number is longer than 64 bits"),
        ] as [([UInt8], String)])
    func keys(key: [UInt8], reason: String) {
        #expect(Self.reason(key: key) == reason)
    }

    @Test(
        "Invalid orders are unreadable",
        arguments: [[], [UInt8](repeating: 0, count: 16), [UInt8](repeating: 0, count: 18), [2] + order[1...]]
            as [[UInt8]])
    func orders(order: [UInt8]) {
        #expect(Self.reason(order: order) == "the order is malformed")
    }

    @Test(
        "Invalid payloads of a purchase are unreadable",
        arguments: [
            ([], "a purchase lacks its product"), ([0x0A, 0], "an id must not be empty"),
            ([0x08, 1], "a length-delimited field is expected"), (owl + [0x18], "a number runs past the end"),
            (owl + [0x1A, 0], "a number is expected"), (owl + [0x12, 0x7F], "a field runs past the end"),
            (owl + [0x12, 2, 0x1A, 0], "a subscription lacks its group"),
            (owl + [0x12, 2, 0x10, 1], "a length-delimited field is expected"),
            (owl + [0x12, 5, 0x1A, 3, 0x0A, 1, 0], "\"\u{FFFD}\" contains control characters, which an id must not"),
            (owl + [0x2A, 0], "an id must not be empty"), (owl + [0x19, 1], "a field runs past the end"),
            (owl + [0x20] + [UInt8](repeating: 0xFF, count: 9) + [1], "a count is out of range"),
            (owl + [0x74], "wire type 4 is not proto3"),
        ] as [([UInt8], String)])
    func payloads(payload: [UInt8], reason: String) {
        #expect(Self.reason(payload: payload) == reason)
    }

    @Test("A revocation without a date is a statement of an unknown kind")
    func revocationOfAnotherKind() {
        #expect(
            Self.reason(key: [0x1A, 9] + Self.transaction, payload: [])
                == "a revocation of a kind that this version does not know")
    }

    @Test("Terms of an unknown kind are dropped, so that a catalogue values the purchase")
    func unknownTerms() {
        let fact = Fact(Record(key: Self.key, order: Self.order, payload: Self.owl + [0x12, 3, 0x2A, 1, 7]))
        guard case .purchase(let purchase) = fact else {
            Issue.record("\(fact) is not a purchase")
            return
        }
        #expect(purchase.product == "owl")
        #expect(purchase.terms == nil)
    }

    @Test("Unknown fields of every wire type and size in a payload are skipped")
    func unknownFields() throws {
        let strangers: [[UInt8]] = [
            [0x78, 0x96, 0x01], [0x79, 1, 2, 3, 4, 5, 6, 7, 8], [0x7A, 2, 0xFF, 0xFF], [0x7D, 1, 2, 3, 4],
            [0xF8, 0xFF, 0xFF, 0xFF, 0x0F, 1],
        ]
        let plain = Fact(Record(key: Self.key, order: Self.order, payload: Self.owl))
        for stranger in strangers {
            #expect(Fact(Record(key: Self.key, order: Self.order, payload: stranger + Self.owl + stranger)) == plain)
        }
    }

    @Test("The last value of a repeated field counts, including messages")
    func repeatedFields() throws {
        let oneMonth: [UInt8] = [0x12, 9, 0x1A, 7, 0x0A, 1, 0x67, 0x12, 2, 0x08, 1]
        let twoDays: [UInt8] = [0x12, 9, 0x1A, 7, 0x0A, 1, 0x67, 0x12, 2, 0x10, 2]
        let payload = [0x0A, 1, 0x61] + Self.owl + [0x20, 9, 0x20, 2] + oneMonth + twoDays
        guard case .purchase(let purchase) = Fact(Record(key: Self.key, order: Self.order, payload: payload)) else {
            Issue.record("expected a purchase")
            return
        }
        #expect(purchase.product == "owl")
        #expect(purchase.quantity == 2)
        #expect(purchase.terms == Terms(kind: .nonRenewing(group: "g", duration: CalendarDuration(days: 2))))
    }

    @Test("Any bytes in key, order and payload are a fact or kept unchanged, and never crash a replay")
    func randomRecords() throws {
        let catalog = try Shop.catalog()
        try forAll("random records", cases: 10_000) { random, place in
            var record = Fact.random(using: &random).record
            switch random.int(0...3) {
            case 0: record.key[Int(random.int(0...Int64(record.key.count - 1)))] = random.bytes(1...1)[0]
            case 1: record.payload = random.bytes(0...30)
            case 2: record.payload.removeLast(Int(random.int(0...Int64(record.payload.count))))
            default: record.order = random.bytes(0...30)
            }
            if case .unreadable(let kept, _) = Fact(record) { try #require(kept == record, "\(place)") }
            let ledger = Ledger([record])
            let replay = Replay(Facts(account: ledger, device: ledger), catalog: catalog)
            try #require(replay.snapshot(at: .random(using: &random)).balances.allSatisfy { $0.units >= 0 }, "\(place)")
        }
    }

    @Test("A readable key is the only encoding of its fact: it is written back unchanged")
    func onlyEncoding() throws {
        var readableCount = 0
        let cases = try forAll("encodings of keys", cases: 20_000) { random, place in
            var record = Fact.random(using: &random).record
            for _ in 0..<random.int(0...2) {
                let index = Int(random.int(0...Int64(record.key.count - 1)))
                switch random.int(0...3) {
                case 0: record.key[index] = random.bytes(1...1)[0]
                case 1: record.key.insert(contentsOf: random.pick([[0], [0x80], [0x12, 0], [0x18, 0]]), at: index)
                case 2: record.key += random.pick([[0x78, 1], [0x12, 0], record.key])
                default: record.key.remove(at: index)
                }
                // The length of the message often fits again.
                if random.chance(1, in: 2), (2...129).contains(record.key.count) {
                    record.key[1] = UInt8(record.key.count - 2)
                }
                if record.key.isEmpty { record.key = [0] }
            }
            let fact = Fact(record)
            if case .unreadable = fact { return }
            readableCount += 1
            try #require(fact.record.key == record.key, "\(place)")
        }
        #expect(readableCount * 4 > cases)
    }

    @Test("Unreadable records are listed, grant nothing, and survive a merge")
    func countNothing() throws {
        let strange = Record(key: Self.key, order: Self.order, payload: [0x18])
        let ledger = try Story().buying(Shop.owl, at: "2026-01-01", transaction: "A").ledger
        let union = ledger.joined(with: Ledger([strange]))
        #expect(union[strange.key] == strange)
        let facts = Facts(account: union)
        #expect(facts.unreadable == [.unreadable(strange, reason: "a number runs past the end")])
        #expect(facts.purchases.count == 1)
    }
}
