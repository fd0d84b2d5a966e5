import Checksums
import EntitlementsTestSupport
import Testing

@testable import Entitlements

@Suite("A ledger document has one encoding and reads back completely")
struct LedgerDocumentTests {
    @Test("Every ledger and local section read back as written")
    func roundTrips() throws {
        try forAll("documents round-trip", cases: 3_000) { random, place in
            let document = LedgerDocument(
                ledger: .random(using: &random), localSection: random.chance(1, in: 2) ? [] : random.bytes(1...40))
            let bytes = document.encoded()
            try #require(try LedgerDocument(decoding: bytes) == document, "\(place)")
            try #require(try LedgerDocument(decoding: bytes).encoded() == bytes, "\(place)")
            try #require(bytes.count == 44 + document.ledger.byteCount + document.localSection.count, "\(place)")
        }
    }

    @Test("An empty document is a header of 44 bytes")
    func empty() throws {
        let bytes = LedgerDocument().encoded()
        #expect(
            hex(bytes) == """
                45534c470100000000000000000000000000000099e9d85137db46ef99e9d85137db46ef\
                6739a13cefa4d5b6
                """)
        #expect(try LedgerDocument(decoding: bytes).ledger.isEmpty)
    }

    /// Checked field by field against Docs/ledger.proto and the layout in LedgerDocument.swift; the digests come from
    /// the reference implementation of xxHash. If this test fails, the format has changed and existing documents
    /// cannot be read: increase the format number.
    @Test("The encoding of a purchase and its revocation never changes")
    func goldenBytes() throws {
        let document = try Sample.document()
        let header = "45534c47" + "0100" + "0000" + "02000000" + "95000000" + "03000000"
        let digests = "b1aee80afd0397e1" + "506b79337d0b561c" + "0072c3dc85e85a20"
        let transaction = "1b" + "0a096170702d73746f7265" + "120a70726f64756374696f6e" + "1a023432"
        let purchaseKey = "0a" + transaction
        let purchaseOrder = "01" + "8000019c13eca1e8" + "0102030405060708"
        let terms = "1a0c" + "0a0672616e646f6d" + "12020803" + "7a021001"
        let purchase = "0a0c74687265652d6d6f6e746873" + "1212" + terms + "1880f8e4be8267" + "2002"
        let revocationKey = "1a" + transaction
        let revocationOrder = "00" + "8000000000000000" + "0000000000000001"
        let revocation = "0801" + "1204f09fa7be"
        let run =
            "1d112b" + purchaseKey + purchaseOrder + purchase + "1d1108" + revocationKey + revocationOrder + revocation
        #expect(hex(document.encoded()) == header + digests + run + "c0ffee")
    }

    @Test("The content digest identifies the ledger, independent of the local section")
    func contentDigest() throws {
        let document = try Sample.document()
        var other = document
        other.localSection = [1, 2, 3]
        #expect(document.contentDigest == other.contentDigest)
        #expect(document.contentDigest.count == 12)
        other.ledger = other.ledger.joined(with: Ledger([Record(key: [0xFF], order: [], payload: [])]))
        #expect(document.contentDigest != other.contentDigest)
    }

    @Test("Equal ledgers give equal bytes, regardless of the order of their records")
    func equalLedgersGiveEqualBytes() throws {
        try forAll("one spelling", cases: 1_000) { random, place in
            let records = (0..<10).map { _ in Record.random(using: &random) }
            let one = LedgerDocument(ledger: Ledger(records)).encoded()
            let other = LedgerDocument(ledger: Ledger(records.shuffled(using: &random) + records)).encoded()
            try #require(one == other, "\(place)")
        }
    }
}

/// A small document shared by the tests of the encoding.
enum Sample {
    static func document() throws -> LedgerDocument {
        let transaction = TransactionReference(store: .appStore, id: "42")
        let terms = Terms(
            kind: .nonRenewing(group: "random", duration: CalendarDuration(months: 3)),
            bonus: CalendarDuration(days: 1))
        let facts: [Fact] = [
            .purchase(
                Purchase(
                    transaction: transaction, product: "three-months", terms: terms,
                    date: try Timestamp("2026-01-31T12:00:00Z"), quantity: 2,
                    stamp: Stamp(
                        signedDate: try Timestamp("2026-01-31T12:00:01Z"),
                        logicalTime: LogicalTime(rawValue: 0x0102_0304_0506_0708)))),
            .revocation(
                Revocation(
                    transaction: transaction, revokedAt: try Timestamp("1969-12-31T23:59:59.999Z"), reason: "🧾",
                    stamp: Stamp(logicalTime: LogicalTime(rawValue: 1)))),
        ]
        return LedgerDocument(ledger: Ledger(facts.map(\.record)), localSection: [0xC0, 0xFF, 0xEE])
    }
}

func hex(_ bytes: [UInt8]) -> String {
    bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}
