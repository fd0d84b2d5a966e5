import Entitlements
import Foundation
import SyncSimulation
import Testing

@testable import syncsim

@Suite("syncsim replay and report")
struct ReplayTests {
    private let program: Program

    init() throws {
        program = try Program()
    }

    private func save(_ scenario: Scenario, as name: String) throws {
        try program.write(String(decoding: scenario.json, as: UTF8.self), to: name)
    }

    @Test("Two processes replay a seed byte for byte alike", arguments: [3, 17, 23])
    func byteEqual(seed: Int) throws {
        let running = try (0..<2).map { _ in try program.start("replay \(seed)") }
        let outcomes = try running.map { try $0.outcome() }
        #expect(outcomes[0] == outcomes[1])
        #expect(outcomes[0].exitCode == 0)
        #expect(outcomes[0].error == "")
        let outcome = Simulation(Swarm().scenario(seed: UInt64(seed))).run(isRecording: true)
        let lines = outcomes[0].lines
        #expect(lines.first?.hasPrefix("seed \(seed), ") == true)
        #expect(lines.dropFirst().dropLast(2).map(String.init) == outcome.trace?.lines)
        #expect(lines.dropLast().last == "all held")
        #expect(lines.last?.hasPrefix("trace ") == true)
    }

    @Test("A scenario from a file is replayed like the seed it was generated from, in text and in JSON")
    func scenarioFile() throws {
        let scenario = Swarm(replicas: 2, days: 20).scenario(seed: 9)
        try save(scenario, as: "nine.json")
        for format in ["", " --json"] {
            let fromFile = try program.run("replay --scenario nine.json\(format)")
            try #expect(fromFile == program.run("replay 9 --replicas 2 --days 20\(format)"))
            #expect(fromFile.exitCode == 0)
        }
    }

    @Test("JSON output has scenario, trace, violations and marks")
    func json() throws {
        let printed = try program.run("replay 3 --json")
        #expect(printed.members == ["hash", "marks", "rules", "scenario", "trace", "violations"])
        let output = try printed.decoded(as: ReplayOutput.self)
        let scenario = Swarm().scenario(seed: 3)
        let outcome = Simulation(scenario).run(isRecording: true)
        #expect(output.scenario == scenario)
        #expect(output.rules == "stackPurchases")
        #expect(output.trace == outcome.trace)
        #expect(output.violations.isEmpty)
        #expect(UInt64(output.hash, radix: 16) == outcome.traceHash)
        #expect(
            output.marks == Dictionary(uniqueKeysWithValues: Mark.allCases.map { ($0.rawValue, outcome.marks[$0]) }))
    }

    @Test(
        "Wrong input is reported in one line",
        arguments: [
            ("replay", 2, "pass a seed, or --scenario with a file"),
            ("replay 1 --scenario a.json", 2, "a seed and --scenario cannot be combined"),
            ("replay -- -1", 2, "the seed must be a number from 0 to 18446744073709551615, not \"-1\""),
            ("replay --scenario a.json --days 3", 2, "--replicas and --days need a seed; a scenario file has both"),
            ("replay --scenario missing.json", 3, "missing.json: cannot be read: No such file or directory"),
            ("replay --scenario broken.json", 1, "broken.json: not JSON"),
            (
                "replay --scenario strange.json", 1,
                "strange.json: devices[0].rule: must be one of stackPurchases, latestExpiryWins, remoteWins,"
                    + " not \"mine\""
            ),
            (
                "replay --scenario rules.json", 1,
                "rules.json: rules: must be one of stackPurchases, latestExpiryWins, remoteWins, not \"mine\""
            ),
            ("replay --scenario .", 1, ".: cannot be read: Is a directory"),
            ("report 3", 2, "Missing expected argument '--out <file>' (see syncsim report --help)"),
            (
                "report 3 --out missing/a.html", 1,
                "missing/a.html: cannot be written: No such file or directory"
            ),
            ("shrink 3 --attempts 0", 2, "--attempts must be 1 to 1000000, not 0"),
            ("shrink", 2, "pass a seed, or --scenario with a file"),
        ])
    func refused(command: String, exitCode: Int32, reason: String) throws {
        try program.write("{", to: "broken.json")
        try save(Scenario(seed: 1, devices: [DeviceSetup(rule: "mine")], steps: [], days: 1), as: "strange.json")
        try save(Scenario(seed: 1, devices: [DeviceSetup()], rules: "mine", steps: [], days: 1), as: "rules.json")
        let outcome = try program.run(command)
        #expect(outcome == .refused(exitCode, reason))
    }

    @Test("A report is a deterministic page and replaces an existing file")
    func report() throws {
        try program.write("older", to: "a.html")
        for name in ["a.html", "b.html"] {
            let outcome = try program.run("report 3 --out \(name)")
            #expect(outcome.exitCode == 0)
            #expect(outcome.error == "")
            #expect(outcome.output.hasPrefix("\(name): seed 3, ") && outcome.output.hasSuffix(": all held\n"))
        }
        let page = try program.bytes(of: "a.html")
        try #expect(page == program.bytes(of: "b.html"))
        let text = String(decoding: page, as: UTF8.self)
        let trace = try #require(Simulation(Swarm().scenario(seed: 3)).run(isRecording: true).trace)
        let subtitle = try #require(try program.run("replay 3").lines.first)
        let drawing = Drawing(title: "Seed 3", subtitle: String(subtitle), trace: trace, violations: [])
        let isExpected = try text == drawing.html()
        #expect(isExpected, "the page of the trace that replay prints")
    }

    @Test("A scenario that holds is not shrunk, and no file is written")
    func nothingToShrink() throws {
        let outcome = try program.run("shrink 3 --days 20 --scenario-out small.json")
        #expect(outcome.exitCode == 1)
        #expect(outcome.output == "")
        #expect(outcome.error.hasSuffix("all held, so there is nothing to shrink\n"))
        #expect(!FileManager.default.fileExists(atPath: program.path("small.json")))
    }
}
