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
    /// One requirement of the contract.
    public struct Check: Sendable {
        /// A sentence about the behaviour of the store.
        public let name: String
        /// Returns the reason to skip the check for a store; `nil` if it applies.
        let reasonToSkip: @Sendable (StoreUnderTest) -> String?
        let body: @Sendable (inout Trial) async throws -> Void

        init(
            _ name: String, skippedWhen reasonToSkip: @escaping @Sendable (StoreUnderTest) -> String? = { _ in nil },
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
            let duration = await measuring(host.timer) {
                do {
                    let store = try await makeStore()
                    label = store.backend.label
                    outcome = try await check.outcome(on: store, generator: checkGenerator, host: host)
                } catch {
                    outcome = .failed("\(error)")
                }
            }
            results.append(ConformanceReport.Result(check: check.name, outcome: outcome, duration: duration))
        }
        return ConformanceReport(label: label, seed: seed, results: results)
    }

    private static func measuring(_ timer: some Clock<Duration>, _ body: () async -> Void) async -> Duration {
        let begin = timer.now
        await body()
        return begin.duration(to: timer.now)
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
