import Foundation
import SyncSimulation
import Testing

@Suite("A scenario as Swift source")
struct SourceTests {
    private static func text(of name: String) throws -> String {
        try String(
            contentsOf: URL(filePath: #filePath).deletingLastPathComponent().appending(path: name), encoding: .utf8)
    }

    @Test("The printed scenario has every kind of action")
    func complete() {
        let names = Set(EveryAction.scenario.steps.map { EveryAction.name(of: $0.action) })
        #expect(names.count == EveryAction.caseCount)
    }

    @Test("The printed source compiles and equals the original scenario")
    func printed() throws {
        let source = EveryAction.scenario.swiftSource
        try #expect(Self.text(of: "PrintedScenario.swift").contains("        static let everyAction = \(source)\n"))
        #expect(PrintedScenario.Printed.everyAction == EveryAction.scenario)
    }

    @Test("A printed regression test compiles and runs")
    func regressionTest() throws {
        let scenario = Scenario(
            seed: 42, devices: [DeviceSetup(), DeviceSetup()],
            steps: [
                Step(at: 0, device: 0, .buy(Sale("t0001", of: "quarter"))),
                Step(at: 3_600_000, device: 1, .buy(Sale("t0002", of: "quarter"))),
            ], days: 1)
        let violation = Violation(.coverage, "\"device 1\" lost 3 days", at: 5, lane: 0)
        let test = scenario.regressionTest(for: violation, subject: "Subject(rules: ConflictRules())")
        try #expect(Self.text(of: "PrintedScenario.swift").contains("\n\(test)"))
    }

    @Test("The policy of a server is printed")
    func policy() {
        var scenario = Scenario(seed: 1, devices: [DeviceSetup()], steps: [], days: 1)
        scenario.remote = RemoteSetup(tellsTime: false, policy: .verified)
        #expect(scenario.swiftSource.contains("remote: RemoteSetup(tellsTime: false, policy: .verified),\n"))
    }

    @Test("Default values are left out")
    func defaults() {
        let scenario = Scenario(seed: 1_000, devices: [DeviceSetup()], steps: [Step(at: 0, device: 0, .sync)], days: 1)
        #expect(
            scenario.swiftSource == """
                Scenario(
                            seed: 1_000,
                            devices: [
                                DeviceSetup()
                            ],
                            steps: [
                                Step(at: 0, device: 0, .sync)
                            ],
                            days: 1)
                """)
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
}
