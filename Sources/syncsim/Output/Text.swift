import Foundation
import SyncSimulation

/// `1 day`, `2 days`.
func plural(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }

extension UInt64 {
    /// A trace's hash as 16 hexadecimal digits.
    var hash: String {
        let digits = String(self, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
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
    func json() throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(self), as: UTF8.self) + "\n"
    }
}
