import Foundation

/// Checks a property on random cases, each with its own generator.
///
/// Each run uses a new seed, printed at its start and in each failure. Set `PROPERTY_SEED` in the environment to
/// reproduce a run. The check ends at the first failing case.
package func forAll(
    _ property: String, cases: Int, _ check: (_ random: inout SplitMix64, _ place: String) throws -> Void
) throws {
    let given = ProcessInfo.processInfo.environment["PROPERTY_SEED"].flatMap { UInt64($0) }
    let seed = given ?? UInt64.random(in: 0...UInt64.max)
    print("\(property): \(cases) cases, PROPERTY_SEED=\(seed)")
    for number in 0..<cases {
        var random = SplitMix64(seed: seed &+ UInt64(number) &* 0xD1B5_4A32_D192_ED03)
        try check(&random, "\(property): PROPERTY_SEED=\(seed), case \(number)")
    }
}
