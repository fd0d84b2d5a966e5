import EntitlementsTestSupport
import Testing

@testable import Entitlements

@Suite("Ids are compared as bytes and never normalized")
struct IdentifierTests {
    @Test(
        "Slashes, emoji, blanks, a leading combining mark and 255 bytes are accepted",
        arguments: [
            "a", "com.example/owl/🦉", " ", "\u{301}", "..", "%2F", "a\u{80}", String(repeating: "x", count: 255),
        ])
    func accepts(text: String) throws {
        try ProductID(text).validate()
    }

    @Test(
        "An empty id, more than 255 bytes, and control characters are rejected",
        arguments: [
            ("", "an id must not be empty"),
            (String(repeating: "x", count: 256), "an id must have at most 255 bytes, not 256"),
            (String(repeating: "🦉", count: 64), "an id must have at most 255 bytes, not 256"),
            ("a\u{0}b", "\"a\u{FFFD}b\" contains control characters, which an id must not"),
            ("a\nb", "\"a\u{FFFD}b\" contains control characters, which an id must not"),
            ("\r\n", "\"\u{FFFD}\u{FFFD}\" contains control characters, which an id must not"),
            ("a\u{7F}", "\"a\u{FFFD}\" contains control characters, which an id must not"),
        ])
    func refuses(text: String, reason: String) {
        #expect(throws: IdentifierError(reason: reason)) { try ProductID(text).validate() }
    }

    @Test("Two canonically equal spellings are two ids, in order of their bytes")
    func spellingsStayApart() {
        let composed: ProductID = "caf\u{E9}"
        let decomposed: ProductID = "cafe\u{301}"
        #expect(composed.rawValue == decomposed.rawValue)
        #expect(composed != decomposed)
        #expect(Set([composed, decomposed]).count == 2)
        #expect(decomposed < composed)
        #expect(!(composed < decomposed))
    }

    @Test("Ids are ordered as their UTF-8 is, where Swift's strings are not")
    func orderIsThatOfBytes() throws {
        try forAll("id order", cases: 5_000) { random, place in
            let left = ProductID(String(decoding: random.bytes(0...3).map { $0 & 0x7F }, as: UTF8.self))
            let right = ProductID.random(using: &random)
            let order = Array(left.rawValue.utf8).lexicographicallyPrecedes(Array(right.rawValue.utf8))
            try #require((left < right) == order, "\(place)")
            try #require(!(left < right && right < left), "\(place)")
            try #require((left == right) == (Array(left.rawValue.utf8) == Array(right.rawValue.utf8)), "\(place)")
        }
    }

    @Test("A transaction is ordered by store, environment and id, and described with slashes")
    func transactions() {
        let one = TransactionReference(store: "a", environment: "z", id: "9")
        let two = TransactionReference(store: "b", environment: "a", id: "1")
        let three = TransactionReference(store: "b", environment: "b", id: "0")
        #expect([three, two, one].sorted() == [one, two, three])
        #expect("\(TransactionReference(id: "7"))" == "reported/production/7")
    }

    @Test("A replica id has 16 bytes and reads as 32 hexadecimal digits")
    func replicas() throws {
        let replica = try #require(ReplicaID(bytes: [0, 1, 0x0F, 0x10] + [UInt8](repeating: 0xFF, count: 12)))
        #expect("\(replica)" == "00010f10ffffffffffffffffffffffff")
        #expect(ReplicaID(bytes: [UInt8](repeating: 0, count: 15)) == nil)
        #expect(ReplicaID(bytes: [UInt8](repeating: 0, count: 17)) == nil)
        var random = SplitMix64(seed: 1)
        let (first, second) = (ReplicaID.random(using: &random), ReplicaID.random(using: &random))
        #expect(first != second)
        #expect((first < second) == first.bytes.lexicographicallyPrecedes(second.bytes))
    }
}
