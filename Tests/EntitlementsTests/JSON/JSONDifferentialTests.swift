import Entitlements
import EntitlementsTestSupport
import Foundation
import Testing

/// JSONParser and Foundation's parser agree where both follow RFC 8259. The known differences are not generated, or
/// are recognized below:
///
/// - A repeated member: JSONParser rejects it; Foundation keeps one of the values.
/// - A comma after the last element or member: JSONParser rejects it; Foundation accepts it.
/// - More than 64 levels: JSONParser rejects them; Foundation accepts up to 512.
/// - Numbers beyond `Double`: JSONParser keeps them as written; Foundation rejects them.
/// - A byte order mark, UTF-16 and UTF-32: JSONParser accepts only UTF-8; Foundation detects the encoding.
@Suite("The JSON parser agrees with Foundation's parser")
struct JSONDifferentialTests {
    @Test("Generated valid texts are read by both, with equal values")
    func validTexts() throws {
        try forAll("valid JSON", cases: 5_000) { random, place in
            let text = JSONText.random(depth: 4, using: &random)
            let ours = try JSON(parsing: text.utf8)
            let theirs = try JSONSerialization.jsonObject(with: Data(text.utf8), options: .fragmentsAllowed)
            try #require(agree(ours, theirs), "\(place): \(text)")
        }
    }

    @Test("Generated texts with a few bytes changed are accepted by both or rejected by both")
    func damagedTexts() throws {
        var (accepted, refused) = (0, 0)
        let cases = try forAll("damaged JSON", cases: 30_000) { random, place in
            var bytes = Array(JSONText.random(depth: 3, using: &random).utf8)
            for _ in 0..<random.int(1...2) { damage(&bytes, using: &random) }
            let ours = Result { () throws(InputError) in try JSON(parsing: bytes) }
            let theirs = Result { try JSONSerialization.jsonObject(with: Data(bytes), options: .fragmentsAllowed) }
            let text: Comment = "\(place): \(String(decoding: bytes, as: UTF8.self))"
            switch (ours, theirs) {
            case (.success(let ours), .success(let theirs)):
                accepted += 1
                try #require(agree(ours, theirs), text)
            case (.failure, .failure):
                refused += 1
            case (.failure(let error), .success):
                try #require(isKnownDifference(error, in: bytes), text)
            case (.success(let value), .failure):
                try #require(holdsHugeNumber(value), text)
            }
        }
        // The mutations reach both outcomes, so agreement is significant.
        #expect(accepted * 10 > cases)
        #expect(refused * 10 > cases)
    }

    private func damage(_ bytes: inout [UInt8], using random: inout SplitMix64) {
        guard !bytes.isEmpty else { return }
        let index = Int(random.int(0...Int64(bytes.count - 1)))
        // No NUL and no 0xEF, from which Foundation infers another encoding.
        let byte = random.pick(Array("{}[]:,\"\\ntfu0e.-+/ \n\t1aD".utf8) + [0x01, 0x1F, 0x7F, 0x80, 0xC3, 0xFF])
        switch random.int(0...3) {
        case 0: bytes[index] = byte
        case 1: bytes.insert(byte, at: index)
        case 2: bytes.remove(at: index)
        default: bytes.removeLast(bytes.count - index)
        }
    }

    private func agree(_ ours: JSON, _ theirs: Any) -> Bool {
        switch ours {
        case .null: return theirs is NSNull
        case .bool(let flag): return (theirs as? NSNumber)?.boolValue == flag
        case .number(let number): return (theirs as? NSNumber)?.int64Value == number
        case .decimal(let text):
            // JSONParser keeps the text; Foundation rounds through a decimal number, so the last digits may differ.
            guard let number = theirs as? NSNumber, let expected = Double(text) else { return false }
            return abs(number.doubleValue - expected) <= abs(expected) * 1e-12
        case .string(let text):
            guard let other = theirs as? String else { return false }
            return text.utf8.elementsEqual(other.utf8)
        case .array(let elements):
            guard let others = theirs as? [Any], others.count == elements.count else { return false }
            return zip(elements, others).allSatisfy { agree($0, $1) }
        case .object(let members):
            guard let others = theirs as? [String: Any], others.count == members.count else { return false }
            return members.allSatisfy { name, value in others[name].map { agree(value, $0) } ?? false }
        }
    }

    private func isKnownDifference(_ error: InputError, in bytes: [UInt8]) -> Bool {
        if error.reason.contains("is repeated") { return true }
        let lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false)
        let offset = lines[..<((error.line ?? 1) - 1)].reduce(0) { $0 + $1.count + 1 } + (error.column ?? 1) - 1
        let before = bytes[..<offset].last { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
        let isClosing = offset < bytes.count && Array("]}".utf8).contains(bytes[offset])
        return isClosing && before == UInt8(ascii: ",")
    }

    private func holdsHugeNumber(_ value: JSON) -> Bool {
        switch value {
        case .decimal(let text): Double(text).map(\.isInfinite) ?? true
        case .array(let elements): elements.contains(where: holdsHugeNumber)
        case .object(let members): members.contains { holdsHugeNumber($0.1) }
        default: false
        }
    }
}

/// Random JSON texts, with everything that the grammar allows: escapes, exponents, white space in every place.
private enum JSONText {
    static func random(depth: Int, using random: inout SplitMix64) -> String {
        let kind = random.int(0...(depth > 0 ? 7 : 5))
        let text =
            switch kind {
            case 0: random.pick(["null", "true", "false"])
            case 1, 2: number(using: &random)
            case 3, 4, 5: string(using: &random)
            case 6:
                "["
                    + (0..<random.int(0...4)).map { _ in Self.random(depth: depth - 1, using: &random) }
                    .joined(separator: ",") + (random.chance(1, in: 8) ? "" : space(using: &random)) + "]"
            default:
                "{"
                    + (0..<random.int(0...4)).map { index in
                        // The index makes the names unique.
                        space(using: &random) + "\"\(index)" + string(using: &random).dropFirst()
                            + space(using: &random) + ":" + Self.random(depth: depth - 1, using: &random)
                    }.joined(separator: ",") + "}"
            }
        return space(using: &random) + text + space(using: &random)
    }

    private static func space(using random: inout SplitMix64) -> String {
        random.pick(["", "", "", " ", "\n", "\t\r\n "])
    }

    private static func number(using random: inout SplitMix64) -> String {
        let sign = random.pick(["", "-"])
        let whole = random.pick([
            "0", "1", "42", "9007199254740993", "9223372036854775807", "\(random.int(1...999_999))",
        ])
        let fraction = random.pick(["", "", ".0", ".25", ".001"])
        let exponent = random.pick(["", "", "", "e2", "E-3", "e+1"])
        return sign + whole + fraction + exponent
    }

    private static func string(using random: inout SplitMix64) -> String {
        let parts = [
            "a", "owl", "é", "🦉", "\u{2028}", "\u{7F}", #"\n"#, #"\""#, #"\\"#, #"\/"#, #"\u0041"#, #"\u00E9"#,
            #"\uD83E\uDD89"#, #"\u0000"#, "e\u{301}",
        ]
        return "\"" + (0..<random.int(0...4)).map { _ in random.pick(parts) }.joined() + "\""
    }
}
