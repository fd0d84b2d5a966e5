import Entitlements
import Foundation
import Testing

@Suite("JSON is parsed according to RFC 8259")
struct JSONParserTests {
    private static func parse(_ text: String) throws -> JSON { try JSON(parsing: text.utf8) }

    @Test(
        "Valid texts are parsed",
        arguments: [
            ("null", .null), ("true", .bool(true)), (" false\r\n\t", .bool(false)),
            ("0", .number(0)), ("-0", .number(0)), ("-17", .number(-17)),
            ("9223372036854775807", .number(.max)), ("-9223372036854775808", .number(.min)),
            ("9223372036854775808", .decimal("9223372036854775808")), ("1.0", .decimal("1.0")),
            ("1e3", .decimal("1e3")), ("-0.5E-10", .decimal("-0.5E-10")), ("1e+999", .decimal("1e+999")),
            ("\"\"", .string("")), (#""\"\\\/\b\f\n\r\t""#, .string("\"\\/\u{8}\u{C}\n\r\t")),
            (#""\u00e9\uD83E\udd89""#, .string("é🦉")), (#""\u0000""#, .string("\u{0}")),
            ("\"\u{7F}\u{2028}\"", .string("\u{7F}\u{2028}")), ("[]", .array([])), ("{ }", .object([:])),
            ("[1,[ ],{\"a\":{}}]", .array([.number(1), .array([]), .object(["a": .object([:])])])),
            (#"{"":1,"a\u0062":2}"#, .object(["": .number(1), "ab": .number(2)])),
        ] as [(String, JSON)])
    func values(text: String, value: JSON) throws {
        #expect(try Self.parse(text) == value)
    }

    @Test("The lines of members and elements are kept by their paths")
    func lines() throws {
        let text = "{\"a\":\n [1,\n\n {\"b.c\": 2}],\r\n\"d\": \"\\n\"}"
        let located = try JSON.located(parsing: Array(text.utf8))
        #expect(located.value == (try Self.parse(text)))
        #expect(
            located.lines == [["a"]: 1, ["a", "[0]"]: 2, ["a", "[1]"]: 4, ["a", "[1]", "b.c"]: 4, ["d"]: 5])
    }

    @Test(
        "A syntax error is reported with line and column",
        arguments: [
            (" ", 1, 2, "the text ends where a value is expected"), ("\n\n x", 3, 2, "a value is expected here"),
            ("nul", 1, 1, "a value is expected here"), ("nullx", 1, 5, "unexpected text after the end"),
            ("True", 1, 1, "a value is expected here"), ("NaN", 1, 1, "a value is expected here"),
            ("+1", 1, 1, "a value is expected here"), (".5", 1, 1, "a value is expected here"),
            ("-", 1, 2, "a digit is expected"), ("1.", 1, 3, "a digit is expected"),
            ("1e", 1, 3, "a digit is expected"),
            ("1e+", 1, 4, "a digit is expected"), ("01", 1, 2, "a number must not have a leading zero"),
            ("-01", 1, 3, "a number must not have a leading zero"), ("0x1", 1, 2, "unexpected text after the end"),
            ("[1,]", 1, 4, "a value is expected here"), ("[1 2]", 1, 4, "\",\" or \"]\" is expected"),
            ("[", 1, 2, "the text ends where a value is expected"), ("[1", 1, 3, "\",\" or \"]\" is expected"),
            ("{", 1, 2, "a member name in quotes is expected"), ("{a:1}", 1, 2, "a member name in quotes is expected"),
            ("{\"a\" 1}", 1, 6, "\":\" is expected after a member name"),
            ("{\"a\":1,}", 1, 8, "a member name in quotes is expected"), ("{\"a\":}", 1, 6, "a value is expected here"),
            ("{\"a\":1", 1, 7, "\",\" or \"}\" is expected"), ("]", 1, 1, "a value is expected here"),
            ("\"", 1, 2, "the string is not terminated"), ("\"\\", 1, 3, "the string is not terminated"),
            ("\"a\nb\"", 1, 3, "a control character stands in a string, write it as \\u00XX"),
            ("\"\u{0}\"", 1, 2, "a control character stands in a string, write it as \\u00XX"),
            ("\"\\x\"", 1, 4, "invalid escape sequence in a string"),
            ("\"\\u12\"", 1, 6, "four hexadecimal digits are expected after \\u"),
            ("\"\\uD83Ex\"", 1, 8, "unpaired surrogate"),
            ("\"\\uDC00\"", 1, 8, "unpaired surrogate"),
            ("\"\\uD83E\\uD83E\"", 1, 14, "unpaired surrogate"),
            ("\u{FEFF}1", 1, 1, "a value is expected here"), ("1\u{0}", 1, 2, "unexpected text after the end"),
            ("// no\n1", 1, 1, "a value is expected here"), ("\u{A0}1", 1, 1, "a value is expected here"),
            ("{\"a\":1,\n\"a\":2}", 2, 1, "\"a\" is repeated"),
            ("{\"a\":1,\"\\u0061\":2}", 1, 8, "\"a\" is repeated"),
        ] as [(String, Int, Int, String)])
    func refuses(text: String, line: Int, column: Int, reason: String) {
        do {
            let value = try JSON(parsing: text.utf8)
            Issue.record("\(text) was read as \(value)")
        } catch {
            #expect(error.line == line)
            #expect(error.column == column)
            #expect(error.reason == reason)
        }
    }

    @Test("64 levels are accepted, 65 are rejected, and a million do not crash")
    func depth() throws {
        func nested(_ levels: Int, _ inner: String = "") -> String {
            String(repeating: "[", count: levels) + inner + String(repeating: "]", count: levels)
        }
        _ = try Self.parse(nested(64))
        _ = try Self.parse(nested(64, "1"))
        #expect(throws: InputError.self) { try Self.parse(nested(65)) }
        #expect(throws: InputError.self) { try Self.parse(nested(1_000_000)) }
        #expect(throws: InputError.self) { try Self.parse(String(repeating: "{\"a\":", count: 100_000)) }
    }

    @Test("Member names that differ only in normalization count as repeated")
    func canonicallyEqualNames() {
        #expect(throws: InputError.self) { try Self.parse(#"{"caf\u00e9":1,"cafe\u0301":2}"#) }
    }
}
