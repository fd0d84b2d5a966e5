import Foundation

/// Checks a property on random cases, each with its own generator.
///
/// Each run uses a new seed, printed at its start and in each failure. Set `PROPERTY_SEED` in the environment to
/// reproduce a run. The check ends at the first failing case.
package func forAll(
    _ property: String, cases: Int, _ check: (_ random: inout SplitMix64, _ place: String) throws -> Void
) throws {
    let run = PropertyRun(property, cases: cases)
    for number in 0..<cases {
        var random = run.generator(of: number)
        try check(&random, run.place(of: number))
    }
}

/// Checks a property with asynchronous calls on random cases.
package func forAll(
    _ property: String, cases: Int, _ check: (_ random: inout SplitMix64, _ place: String) async throws -> Void
) async throws {
    let run = PropertyRun(property, cases: cases)
    for number in 0..<cases {
        var random = run.generator(of: number)
        try await check(&random, run.place(of: number))
    }
}

/// The seed of one run of a property.
private struct PropertyRun {
    let property: String
    let seed: UInt64

    init(_ property: String, cases: Int) {
        let given = ProcessInfo.processInfo.environment["PROPERTY_SEED"].flatMap { UInt64($0) }
        (self.property, seed) = (property, given ?? UInt64.random(in: 0...UInt64.max))
        print("\(property): \(cases) cases, PROPERTY_SEED=\(seed)")
    }

    func generator(of number: Int) -> SplitMix64 {
        SplitMix64(seed: seed &+ UInt64(number) &* 0xD1B5_4A32_D192_ED03)
    }

    func place(of number: Int) -> String { "\(property): PROPERTY_SEED=\(seed), case \(number)" }
}
