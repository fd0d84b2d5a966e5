/// The results of a run of the conformance checks.
public struct ConformanceReport: Sendable, CustomStringConvertible {
    /// The outcome of one check.
    public enum Outcome: Hashable, Sendable {
        /// The store meets the requirement.
        case passed
        /// The store does not meet the requirement. The text describes the failure.
        case failed(String)
        /// The check does not apply, for this reason. The store does not claim the capability, or a necessary operation
        /// was not supplied.
        case skipped(String)

        /// The outcome as one word: `passed`, `failed` or `skipped`.
        package var word: String {
            switch self {
            case .passed: "passed"
            case .failed: "failed"
            case .skipped: "skipped"
            }
        }

        /// The description of the failure or the reason for skipping; `nil` if the check passed.
        public var reason: String? {
            switch self {
            case .passed: nil
            case .failed(let reason), .skipped(let reason): reason
            }
        }
    }

    /// The result of one check.
    public struct Result: Hashable, Sendable {
        /// The name of the check.
        public let check: String
        /// The outcome of the check.
        public let outcome: Outcome
        /// The duration of the check.
        public let duration: Duration
    }

    /// The label of the last backend that could be created; `nil` if none could.
    public let label: String?
    /// The seed that reproduces the run.
    public let seed: UInt64
    /// One result per check, in the order of execution.
    public let results: [Result]

    /// True if at least one check passed and none failed.
    public var hasPassed: Bool { failures.isEmpty && passedCount > 0 }

    /// The number of checks that passed.
    public var passedCount: Int { results.count { $0.outcome == .passed } }

    /// The checks that failed, with the reasons.
    public var failures: [(check: String, reason: String)] {
        results.compactMap { result in
            if case .failed(let reason) = result.outcome { (result.check, reason) } else { nil }
        }
    }

    /// The checks that were skipped, with the reasons.
    public var skipped: [(check: String, reason: String)] {
        results.compactMap { result in
            if case .skipped(let reason) = result.outcome { (result.check, reason) } else { nil }
        }
    }

    /// The counts and the seed: `41 passed, 0 failed, 6 skipped, seed 42`.
    public var summary: String {
        "\(passedCount) passed, \(failures.count) failed, \(skipped.count) skipped, seed \(seed)"
    }

    /// One line per check, a second line for each failure, and the summary.
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
