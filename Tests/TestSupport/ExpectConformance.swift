public import SyncCore
import SyncCoreTesting
public import Testing

/// Runs the conformance checks and records each failure as an issue of the running test. Prints the report, so that
/// what was skipped is seen.
public func expectConformance(
    of label: String, seed: UInt64 = .random(in: .min ... .max), sourceLocation: SourceLocation = #_sourceLocation,
    makeBackend: @Sendable () async throws -> any KeyValueBackend
) async {
    let report = await Conformance.run(seed: seed, makeBackend: makeBackend)
    print("conformance of \(label):\n\(report)")
    for failure in report.failures {
        Issue.record("\(failure.check): \(failure.reason) (seed \(report.seed))", sourceLocation: sourceLocation)
    }
    #expect(report.hasPassed, sourceLocation: sourceLocation)
}

/// A seed for this run, printed so that a failure can be repeated by writing it in its place.
public func printedSeed(_ test: String) -> UInt64 {
    let seed = UInt64.random(in: .min ... .max)
    print("seed of \(test): \(seed)")
    return seed
}
