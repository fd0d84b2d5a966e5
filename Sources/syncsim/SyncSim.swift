import ArgumentParser
import Entitlements
import Foundation

/// The command line of the simulation.
struct SyncSim: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "syncsim",
        abstract: "Simulate many devices with every kind of fault, in virtual time.",
        discussion: """
            A seed decides everything in a run: purchases, devices, faults, and their order. The same \
            seed gives the same run, byte for byte.

            Examples:
              syncsim run --seeds 1..10000
              syncsim replay 42
              syncsim shrink 42 --rules latestExpiryWins --scenario-out small.json
              syncsim report 42 --out seed42.html
              syncsim old-apps --seeds 0..199
              syncsim conformance file:/tmp/trial

            Exit codes: 0 all invariants held, 1 a violation or an error, 2 wrong usage, 3 a file was not found.
            """,
        version: "0.1.0",
        subcommands: [
            Run.self, Replay.self, Shrink.self, Report.self, OldApps.self, ConformanceCommand.self, CrashWriter.self,
        ])
}

@main
enum Main {
    static func main() async {
        do {
            try checkArguments()
            try checkSubcommand()
            var command = try SyncSim.parseAsRoot()
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch let code as ExitCode {
            exit(code.rawValue)
        } catch {
            finish(with: error)
        }
    }

    /// Rejects arguments that are not UTF-8: replacement characters could name another file.
    private static func checkArguments() throws(Failure) {
        for (index, argument) in CommandLine.arguments.enumerated() where argument.contains("\u{FFFD}") {
            throw Failure(.usage, "argument \(index) is not UTF-8: \"\(argument.singleLine)\"")
        }
    }

    /// Rejects an unknown subcommand. ArgumentParser takes it for an argument, and `help` ignores it.
    private static func checkSubcommand() throws(Failure) {
        var words = CommandLine.arguments.dropFirst()
        if words.first == "help" { words.removeFirst() }
        guard let word = words.first, !word.hasPrefix("-") else { return }
        let subcommands = SyncSim.configuration.subcommands
        guard !subcommands.contains(where: { $0._commandName == word }) else { return }
        let names = subcommands.filter { $0.configuration.shouldDisplay }.map { $0._commandName }
        let meant = nearest(to: word, among: names).map { " Did you mean '\($0)'?" } ?? ""
        throw Failure(.usage, "'\(word.singleLine)' is not a subcommand of 'syncsim'.\(meant) See 'syncsim help'.")
    }

    /// Prints help if requested, otherwise one line on standard error.
    private static func finish(with error: any Error) -> Never {
        if SyncSim.exitCode(for: error) == .success {
            print(SyncSim.fullMessage(for: error))
            exit(0)
        }
        let isUsage = SyncSim.exitCode(for: error) == .validationFailure
        let failure = isUsage ? Failure(.usage, SyncSim.message(for: error) + " (see \(helpCommand))") : Failure(error)
        let line = failure.message.onOneLine
        writeNotice("syncsim: \(line)\n")
        exit(failure.code.rawValue)
    }

    /// The command line that prints the help of the command in question.
    private static var helpCommand: String {
        let names = SyncSim.configuration.subcommands.map { $0._commandName }
        let name = CommandLine.arguments.dropFirst().first { names.contains($0) }
        return (["syncsim", name, "--help"] as [String?]).compactMap { $0 }.joined(separator: " ")
    }
}

// Entitlements also has a type named Flag; this target uses ArgumentParser's.
typealias Flag = ArgumentParser.Flag
