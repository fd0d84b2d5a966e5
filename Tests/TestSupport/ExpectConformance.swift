public import SyncCore
public import SyncCoreTesting
public import Testing

/// Runs the conformance checks and records each failure as an issue of the running test. Prints the report, so that
/// skipped checks are visible, and returns it.
@discardableResult
public func expectConformance(
    of label: String, seed: UInt64 = .random(in: .min ... .max), sourceLocation: SourceLocation = #_sourceLocation,
    makeBackend: @Sendable () async throws -> any KeyValueBackend
) async -> ConformanceReport {
    await expectConformance(of: label, seed: seed, sourceLocation: sourceLocation) {
        StoreUnderTest(try await makeBackend())
    }
}

/// Runs the conformance checks, including those that need additional operations on the store. Otherwise like the
/// function above.
@discardableResult
public func expectConformance(
    of label: String, seed: UInt64 = .random(in: .min ... .max), sourceLocation: SourceLocation = #_sourceLocation,
    makeStore: @Sendable () async throws -> StoreUnderTest
) async -> ConformanceReport {
    let report = await Conformance.run(seed: seed, makeStore: makeStore)
    print("conformance of \(label):\n\(report)")
    for failure in report.failures {
        Issue.record("\(failure.check): \(failure.reason) (seed \(report.seed))", sourceLocation: sourceLocation)
    }
    #expect(report.hasPassed, sourceLocation: sourceLocation)
    return report
}

/// Returns a seed for this run and prints it, so that a failure can be reproduced with that seed.
public func printedSeed(_ test: String) -> UInt64 {
    let seed = UInt64.random(in: .min ... .max)
    print("seed of \(test): \(seed)")
    return seed
}
