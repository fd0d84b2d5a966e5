import Entitlements
import Foundation
import SyncSimulation
import Testing

@testable import syncsim

/// These tests use the tutorials' rule, which loses paid time.
@Suite("syncsim with failing seeds")
struct FailureTests {
    private let program: Program
    private let rules = "--rules latestExpiryWins"
    private let subject = Subject(rules: ConflictRules(expiry: LatestExpiryWins()))

    init() throws {
        program = try Program()
    }

    private func violations(_ scenario: Scenario) -> [Violation] { Simulation(scenario, of: subject).run().violations }

    /// The first failing seed, found by the program itself.
    private func failingSeed() throws -> UInt64 {
        let outcome = try program.run("run --seeds 1 --until-failure --jobs 1 \(rules)")
        #expect(outcome.exitCode == 1)
        #expect(outcome.lines.first?.contains(#/^1 of \d+ seeds? fails:$/#) == true)
        let seed = try #require(outcome.lines.dropFirst().first?.split(separator: " ").first.flatMap { UInt64($0) })
        try #require(seed <= 100, "the rule must fail within 100 seeds")
        return seed
    }

    @Test("run lists the failing seeds first, in order, in text and in JSON, and exits with 1")
    func failing() throws {
        let expected = (UInt64(1)...30).filter { !violations(Swarm().scenario(seed: $0)).isEmpty }
        try #require(!expected.isEmpty)
        let outcome = try program.run("run --seeds 1..30 --jobs 2 \(rules)")
        #expect(outcome.exitCode == 1)
        // A slow run shows its progress there.
        #expect(!outcome.error.contains("syncsim:"))
        #expect(outcome.lines.first?.hasPrefix("\(expected.count) of 30 seeds fail") == true)
        let listed = outcome.lines.dropFirst().prefix { $0.hasPrefix("  ") }
        #expect(listed.compactMap { $0.split(separator: " ").first.flatMap { UInt64($0) } } == expected)
        let printed = try program.run("run --seeds 1..30 --jobs 2 --json \(rules)")
        #expect(printed.exitCode == 1)
        let summary = try printed.decoded(as: RunSummary.self)
        #expect(summary.failing.map(\.seed) == expected)
        for failing in summary.failing {
            let violation = try #require(violations(Swarm().scenario(seed: failing.seed)).first)
            #expect(failing.oracle == violation.oracle.rawValue && failing.message == violation.message)
        }
    }

    @Test("A failing seed is replayed, shrunk to two purchases, replayed from its file and drawn")
    func wholeWay() throws {
        let seed = try failingSeed()
        let replayed = try program.run("replay \(seed) \(rules)")
        #expect(replayed.exitCode == 1)
        #expect(replayed.output.contains("VIOLATED paidTime: "))
        #expect(replayed.lines.last?.hasPrefix("trace ") == true)

        let shrunk = try program.run("shrink \(seed) \(rules) --scenario-out small.json")
        #expect(shrunk.exitCode == 0)
        #expect(shrunk.error.contains(#/^\d+ steps to 2, \d devices to [12] in \d+ runs\n$/#))
        let small = try Scenario(json: program.bytes(of: "small.json"))
        let violation = try #require(violations(small).first)
        #expect(shrunk.output.hasSuffix(small.regressionTest(for: violation)))
        #expect(shrunk.output.hasPrefix("    // For a suite in a file that imports "))

        let again = try program.run("replay --scenario small.json \(rules)")
        #expect(again.exitCode == 1)
        #expect(again.output.contains("violation") && again.output.contains("paidTime: "))
        let drawn = try program.run("report --scenario small.json --out small.html \(rules)")
        #expect(drawn.exitCode == 1)
        #expect(drawn.output.contains("latestExpiryWins: ") && drawn.output.contains(" violation"))
        let page = String(decoding: try program.bytes(of: "small.html"), as: UTF8.self)
        #expect(page.contains("paidTime"))
    }

    @Test("A shrunk scenario is replayed with the rules of its run, unless --rules names another rule")
    func keepsRules() throws {
        let seed = try failingSeed()
        try program.run("shrink \(seed) \(rules) --scenario-out small.json")
        var small = try Scenario(json: program.bytes(of: "small.json"))
        #expect(small.rules == "latestExpiryWins")
        let replayed = try program.run("replay --scenario small.json")
        #expect(replayed.exitCode == 1)
        #expect(replayed.output.contains("VIOLATED paidTime: "))
        #expect(replayed.lines.first?.hasSuffix(", latestExpiryWins") == true)
        try #expect(program.run("replay --scenario small.json \(rules)") == replayed)
        try #expect(program.run("replay --scenario small.json --rules stackPurchases").exitCode == 0)

        // A file without the member is read as before: the rule comes from the options.
        small.rules = nil
        try program.write(String(decoding: small.json, as: UTF8.self), to: "old.json")
        try #expect(program.run("replay --scenario old.json").exitCode == 0)
        try #expect(program.run("replay --scenario old.json \(rules)") == replayed)
    }

    @Test("Shrinking stops after the maximum number of attempts and mentions --attempts")
    func attempts() throws {
        let seed = try failingSeed()
        let shrunk = try program.run("shrink \(seed) \(rules) --attempts 3")
        #expect(shrunk.exitCode == 0)
        #expect(shrunk.error.hasSuffix(" in 3 runs; more --attempts may find a smaller one\n"))
    }
}
