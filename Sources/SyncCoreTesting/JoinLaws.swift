/// Checks that a merge of byte strings is a join: that replicas which merge in any order, any number of times, end with
/// the same bytes.
///
/// ```swift
/// let report = JoinLaws.check(cases: 10_000, seed: 1, join: Ledger.merge) { generator in
///     Ledger.random(using: &generator).encoded
/// }
/// #expect(report.holds, "\(report)")
/// ```
public enum JoinLaws {
    /// What a join obeys.
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

    /// Three values for which a law does not hold.
    public struct Counterexample: Sendable {
        /// The law.
        public let law: Law
        /// The number of the case, from 0.
        public let caseNumber: Int
        /// The values that were drawn: a, b and c.
        public let values: [[UInt8]]
        /// What each side of the law gave, or the error that it threw instead.
        public let sides: [Result<[UInt8], any Error>]
    }

    /// What a check found.
    public struct Report: Sendable, CustomStringConvertible {
        /// How many cases were tried; the one that failed was the last.
        public let caseCount: Int
        /// Gives the same cases again.
        public let seed: UInt64
        /// The first case for which a law did not hold.
        public let counterexample: Counterexample?

        /// Whether all laws held in all cases.
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

    /// Tries all laws on `caseCount` triples of values.
    ///
    /// - Parameters:
    ///   - caseCount: 1 or more.
    ///   - seed: decides the values.
    ///   - join: the merge; an error that it throws for generated values breaks the law.
    ///   - value: draws one value. Some of the triples repeat a value or are joins of each other, which independent
    ///     draws hardly ever are.
    public static func check(
        cases caseCount: Int, seed: UInt64, join: ([UInt8], [UInt8]) throws -> [UInt8],
        value: (inout SeededGenerator) -> [UInt8]
    ) -> Report {
        precondition(caseCount >= 1, "a check tries 1 case or more")
        var generator = SeededGenerator(seed: seed)
        for number in 0..<caseCount {
            let a = value(&generator)
            var b = value(&generator)
            let c = Int.random(in: 0..<8, using: &generator) == 0 ? a : value(&generator)
            // A join that throws here throws again below, where that is reported.
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
    let shown = bytes.prefix(256).map { byte in (byte < 16 ? "0" : "") + String(byte, radix: 16) }.joined()
    return bytes.count > 256 ? "\(shown)… (\(bytes.count) bytes)" : (bytes.isEmpty ? "(empty)" : shown)
}
