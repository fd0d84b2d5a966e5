#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension Scenario {
    /// A regression test for a suite of Swift Testing. The scenario is embedded as JSON, see ``init(json:)``.
    ///
    /// - Parameters:
    ///   - violation: The violation that the scenario shows, for the test's name.
    ///   - subject: Swift source of the subject, such as `Subject(rules: ConflictRules(expiry: LatestExpiryWins()))`;
    ///     `nil` for the default.
    public func regressionTest(for violation: Violation?, subject: String? = nil) -> String {
        let name = "seed \(seed)" + (violation.map { ": \($0)" } ?? "")
        let call = subject.map { "Simulation(scenario, of: \($0))" } ?? "Simulation(scenario)"
        let indentation = String(repeating: " ", count: 12)
        let lines = Self.lines(of: compactJSON, width: 120 - indentation.count)
        return """
                @Test("\(Self.fitting(name))")
                func seed\(seed)() throws {
                    let json = #\"""
            \(lines.map { indentation + $0 }.joined(separator: "\n"))
            \(indentation)\"""#
                    let scenario = try Scenario(json: Array(json.utf8))
                    #expect(\(call).run().violations.isEmpty)
                }

            """
    }

    /// The scenario as JSON in ASCII without white space, with sorted members.
    private var compactJSON: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            // Characters that are invisible in source code, or change the order of the text, must be escaped.
            return String(decoding: try encoder.encode(self), as: UTF8.self).utf16.reduce(into: "") { text, unit in
                if unit < 0x7F {
                    text.unicodeScalars.append(Unicode.Scalar(UInt8(unit)))
                } else {
                    text += "\\u" + unit.digits(4, radix: 16)
                }
            }
        } catch {
            preconditionFailure("encoding a scenario as JSON failed: \(error)")
        }
    }

    /// Splits `json` after commas between values, so that each step begins a line and lines are no longer than `width`
    /// where possible.
    private static func lines(of json: String, width: Int) -> [String] {
        var values = [""]
        var (isQuoted, isEscaped) = (false, false)
        for character in json {
            if !isEscaped, character == "\"" { isQuoted.toggle() }
            isEscaped = isQuoted && !isEscaped && character == "\\"
            values[values.count - 1].append(character)
            if !isQuoted, character == "," { values.append("") }
        }
        return values.reduce(into: [""]) { lines, value in
            let isStep = value.hasPrefix("{\"action\"")
            if isStep || lines[lines.count - 1].count + value.count > width { lines.append("") }
            lines[lines.count - 1] += value
        }
    }

    /// The number of characters of a name that fit into a line of 120 characters.
    private static let nameLength = 104

    /// Escapes `name` for a string literal, and cuts it if it is too long for its line.
    private static func fitting(_ name: String) -> String {
        let whole = escaped(name)
        guard whole.count > nameLength else { return whole }
        // The name is cut before escaping, so that no escape sequence is split.
        var length = name.count
        while length > 0, escaped(String(name.prefix(length))).count >= nameLength { length -= 1 }
        return escaped(String(name.prefix(length))) + "…"
    }

    private static func escaped(_ text: String) -> String {
        text.unicodeScalars.reduce(into: "") { escaped, scalar in
            switch scalar {
            case "\"", "\\": escaped += "\\\(scalar)"
            case "\n": escaped += "\\n"
            case _ where invisible.contains(scalar.properties.generalCategory):
                escaped += "\\u{\(String(scalar.value, radix: 16, uppercase: true))}"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
    }

    private static let invisible: [Unicode.GeneralCategory] = [.control, .format, .lineSeparator, .paragraphSeparator]
}
