import Foundation
import TestSupport

/// Checks a property on random cases, each with its own generator.
///
/// Each run uses a new seed, printed at its start and in each failure. Set `PROPERTY_SEED` in the environment to
/// reproduce a run. The check ends at the first failing case.
///
/// - Parameters:
///   - cases: The number of cases in the long form. The short form has a tenth of them.
///   - least: The minimum number of cases in the short form.
/// - Returns: The number of cases that were checked.
@discardableResult
package func forAll(
    _ property: String, cases: Int, least: Int = 500,
    _ check: (_ random: inout SplitMix64, _ place: String) throws -> Void
) throws -> Int {
    let run = PropertyRun(property, cases: Soak.caseCount(cases, least: least))
    for number in 0..<run.cases {
        var random = run.generator(of: number)
        try check(&random, run.place(of: number))
    }
    return run.cases
}

/// Checks a property with asynchronous calls on random cases.
@discardableResult
package func forAll(
    _ property: String, cases: Int, least: Int = 500,
    _ check: (_ random: inout SplitMix64, _ place: String) async throws -> Void
) async throws -> Int {
    let run = PropertyRun(property, cases: Soak.caseCount(cases, least: least))
    for number in 0..<run.cases {
        var random = run.generator(of: number)
        try await check(&random, run.place(of: number))
    }
    return run.cases
}

/// The seed of one run of a property.
private struct PropertyRun {
    let property: String
    let cases: Int
    let seed: UInt64

    init(_ property: String, cases: Int) {
        let given = ProcessInfo.processInfo.environment["PROPERTY_SEED"].flatMap { UInt64($0) }
        (self.property, seed) = (property, given ?? UInt64.random(in: 0...UInt64.max))
        self.cases = cases
        print("\(property): \(cases) cases, PROPERTY_SEED=\(seed)")
    }

    func generator(of number: Int) -> SplitMix64 {
        SplitMix64(seed: seed &+ UInt64(number) &* 0xD1B5_4A32_D192_ED03)
    }

    func place(of number: Int) -> String { "\(property): PROPERTY_SEED=\(seed), case \(number)" }
}
