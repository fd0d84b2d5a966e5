import Foundation
import SyncSimulation
import Testing

@testable import syncsim

@Suite("syncsim run")
struct RunTests {
    private let program: Program

    init() throws {
        program = try Program()
    }

    @Test("The hashes of 40 seeds are the same in all processes and with any number of threads")
    func hashes() throws {
        let running = try ["--jobs 1", "--jobs 2", "--jobs 3"].map {
            try program.start("run --seeds 1..40 --hashes \($0)")
        }
        let outcomes = try running.map { try $0.outcome() }
        let seeds = outcomes[0].lines.compactMap { $0.split(separator: " ").first.flatMap { UInt64($0) } }
        #expect(seeds == Array(1...40))
        #expect(Set(outcomes[0].lines.compactMap { $0.split(separator: " ").last }).count == 40)
        #expect(outcomes[1].output == outcomes[0].output)
        #expect(outcomes[2].output == outcomes[0].output)
        #expect(outcomes.map(\.exitCode) == [0, 0, 0])
        for (seed, line) in zip(seeds, outcomes[0].lines).prefix(5) {
            let digits = String(Simulation(Swarm().scenario(seed: seed)).run().traceHash, radix: 16)
            let hash = String(repeating: "0", count: 16 - digits.count) + digits
            #expect(line == "\(seed) \(hash)")
        }
    }

    @Test("The hashes of simulated servers are the same in all processes")
    func serviceHashes() throws {
        let running = try ["--jobs 1", "--jobs 2"].map {
            try program.start("run --service --seeds 1..8 --hashes \($0)")
        }
        let outcomes = try running.map { try $0.outcome() }
        #expect(Set(outcomes[0].lines.compactMap { $0.split(separator: " ").last }).count == 8)
        #expect(outcomes[1].output == outcomes[0].output)
        #expect(outcomes.map(\.exitCode) == [0, 0])
    }

    @Test("The summary reports success, speed and the rare states that were never reached")
    func text() throws {
        let outcome = try program.run("run --seeds 1..3 --jobs 2 --marks")
        #expect(outcome.exitCode == 0)
        #expect(outcome.error == "")
        #expect(outcome.lines.first == "all 3 seeds hold")
        #expect(outcome.lines[1].contains(#/^3 seeds in \d+\.\d\d s on 2 threads, \d+\.\d a second$/#))
        #expect(outcome.lines[2].contains(#/^\d+ virtual days, \d+ times as fast as real time$/#))
        #expect(outcome.lines[3].contains(#/^\d+ of \d+ rare states reached$/#))
        for mark in Mark.allCases {
            #expect(outcome.lines.contains { $0.split(separator: " ").first == mark.rawValue[...] })
        }
        #expect(outcome.lines.last?.hasPrefix("never reached: ") == true)
    }

    @Test("JSON output is one object with the same data and sorted members")
    func json() throws {
        let outcome = try program.run("run --seeds 5..6 --json --hashes --rules stackPurchases --replicas 2 --days 30")
        #expect(outcome.exitCode == 0)
        #expect(outcome.error == "")
        let summary = try outcome.decoded(as: RunSummary.self)
        #expect(summary.failing.isEmpty)
        #expect(summary.seeds == 2)
        #expect(summary.firstSeed == 5)
        #expect(summary.rules == "stackPurchases")
        #expect(summary.seconds > 0 && summary.seedsPerSecond > 0 && summary.timesRealTime > 0)
        #expect(summary.virtualDays >= 60 && summary.virtualDays < 200)
        #expect(Set(summary.marks.keys) == Set(Mark.allCases.map(\.rawValue)))
        #expect(summary.missingMarks == Mark.allCases.map(\.rawValue).filter { summary.marks[$0] == 0 })
        #expect(!summary.isInterrupted)
        #expect(summary.hashes?.map(\.seed) == [5, 6])
        #expect(
            outcome.members == [
                "failing", "firstSeed", "hashes", "isInterrupted", "jobs", "marks", "missingMarks", "rules", "seconds",
                "seeds", "seedsPerSecond", "timesRealTime", "virtualDays",
            ])
    }

    @Test("With --require-marks the exit code is 1 if a rare state was never reached")
    func requireMarks() throws {
        let outcome = try program.run("run --seeds 7 --require-marks")
        #expect(outcome.exitCode == 1)
        #expect(outcome.lines.first == "the seed holds")
    }

    @Test("An interrupted run prints its results so far")
    func interrupted() throws {
        let running = try program.start("run --seeds 1..1000000000 --jobs 2 --json")
        try running.interrupt()
        let outcome = try running.outcome()
        #expect(outcome.exitCode == 130)
        #expect(outcome.error == "")
        let summary = try outcome.decoded(as: RunSummary.self)
        #expect(summary.isInterrupted)
        #expect(summary.seeds < 1_000_000)
    }

    @Test(
        "Wrong usage is reported in one line",
        arguments: [
            ("--seeds 4..1", "--seeds: 4 comes after 1; write 1..4"),
            ("--seeds 1...4", "--seeds must be a number or a range A..B from 0 to 18446744073709551615, not \"1...4\""),
            ("--seeds +4", "--seeds must be a number or a range A..B from 0 to 18446744073709551615, not \"+4\""),
            (
                "--seeds 1..99999999999999999999",
                "--seeds must be a number or a range A..B from 0 to 18446744073709551615,"
                    + " not \"1..99999999999999999999\""
            ),
            (
                "--seeds 1 --rules best",
                "--rules must be one of stackPurchases, latestExpiryWins, remoteWins, not \"best\""
            ),
            ("--seeds 1 --replicas 0", "--replicas must be 1 to 20, not 0"),
            ("--seeds 1 --replicas 21", "--replicas must be 1 to 20, not 21"),
            ("--seeds 1 --days 0", "--days must be 1 to 36500, not 0"),
            ("--seeds 1 --days 36501", "--days must be 1 to 36500, not 36501"),
            ("--seeds 1 --jobs 0", "--jobs must be 1 to 256, not 0"),
            (
                "--seeds 1..2 --until-failure",
                "--until-failure has no last seed: pass only the first seed to --seeds"
            ),
            ("--seeds 1 --until-failure --hashes", "--hashes and --until-failure cannot be combined"),
            ("", "Missing expected argument '--seeds <A..B>' (see syncsim run --help)"),
            ("--seeds 1 --jobs many", "The value 'many' is invalid for '--jobs <number>' (see syncsim run --help)"),
        ])
    func refused(options: String, reason: String) throws {
        let outcome = try program.run("run \(options)")
        #expect(outcome == .refused(2, reason))
    }

    @Test(
        "An unknown command is refused, also after help, and a similar one is suggested",
        arguments: [
            ("runn", "'runn' is not a subcommand of 'syncsim'. Did you mean 'run'? See 'syncsim help'."),
            ("help repaly", "'repaly' is not a subcommand of 'syncsim'. Did you mean 'replay'? See 'syncsim help'."),
            ("help foo", "'foo' is not a subcommand of 'syncsim'. See 'syncsim help'."),
        ])
    func unknown(command: String, reason: String) throws {
        #expect(try program.run(command) == .refused(2, reason))
    }

    @Test(
        "The help of every command has an example",
        arguments: ["run", "replay", "shrink", "report", "conformance"])
    func help(command: String) throws {
        let outcome = try program.run("\(command) --help")
        #expect(outcome.exitCode == 0)
        #expect(outcome.error == "")
        #expect(outcome.output.contains("Example: syncsim \(command) "))
    }
}
