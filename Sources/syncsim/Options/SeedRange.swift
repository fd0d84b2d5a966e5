import ArgumentParser
import Entitlements

/// A closed range of seeds.
struct SeedRange: Equatable {
    var first: UInt64
    var last: UInt64

    /// Parses `A..B` or a single seed.
    init(_ text: String) throws(Failure) {
        let parts = text.split(separator: "..", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let rule = "--seeds must be a number or a range A..B"
        first = try seedNumber(parts[0], rule, in: text)
        last = parts.count == 2 ? try seedNumber(parts[1], rule, in: text) : first
        guard first <= last else {
            throw Failure(.usage, "--seeds: \(first) comes after \(last); write \(last)..\(first)")
        }
    }

    /// The number of seeds; `nil` for all seeds, whose number exceeds `UInt64`.
    var count: UInt64? { last - first == .max ? nil : last - first + 1 }
}

/// Parses a seed.
///
/// - Parameters:
///   - digits: The seed. `UInt64` would also accept a sign.
///   - rule: The start of the message for another text: `--seed must be a number`.
///   - text: The whole value, for the message; by default the seed.
func seedNumber(_ digits: String, _ rule: String, in text: String? = nil) throws(Failure) -> UInt64 {
    guard digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let seed = UInt64(digits) else {
        throw Failure(.usage, "\(rule) from 0 to \(UInt64.max), not \"\((text ?? digits).singleLine)\"")
    }
    return seed
}
