import ArgumentParser
import SyncSimulation

struct Report: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Draw the run of one scenario as a space-time diagram.",
        discussion: """
            Writes a self-contained HTML file: a line for each device and store, messages as arrows, faults shaded.

            Example: syncsim report 42 --out seed42.html
            """)

    @OptionGroup var options: ScenarioOptions

    @Option(help: ArgumentHelp("The file to write; an existing one is replaced.", valueName: "file"))
    var out: String

    func run() throws {
        let scenario = try options.load()
        let outcome = Simulation(scenario).run(isRecording: true)
        let title = options.title(of: scenario)
        let diagram = SpaceTimeDiagram(
            outcome.trace ?? Trace(lanes: []), title: "Seed \(scenario.seed)", subtitle: title,
            violations: outcome.violations, epoch: Simulation.epoch)
        try writeFile(Array(diagram.html.utf8), to: out)
        let result = outcome.violations.isEmpty ? "all held" : plural(outcome.violations.count, "violation")
        try writeOutput("\(out): \(title): \(result)\n")
        if !outcome.violations.isEmpty { throw ExitCode(Failure.Code.failed.rawValue) }
    }
}
