import ArgumentParser
import Entitlements

/// A closed range of seeds.
struct SeedRange: Equatable {
    var first: UInt64
    var last: UInt64

    /// Parses `A..B` or a single seed.
    init(_ text: String) throws(Failure) {
        let parts = text.split(separator: "..", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        first = try Self.seed(parts[0], in: text)
        last = parts.count == 2 ? try Self.seed(parts[1], in: text) : first
        guard first <= last else {
            throw Failure(.usage, "--seeds: \(first) comes after \(last); write \(last)..\(first)")
        }
    }

    private static func seed(_ part: String, in text: String) throws(Failure) -> UInt64 {
        guard let seed = UInt64(digits: part) else {
            throw Failure(
                .usage, "--seeds must be a number or a range A..B from 0 to \(UInt64.max), not \"\(text.singleLine)\"")
        }
        return seed
    }

    /// The number of seeds; `nil` for all seeds, whose number exceeds `UInt64`.
    var count: UInt64? { last - first == .max ? nil : last - first + 1 }
}

extension UInt64 {
    /// Parses digits only; `UInt64("+5")` would be 5.
    init?(digits text: String) {
        guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        self.init(text)
    }
}
