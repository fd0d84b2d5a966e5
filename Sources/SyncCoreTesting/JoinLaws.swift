import SyncCore

/// Checks that a merge of byte strings is a join: replicas reach the same bytes in whatever order, and however often,
/// they merge.
///
/// ```swift
/// let report = JoinLaws.check(cases: 10_000, seed: 1, join: Ledger.merge) { generator in
///     Ledger.random(using: &generator).encoded
/// }
/// #expect(report.holds, "\(report)")
/// ```
public enum JoinLaws {
    /// A law of joins.
    public enum Law: String, CaseIterable, Hashable, Sendable {
        /// `join(a, b) == join(b, a)`
        case commutativity
        /// `join(join(a, b), c) == join(a, join(b, c))`
        case associativity
        /// `join(a, a) == a`
        case idempotency
        /// `join(a, join(a, b)) == join(a, b)`
        case absorption
    }

    /// Three values that violate a law.
    public struct Counterexample: Sendable {
        /// The law.
        public let law: Law
        /// The number of the case, counted from 0.
        public let caseNumber: Int
        /// The drawn values a, b and c.
        public let values: [[UInt8]]
        /// The results of both sides of the law, or the errors that they threw.
        public let sides: [Result<[UInt8], any Error>]
    }

    /// The result of a check.
    public struct Report: Sendable, CustomStringConvertible {
        /// The number of cases; the last one is the failing one, if any.
        public let caseCount: Int
        /// The seed that reproduces the cases.
        public let seed: UInt64
        /// The first case that violated a law; `nil` if none did.
        public let counterexample: Counterexample?

        /// True if all laws held in all cases.
        public var holds: Bool { counterexample == nil }

        /// One line, or a few with the counterexample in hexadecimal.
        public var description: String {
            guard let counterexample else { return "join laws hold in \(caseCount) cases, seed \(seed)" }
            let values = zip(["a", "b", "c"], counterexample.values).map { "  \($0) = \(hexadecimal($1))" }
            let sides = zip(["left", "right"], counterexample.sides).map { name, side in
                switch side {
                case .success(let bytes): "  \(name) = \(hexadecimal(bytes))"
                case .failure(let error): "  \(name) threw \(error)"
                }
            }
            let heading = "\(counterexample.law) fails in case \(counterexample.caseNumber), seed \(seed)"
            return ([heading] + values + sides).joined(separator: "\n")
        }
    }

    /// Checks all laws on `caseCount` triples of values.
    ///
    /// - Parameters:
    ///   - caseCount: The number of triples, 1 or more.
    ///   - seed: The seed for the values.
    ///   - join: The merge. An error that it throws for generated values violates the law.
    ///   - value: Draws one value. Some triples repeat a value or contain joins of each other, which independent draws
    ///     rarely do.
    public static func check(
        cases caseCount: Int, seed: UInt64, join: ([UInt8], [UInt8]) throws -> [UInt8],
        value: (inout SeededGenerator) -> [UInt8]
    ) -> Report {
        precondition(caseCount >= 1, "caseCount must be 1 or more, not \(caseCount)")
        var generator = SeededGenerator(seed: seed)
        for number in 0..<caseCount {
            let a = value(&generator)
            var b = value(&generator)
            let c = Int.random(in: 0..<8, using: &generator) == 0 ? a : value(&generator)
            // An error here is thrown again below, where it is reported.
            if Int.random(in: 0..<8, using: &generator) == 0, let joined = try? join(a, b) { b = joined }
            for law in Law.allCases {
                let sides = law.sides(a, b, c, join: join)
                if case (.success(let left), .success(let right)) = sides, left == right { continue }
                return Report(
                    caseCount: number + 1, seed: seed,
                    counterexample: Counterexample(
                        law: law, caseNumber: number, values: [a, b, c], sides: [sides.0, sides.1]))
            }
        }
        return Report(caseCount: caseCount, seed: seed, counterexample: nil)
    }
}

extension JoinLaws.Law {
    fileprivate typealias Side = Result<[UInt8], any Error>

    fileprivate func sides(
        _ a: [UInt8], _ b: [UInt8], _ c: [UInt8], join: ([UInt8], [UInt8]) throws -> [UInt8]
    ) -> (Side, Side) {
        switch self {
        case .commutativity:
            (Side { try join(a, b) }, Side { try join(b, a) })
        case .associativity:
            (Side { try join(join(a, b), c) }, Side { try join(a, join(b, c)) })
        case .idempotency:
            (Side { try join(a, a) }, .success(a))
        case .absorption:
            (Side { try join(a, join(a, b)) }, Side { try join(a, b) })
        }
    }
}

private func hexadecimal(_ bytes: [UInt8]) -> String {
    let shown = Hexadecimal.text(bytes.prefix(256))
    return bytes.count > 256 ? "\(shown)… (\(bytes.count) bytes)" : (bytes.isEmpty ? "(empty)" : shown)
}
