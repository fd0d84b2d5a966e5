import Foundation
import SyncSimulation

/// `1 day`, `2 days`.
func plural(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }

extension UInt64 {
    /// A trace's hash as 16 hexadecimal digits.
    var hash: String { String(format: "%016llx", self) }
}

extension String {
    /// The text with spaces in place of line breaks.
    var onOneLine: String { split(whereSeparator: \.isNewline).joined(separator: " ") }

    /// The text, followed by spaces up to `width` characters, or preceded by them up to `-width`.
    func padded(_ width: Int) -> String {
        let padding = String(repeating: " ", count: max(0, abs(width) - count))
        return width < 0 ? padding + self : self + padding
    }
}

/// The first 20 of `lines`, and the number of the others.
func shortened(_ lines: [String]) -> [String] {
    lines.count > 20 ? lines.prefix(20) + ["  and \(lines.count - 20) more"] : lines
}

extension Double {
    /// The number with this many decimal digits.
    func text(digits: Int) -> String { String(format: "%.\(digits)f", self) }
}

extension Duration {
    /// The duration in seconds.
    var inSeconds: Double { Double(components.seconds) + Double(components.attoseconds) * 1e-18 }
}

extension Marks {
    /// The number of times that runs reached each state, by its name; 0 for states that were not reached.
    var counts: [String: Int] { Dictionary(uniqueKeysWithValues: Mark.allCases.map { ($0.rawValue, self[$0]) }) }
}

extension Encodable {
    /// A JSON object with sorted members.
    func json(_ formatting: JSONEncoder.OutputFormatting = .prettyPrinted) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = formatting.union([.sortedKeys, .withoutEscapingSlashes])
        return String(decoding: try encoder.encode(self), as: UTF8.self) + "\n"
    }
}
