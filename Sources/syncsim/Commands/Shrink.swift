import ArgumentParser
import Foundation
import SyncSimulation

struct Shrink: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Find the smallest scenario that still fails, and print it as a ready-made regression test.",
        discussion: """
            Removes steps, devices and faults and simplifies everything else, as long as the same oracle is violated.
            The scenario file keeps the expiry rule of the run.

            Example: syncsim shrink 42 --scenario-out small.json
            """)

    @OptionGroup var options: ScenarioOptions

    @Option(
        help: ArgumentHelp(
            "Also write the smallest scenario to this file, for --scenario of replay and report.", valueName: "file"))
    var scenarioOut: String?

    @Option(help: ArgumentHelp("The maximum number of runs, 1 to 1000000.", valueName: "number"))
    var attempts: Int = 2_000

    func run() throws {
        try check("--attempts", attempts, in: 1...1_000_000)
        if options.service { return try options.shrinkService(attempts: attempts, to: scenarioOut) }
        let scenario = try options.load()
        let progress = Progress()
        let found = Shrinker(attempts: attempts).shrink(scenario) { state in
            progress.show(
                "\(state.attempts) runs, \(plural(state.steps, "step")) on \(plural(state.devices, "device"))")
        }
        progress.clear()
        guard let shrunk = found else {
            throw Failure(.failed, "\(options.title(of: scenario)): all held, so there is nothing to shrink")
        }
        writeNotice(Self.summary(of: shrunk, from: scenario) + "\n")
        // The test is printed first, because the search is expensive and the file may not be writable.
        try writeOutput(Self.text(of: shrunk))
        if let scenarioOut { try writeFile(shrunk.scenario.json, to: scenarioOut) }
    }

    private static func text(of shrunk: Shrinker.Shrunk) -> String {
        // The test's name may be truncated, so the whole message stands above it.
        "    // For a suite in a file that imports SyncSimulation and Testing.\n"
            + "    // \("\(shrunk.violation)".onOneLine)\n" + shrunk.scenario.regressionTest(for: shrunk.violation)
    }

    private static func summary(of shrunk: Shrinker.Shrunk, from scenario: Scenario) -> String {
        let sizes = [
            (scenario.steps.count, shrunk.scenario.steps.count, "step"),
            (scenario.devices.count, shrunk.scenario.devices.count, "device"),
        ]
        return sizes.map { "\(plural($0, $2)) to \($1)" }.joined(separator: ", ") + " in \(shrunk.attempts) runs"
            + (shrunk.isMinimal ? "" : "; more --attempts may find a smaller one")
    }
}
