import ArgumentParser
import Entitlements

/// Seeds from a first to a last one, both included.
struct SeedRange: Equatable {
    var first: UInt64
    var last: UInt64

    /// `A..B`, or a single seed.
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
                .usage, "--seeds: \"\(text.singleLine)\" is neither A..B nor a number, 0 to \(UInt64.max) each")
        }
        return seed
    }

    /// How many; `nil` for all of them, one more than the largest number.
    var count: UInt64? { last - first == .max ? nil : last - first + 1 }
}

extension UInt64 {
    /// Digits and nothing else: `UInt64("+5")` is 5.
    init?(digits text: String) {
        guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        self.init(text)
    }
}
