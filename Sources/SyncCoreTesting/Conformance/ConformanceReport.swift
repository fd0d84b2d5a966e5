/// What a run of the conformance checks found.
public struct ConformanceReport: Sendable, CustomStringConvertible {
    /// How one check ended.
    public enum Outcome: Hashable, Sendable {
        /// The store does it.
        case passed
        /// The store does not, and this is what it did.
        case failed(String)
        /// It was not tried, for this reason: the store does not claim to, or its owner gave no way to try.
        case skipped(String)

        /// One word: `passed`, `failed` or `skipped`.
        public var word: String {
            switch self {
            case .passed: "passed"
            case .failed: "failed"
            case .skipped: "skipped"
            }
        }

        /// What the store did, or why it was not tried; `nil` when it passed.
        public var reason: String? {
            switch self {
            case .passed: nil
            case .failed(let reason), .skipped(let reason): reason
            }
        }
    }

    /// One check and how it ended.
    public struct Result: Hashable, Sendable {
        /// The check's name.
        public let check: String
        /// How it ended.
        public let outcome: Outcome
        /// How long it took.
        public let duration: Duration
    }

    /// The store's name for people, from the last store that could be made; `nil` when none could.
    public let label: String?
    /// Gives the same run again.
    public let seed: UInt64
    /// One result a check, in the order in which they ran.
    public let results: [Result]

    /// Whether some checks passed and none failed.
    public var hasPassed: Bool { failures.isEmpty && passedCount > 0 }

    /// How many checks passed.
    public var passedCount: Int { results.count { $0.outcome == .passed } }

    /// The checks that failed, with what the store did.
    public var failures: [(check: String, reason: String)] {
        results.compactMap { result in
            if case .failed(let reason) = result.outcome { (result.check, reason) } else { nil }
        }
    }

    /// The checks that were not tried, with the reason.
    public var skipped: [(check: String, reason: String)] {
        results.compactMap { result in
            if case .skipped(let reason) = result.outcome { (result.check, reason) } else { nil }
        }
    }

    /// `41 passed, 0 failed, 6 skipped, seed 42`.
    public var summary: String {
        "\(passedCount) passed, \(failures.count) failed, \(skipped.count) skipped, seed \(seed)"
    }

    /// A line a check, another for the reason of a failure, and a summary.
    public var description: String {
        let lines = results.map { result in
            switch result.outcome {
            case .passed: "passed   \(result.check)"
            case .failed(let reason): "FAILED   \(result.check)\n         \(reason)"
            case .skipped(let reason): "skipped  \(result.check) (\(reason))"
            }
        }
        return (lines + [summary]).joined(separator: "\n")
    }
}
