import Foundation
import SyncSimulation

/// `1 day`, `2 days`.
func plural(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }

extension UInt64 {
    /// A trace's hash: 16 hexadecimal digits.
    var hash: String {
        let digits = String(self, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}

extension Double {
    /// With so many digits after the point.
    func text(digits: Int) -> String { String(format: "%.\(digits)f", self) }
}

extension Duration {
    /// In seconds.
    var inSeconds: Double { Double(components.seconds) + Double(components.attoseconds) * 1e-18 }
}

extension Marks {
    /// How often runs came to each state, by its name; 0 for those that were not reached.
    var counts: [String: Int] { Dictionary(uniqueKeysWithValues: Mark.allCases.map { ($0.rawValue, self[$0]) }) }
}

extension Encodable {
    /// One JSON object, members in the order of their names.
    func json() throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(self), as: UTF8.self) + "\n"
    }
}
