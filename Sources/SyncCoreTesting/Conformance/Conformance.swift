public import SyncCore

/// Checks that a backend fulfils the contract of `KeyValueBackend`.
///
/// Each check runs on a new, empty store. The store's capabilities and the operations that ``StoreUnderTest`` supplies
/// decide which checks apply. The others are reported as skipped, with the reason, and do not count as passed.
///
/// ```swift
/// let report = await Conformance.run(seed: 1) { MyBackend(folder: try temporaryFolder()) }
/// print(report)
/// #expect(report.hasPassed)
/// ```
public enum Conformance {
    /// Returns the reason to skip a check for a store; `nil` if it applies.
    typealias SkipRule = @Sendable (StoreUnderTest) -> String?

    /// Skips stores whose capabilities do not fulfil `condition`.
    static func undeclared(_ capability: String, _ condition: @escaping @Sendable (Capabilities) -> Bool) -> SkipRule {
        { condition($0.capabilities) ? nil : "the store declares no \(capability)" }
    }

    /// Skips stores for which an operation was not supplied.
    static func without<Operation>(
        _ name: String, _ operation: @escaping @Sendable (StoreUnderTest) -> Operation?
    ) -> SkipRule {
        { operation($0) == nil ? "no `\(name)` was supplied" : nil }
    }

    /// One requirement of the contract.
    public struct Check: Sendable {
        /// A sentence about the behaviour of the store.
        public let name: String
        let reasonToSkip: SkipRule
        let body: @Sendable (inout Trial) async throws -> Void

        init(
            _ name: String, skippedWhen reasonToSkip: @escaping SkipRule = { _ in nil },
            _ body: @escaping @Sendable (inout Trial) async throws -> Void
        ) {
            self.name = name
            self.reasonToSkip = reasonToSkip
            self.body = body
        }
    }

    /// All checks, in the order in which they run.
    public static let checks: [Check] =
        basics + preconditions + concurrency + linearizability + listings + batches + values + keys + cancellation
        + errors + changes + cursors + versions + signals + durability

    /// Runs all checks, one after another. Skips those that need more than a backend; supply these operations with
    /// ``run(seed:host:makeStore:)``.
    ///
    /// - Parameters:
    ///   - seed: The seed for random values, keys, page sizes and interleavings.
    ///   - host: The timer for the limit on waiting for a signal and for the durations of the checks.
    ///   - makeBackend: Creates a backend on a new, empty store. Called once per check; an error that it throws fails
    ///     the check.
    public static func run(
        seed: UInt64, host: HostServices = .system, makeBackend: @Sendable () async throws -> any KeyValueBackend
    ) async -> ConformanceReport {
        await run(seed: seed, host: host, makeStore: { StoreUnderTest(try await makeBackend()) })
    }

    /// Runs all checks, one after another, including those that need additional operations on the store.
    ///
    /// - Parameters:
    ///   - seed: The seed for random values, keys, page sizes and interleavings.
    ///   - host: The timer for the limit on waiting for a signal and for the durations of the checks.
    ///   - makeStore: Creates a new, empty store. Called once per check; an error that it throws fails the check.
    public static func run(
        seed: UInt64, host: HostServices = .system, makeStore: @Sendable () async throws -> StoreUnderTest
    ) async -> ConformanceReport {
        await run(seed: seed, host: host, where: { _ in true }, makeStore: makeStore)
    }

    /// Runs some of the checks. Each gets the same random numbers as in a full run.
    package static func run(
        seed: UInt64, host: HostServices = .system, where isWanted: (Check) -> Bool,
        makeStore: @Sendable () async throws -> StoreUnderTest
    ) async -> ConformanceReport {
        var generator = SeededGenerator(seed: seed)
        var results: [ConformanceReport.Result] = []
        var label: String?
        for check in checks {
            let checkGenerator = generator.split()
            guard isWanted(check) else { continue }
            var outcome = ConformanceReport.Outcome.passed
            let elapsed = host.stopwatch()
            do {
                let store = try await makeStore()
                label = store.backend.label
                outcome = try await check.outcome(on: store, generator: checkGenerator, host: host)
            } catch {
                outcome = .failed("\(error)")
            }
            results.append(ConformanceReport.Result(check: check.name, outcome: outcome, duration: elapsed()))
        }
        return ConformanceReport(label: label, seed: seed, results: results)
    }
}

extension Conformance.Check {
    fileprivate func outcome(
        on store: StoreUnderTest, generator: SeededGenerator, host: HostServices
    ) async throws -> ConformanceReport.Outcome {
        if let reason = reasonToSkip(store) { return .skipped(reason) }
        var trial = Trial(store: store, generator: generator, host: host)
        do {
            try await body(&trial)
            return .passed
        } catch let skip as Trial.Skip {
            return .skipped(skip.reason)
        }
    }
}
