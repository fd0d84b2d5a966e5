import ArgumentParser
import Entitlements
import SyncCore
import SyncCoreTesting

struct ConformanceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "conformance",
        abstract: "Check that a kind of store keeps the storage contract.",
        discussion: """
            Every check gets a fresh store: in memory, or in a folder of its own inside the one that is named, which \
            must be empty or missing and is left so. Checks choose themselves by what the store declares; what was \
            not tried is listed with the reason. Some checks kill processes that write.

            Stores: \(TrialStore.names)

            Example: syncsim conformance file:/tmp/trial
                     syncsim conformance memory: --retried --sealed store.key
            """)

    @Argument(help: ArgumentHelp("What to check.", valueName: "url"))
    var url: String

    @Option(
        help: ArgumentHelp("Decides what is written and when; drawn and printed when missing.", valueName: "number"))
    var seed: String?

    @Option(help: ArgumentHelp("Kill the writing processes so many times, 1 to 100000.", valueName: "rounds"))
    var kills: Int = 10

    @OptionGroup var wrapping: WrappingOptions

    @Flag(help: "Print one JSON object.")
    var json = false

    func run() async throws {
        let store = try TrialStore(url, wrapping: wrapping)
        let seed = try Self.seed(seed)
        guard (1...100_000).contains(kills) else {
            throw Failure(.usage, "--kills: \(kills) is not between 1 and 100000")
        }
        Interruption.watch()
        let report = try await store.report(seed: seed, kills: kills)
        if Interruption.isAsked {
            writeNotice("interrupted\n")
            throw ExitCode(Interruption.exitCode)
        }
        let output = ConformanceOutput(report, store: url, wrapping: wrapping)
        try writeOutput(json ? try output.json() : output.table)
        if !report.hasPassed { throw ExitCode(Failure.Code.failed.rawValue) }
    }

    private static func seed(_ text: String?) throws(Failure) -> UInt64 {
        guard let text else { return HostServices.system.randomBits() }
        guard let seed = UInt64(digits: text) else {
            throw Failure(.usage, "--seed: \"\(text.singleLine)\" is no number, 0 to \(UInt64.max)")
        }
        return seed
    }
}

/// The child that the checks kill. It is not for people.
struct CrashWriter: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "crash-writer", abstract: "Write until killed.", shouldDisplay: false)

    @Argument var url: String
    @Argument var errand: String
    @OptionGroup var wrapping: WrappingOptions

    func run() async throws {
        await CrashTrial.writer(try TrialStore(url, wrapping: wrapping).open(), errand: errand)
    }
}
