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
        if options.service { return try options.reportService(to: out) }
        let scenario = try options.load()
        let outcome = Simulation(scenario).run(isRecording: true)
        let title = options.title(of: scenario)
        let drawing = Drawing(
            title: "Seed \(scenario.seed)", subtitle: title, trace: outcome.trace ?? Trace(lanes: []),
            violations: outcome.violations)
        try writeFile(Array(drawing.html().utf8), to: out)
        let result = outcome.violations.isEmpty ? "all held" : plural(outcome.violations.count, "violation")
        try writeOutput("\(out): \(title): \(result)\n")
        if !outcome.violations.isEmpty { throw ExitCode.failure }
    }
}
