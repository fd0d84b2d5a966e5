import ArgumentParser
import Entitlements
import SyncCore
import SyncCoreTesting

struct ConformanceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "conformance",
        abstract: "Test whether a backend fulfils the storage contract.",
        discussion: """
            Every check uses a fresh store: in memory, or in a new subfolder of the given folder, which must be \
            empty or missing and is left that way. The capabilities of the store select the checks; skipped checks \
            are listed with the reason. Some checks kill processes while they write.

            Stores: \(TrialStore.names)

            Example: syncsim conformance file:/tmp/trial
                     syncsim conformance memory: --retried --sealed store.key
            """)

    @Argument(help: ArgumentHelp("The store to test.", valueName: "url"))
    var url: String

    @Option(
        help: ArgumentHelp(
            "The seed of all random decisions; by default a random one, which is printed.", valueName: "number"))
    var seed: String?

    @Option(help: ArgumentHelp("The number of times to kill writing processes, 1 to 100000.", valueName: "rounds"))
    var kills: Int = 10

    @OptionGroup var wrapping: WrappingOptions

    @Flag(help: "Print one JSON object.")
    var json = false

    func run() async throws {
        let store = try TrialStore(url, wrapping: wrapping)
        let seed = try seed.map { text throws(Failure) in try seedNumber(text, "--seed must be a number") }
        try check("--kills", kills, in: 1...100_000)
        Interruption.watch()
        let report = try await store.report(seed: seed ?? HostServices.system.randomBits(), kills: kills)
        if Interruption.isAsked {
            writeNotice("interrupted\n")
            throw ExitCode(Interruption.exitCode)
        }
        let output = ConformanceOutput(report, store: url, wrapping: wrapping)
        try writeOutput(json ? try output.json() : output.table)
        if !report.hasPassed { throw ExitCode.failure }
    }
}

/// The child process that the crash checks kill; not for interactive use.
struct CrashWriter: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "crash-writer", abstract: "Write until killed.", shouldDisplay: false)

    @Argument var url: String
    @Argument var assignment: String
    @OptionGroup var wrapping: WrappingOptions

    func run() async throws {
        await CrashTrial.writer(try TrialStore(url, wrapping: wrapping).open(), assignment: assignment)
    }
}
