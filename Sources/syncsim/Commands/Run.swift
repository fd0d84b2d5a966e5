import ArgumentParser
import Foundation
import ServiceSimulation
import SyncSimulation

struct Run: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run many seeds and list those that fail.",
        discussion: """
            Prints the failing seeds, the speed, and the rare states that were never reached.

            Example: syncsim run --seeds 1..10000 --jobs 2
            """)

    @Option(help: ArgumentHelp("The first and the last seed, or a single seed.", valueName: "A..B"))
    var seeds: String

    @Flag(help: "Simulate the servers of accounts instead of devices.")
    var service = false

    @OptionGroup var subject: SubjectOptions
    @OptionGroup var swarm: SwarmOptions

    @Option(
        help: ArgumentHelp(
            "The number of seeds to run at a time, 1 to 256; by default the number of cores.", valueName: "number"))
    var jobs: Int?

    @Flag(help: "Print one JSON object.")
    var json = false

    @Flag(help: "Print each seed with the hash of its trace; the summary goes to standard error.")
    var hashes = false

    @Flag(help: "List the number of times that each rare state was reached.")
    var marks = false

    @Flag(help: "Exit with 1 if a rare state was never reached.")
    var requireMarks = false

    @Flag(help: "Run seeds from the first one without end, until one fails.")
    var untilFailure = false

    func run() throws {
        let plan = try plan()
        Interruption.watch()
        let progress = Progress()
        let tally = SeedRunner(plan, progress: progress).run()
        progress.clear()
        let states = service ? ServiceMark.allCases.map(\.rawValue) : Mark.allCases.map(\.rawValue)
        let summary = RunSummary(
            tally, plan: plan, rules: subject.name, states: states, elapsed: progress.elapsed)
        if json {
            try writeOutput(try summary.json())
        } else if hashes {
            try writeOutput(tally.hashes.map { "\($0.seed) \($0.hash)\n" }.joined())
            writeNotice(summary.text(listsMarks: marks))
        } else {
            try writeOutput(summary.text(listsMarks: marks))
        }
        if !tally.failures.isEmpty || (requireMarks && !summary.missingMarks.isEmpty) {
            throw ExitCode.failure
        }
        if summary.isInterrupted { throw ExitCode(Interruption.exitCode) }
    }

    private func simulate() throws(Failure) -> @Sendable (UInt64) -> SeedResult {
        let (swarm, subject, isSwarmGiven) = (try swarm.swarm(), try subject.subject(), swarm.isGiven)
        guard service else { return { SeedResult(Simulation(swarm.scenario(seed: $0), of: subject).run()) } }
        guard !isSwarmGiven, self.subject.rules == nil else { throw .onlyForDevices }
        return { SeedResult(SimulatedService(ServiceSwarm().scenario(seed: $0)).run()) }
    }

    private func plan() throws(Failure) -> SeedRunner.Plan {
        var seeds = try SeedRange(seeds)
        if untilFailure {
            guard !hashes else { throw Failure(.usage, "--hashes and --until-failure cannot be combined") }
            guard seeds.first == seeds.last else {
                throw Failure(.usage, "--until-failure has no last seed: pass only the first seed to --seeds")
            }
            seeds.last = .max
        }
        let jobs = jobs ?? ProcessInfo.processInfo.activeProcessorCount
        try check("--jobs", jobs, in: 1...256)
        return SeedRunner.Plan(
            seeds: seeds, simulate: try simulate(),
            jobs: Int(min(UInt64(jobs), seeds.count ?? .max)), stopsAtFailure: untilFailure, keepsHashes: hashes)
    }
}
