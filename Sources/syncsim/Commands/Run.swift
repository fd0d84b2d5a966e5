import ArgumentParser
import Foundation
import SyncSimulation

struct Run: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run many seeds and say which fail.",
        discussion: """
            Failing seeds come first; then how fast it was, and which rare states were never reached.

            Example: syncsim run --seeds 1..10000 --jobs 2
            """)

    @Option(help: ArgumentHelp("The first and the last seed, or a single one.", valueName: "A..B"))
    var seeds: String

    @OptionGroup var subject: SubjectOptions
    @OptionGroup var swarm: SwarmOptions

    @Option(
        help: ArgumentHelp(
            "Run so many seeds at a time, 1 to 256; as many as there are cores by default.", valueName: "number"))
    var jobs: Int?

    @Flag(help: "Print one JSON object.")
    var json = false

    @Flag(
        help:
            "Print each seed and the hash of all that happened in it; what else there is to say goes to standard error."
    )
    var hashes = false

    @Flag(help: "List how often each rare state was reached.")
    var marks = false

    @Flag(help: "Exit with 1 when a rare state was never reached.")
    var requireMarks = false

    @Flag(help: "Go on from the first seed without end, until one fails.")
    var untilFailure = false

    func run() throws {
        let plan = try plan()
        Interruption.watch()
        let progress = Progress()
        let tally = SeedRunner(plan, progress: progress).run()
        progress.clear()
        let summary = RunSummary(tally, plan: plan, rules: subject.name, elapsed: progress.elapsed)
        if json {
            try writeOutput(try summary.json())
        } else if hashes {
            try writeOutput(tally.hashes.map { "\($0.seed) \($0.hash.hash)\n" }.joined())
            writeNotice(summary.text(listsMarks: marks))
        } else {
            try writeOutput(summary.text(listsMarks: marks))
        }
        if !tally.failures.isEmpty || (requireMarks && !tally.marks.missing.isEmpty) {
            throw ExitCode(Failure.Code.failed.rawValue)
        }
        if summary.isInterrupted { throw ExitCode(Interruption.exitCode) }
    }

    private func plan() throws(Failure) -> SeedRunner.Plan {
        var seeds = try SeedRange(seeds)
        if untilFailure {
            guard !hashes else { throw Failure(.usage, "--hashes and --until-failure exclude each other") }
            guard seeds.first == seeds.last else {
                throw Failure(.usage, "--until-failure goes on without end: name only the first seed with --seeds")
            }
            seeds.last = .max
        }
        let jobs = jobs ?? ProcessInfo.processInfo.activeProcessorCount
        guard (1...256).contains(jobs) else { throw Failure(.usage, "--jobs: \(jobs) is not between 1 and 256") }
        return SeedRunner.Plan(
            seeds: seeds, swarm: try swarm.swarm(), subject: try subject.subject(),
            jobs: Int(min(UInt64(jobs), seeds.count ?? .max)), stopsAtFailure: untilFailure, keepsHashes: hashes)
    }
}
