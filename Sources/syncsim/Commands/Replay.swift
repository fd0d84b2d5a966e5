import ArgumentParser
import Foundation
import SyncSimulation

struct Replay: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run one scenario again and print its trace, which is the same each time.",
        discussion: """
            Prints a line for each event (time, place, description), then the violated invariants, if any.

            Example: syncsim replay 42
            """)

    @OptionGroup var options: ScenarioOptions

    @Flag(help: "Print one JSON object.")
    var json = false

    func run() throws {
        if options.service { return try options.replayService(json: json) }
        let scenario = try options.load()
        let outcome = Simulation(scenario).run(isRecording: true)
        let trace = outcome.trace ?? Trace(lanes: [])
        if json {
            let output = ReplayOutput(
                scenario: scenario, rules: scenario.rules ?? SubjectOptions.defaultName, hash: outcome.traceHash.hash,
                trace: outcome.trace, violations: outcome.violations, marks: outcome.marks.counts)
            try writeOutput(try output.json())
        } else {
            let lines =
                [options.title(of: scenario)] + trace.lines + Self.end(of: outcome, trace)
                + ["trace \(outcome.traceHash.hash)"]
            try writeOutput(lines.joined(separator: "\n") + "\n")
        }
        if !outcome.violations.isEmpty { throw ExitCode.failure }
    }

    private static func end(of outcome: Simulation.Outcome, _ trace: Trace) -> [String] {
        guard !outcome.violations.isEmpty else { return ["all held"] }
        return ["\(plural(outcome.violations.count, "violation")):"]
            + outcome.violations.map { "  " + $0.line(in: trace) }
    }
}

/// The output of `replay --json`.
struct ReplayOutput: Codable {
    var scenario: Scenario
    var rules: String
    var hash: String
    var trace: Trace?
    var violations: [Violation]
    var marks: [String: Int]
}
