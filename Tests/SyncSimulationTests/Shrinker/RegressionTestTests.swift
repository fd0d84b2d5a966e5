import Foundation
import SyncSimulation
import Testing

@Suite("A scenario as a regression test")
struct RegressionTestTests {
    @Test("A printed test compiles and runs")
    func compiled() throws {
        let scenario = Scenario(
            seed: 42, devices: [DeviceSetup(), DeviceSetup()],
            steps: [
                Step(at: 0, device: 0, .buy(Sale("t0001", of: "quarter"))),
                Step(at: 3_600_000, device: 1, .buy(Sale("t0002", of: "quarter"))),
            ], days: 1)
        let violation = Violation(.coverage, "\"device 1\" lost 3 days", at: 5, lane: 0)
        let test = scenario.regressionTest(for: violation, subject: "Subject(rules: ConflictRules())")
        let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "PrintedTest.swift")
        let isCurrent = try String(contentsOf: file, encoding: .utf8).contains("\n\(test)")
        #expect(isCurrent, "the printed test is now:\n\(test)")
    }

    @Test("The embedded scenario has every kind of action, and equals the original")
    func everyAction() throws {
        let names = Set(EveryAction.scenario.steps.map { EveryAction.name(of: $0.action) })
        #expect(names.count == EveryAction.caseCount)
        let embedded = try Self.embedded(in: EveryAction.scenario.regressionTest(for: nil))
        try #expect(Scenario(json: Array(embedded.utf8)) == EveryAction.scenario)
    }

    @Test("The embedded JSON is visible text in short lines, with one step on each")
    func lines() throws {
        let scenario = Swarm().scenario(seed: 1)
        let lines = try Self.embedded(in: scenario.regressionTest(for: nil)).split(separator: "\n")
        #expect(lines.allSatisfy { $0.count <= 108 })
        #expect(lines.count { $0.hasPrefix("{\"action\"") } >= scenario.steps.count - 1)
        let odd = try Self.embedded(in: EveryAction.scenario.regressionTest(for: nil))
        #expect(odd.unicodeScalars.allSatisfy { $0 == "\n" || (" "..."~").contains($0) })
    }

    @Test("The name of a printed test fits into its line for any violation")
    func longName() throws {
        let scenario = Scenario(seed: 7, devices: [DeviceSetup()], steps: [], days: 1)
        let violation = Violation(.model, String(repeating: "\"\\\n", count: 60), at: 0, lane: 0)
        let lines = scenario.regressionTest(for: violation).split(separator: "\n")
        let name = try #require(lines.first)
        #expect(name.count <= 120)
        #expect(name.hasPrefix("    @Test(\"seed 7: model: \\\"\\\\\\n\\\""))
        #expect(name.hasSuffix("…\")"))
    }

    /// The text between the raw string's quotation marks.
    private static func embedded(in test: String) throws -> String {
        let lines = test.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
        let start = try #require(lines.firstIndex { $0.hasSuffix("#\"\"\"") })
        let end = try #require(lines.firstIndex { $0 == "\"\"\"#" })
        return lines[(start + 1)..<end].joined(separator: "\n")
    }
}
