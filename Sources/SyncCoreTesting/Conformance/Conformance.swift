public import SyncCore

/// Checks that a store keeps the contract of `KeyValueBackend`.
///
/// Every check runs against a store of its own, made fresh and empty. Checks choose themselves by what the store
/// declares in its capabilities; what was skipped is reported with the reason, never counted as passed.
///
/// ```swift
/// let report = await Conformance.run(seed: 1) { MyBackend(folder: temporaryFolder()) }
/// print(report)
/// #expect(report.hasPassed)
/// ```
public enum Conformance {
    /// One thing that a store must do.
    public struct Check: Sendable {
        /// A sentence about the store's behaviour.
        public let name: String
        /// Why the check does not apply to a store with these capabilities, `nil` when it does.
        let reasonToSkip: @Sendable (Capabilities) -> String?
        let body: @Sendable (inout Trial) async throws -> Void

        init(
            _ name: String, skippedWhen reasonToSkip: @escaping @Sendable (Capabilities) -> String? = { _ in nil },
            _ body: @escaping @Sendable (inout Trial) async throws -> Void
        ) {
            self.name = name
            self.reasonToSkip = reasonToSkip
            self.body = body
        }
    }

    /// All checks, in the order in which they run.
    public static let checks: [Check] =
        basics + preconditions + concurrency + listings + batches + values + keys + cancellation + changes

    /// Runs all checks one after the other.
    ///
    /// - Parameters:
    ///   - seed: decides the values, keys and page sizes that are drawn.
    ///   - host: the timer that bounds the wait for a signal.
    ///   - makeBackend: makes a fresh, empty store; called once a check. An error that it throws fails the check.
    public static func run(
        seed: UInt64, host: HostServices = .system, makeBackend: @Sendable () async throws -> any KeyValueBackend
    ) async -> ConformanceReport {
        var generator = SeededGenerator(seed: seed)
        var results: [ConformanceReport.Result] = []
        for check in checks {
            let outcome: ConformanceReport.Outcome
            do {
                let backend = try await makeBackend()
                var trial = Trial(backend: backend, generator: generator.split(), host: host)
                if let reason = check.reasonToSkip(backend.capabilities) {
                    outcome = .skipped(reason)
                } else {
                    try await check.body(&trial)
                    outcome = .passed
                }
            } catch {
                outcome = .failed("\(error)")
            }
            results.append(ConformanceReport.Result(check: check.name, outcome: outcome))
        }
        return ConformanceReport(seed: seed, results: results)
    }
}

/// What a run of the conformance checks found.
public struct ConformanceReport: Sendable, CustomStringConvertible {
    /// How one check ended.
    public enum Outcome: Hashable, Sendable {
        /// The store does it.
        case passed
        /// The store does not, and this is what it did.
        case failed(String)
        /// The store does not claim to, for this reason.
        case skipped(String)
    }

    /// One check and how it ended.
    public struct Result: Hashable, Sendable {
        /// The check's name.
        public let check: String
        /// How it ended.
        public let outcome: Outcome
    }

    /// Gives the same run again.
    public let seed: UInt64
    /// One result a check, in the order in which they ran.
    public let results: [Result]

    /// Whether some checks passed and none failed.
    public var hasPassed: Bool { failures.isEmpty && results.contains { $0.outcome == .passed } }

    /// The checks that failed, with what the store did.
    public var failures: [(check: String, reason: String)] {
        results.compactMap { result in
            if case .failed(let reason) = result.outcome { (result.check, reason) } else { nil }
        }
    }

    /// The checks that do not apply, with the reason.
    public var skipped: [(check: String, reason: String)] {
        results.compactMap { result in
            if case .skipped(let reason) = result.outcome { (result.check, reason) } else { nil }
        }
    }

    /// A line a check, and a summary.
    public var description: String {
        let lines = results.map { result in
            switch result.outcome {
            case .passed: "passed   \(result.check)"
            case .failed(let reason): "FAILED   \(result.check)\n         \(reason)"
            case .skipped(let reason): "skipped  \(result.check) (\(reason))"
            }
        }
        let passedCount = results.count - failures.count - skipped.count
        let summary = "\(passedCount) passed, \(failures.count) failed, \(skipped.count) skipped, seed \(seed)"
        return (lines + [summary]).joined(separator: "\n")
    }
}
