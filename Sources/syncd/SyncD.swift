import ArgumentParser
import Entitlements
import Foundation
import SyncCore

/// The command line.
struct SyncD: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "syncd",
        abstract: "Every purchase, on every device.",
        discussion: """
            Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 refused, 5 conflict, 10 access denied, 75 try again \
            later.
            """,
        version: "0.1.0",
        subcommands: [
            Demo.self, Record.self, Use.self, Check.self, Explain.self, Sync.self, Restore.self, Status.self,
            TimelineCommand.self, FactsCommand.self, Import.self, Export.self, Evaluate.self, CatalogCommand.self,
            AccountCommand.self, Conflicts.self, StoreCommand.self, Serve.self,
        ])
}

@main
enum Main {
    static func main() async {
        do {
            try checkArguments()
            var command = try SyncD.parseAsRoot()
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch let failure as ExitCode {
            exit(failure.rawValue)
        } catch {
            finish(with: error)
        }
    }

    /// Bytes that are no UTF-8 would be replaced, and two ids could become one.
    private static func checkArguments() throws(Failure) {
        for (index, argument) in CommandLine.arguments.enumerated() where argument.contains("\u{FFFD}") {
            throw Failure(.usage, "argument \(index) is not UTF-8: \"\(argument.singleLine)\"")
        }
    }

    /// Prints help where help was asked for, else one line on standard error.
    private static func finish(with error: any Error) -> Never {
        if SyncD.exitCode(for: error) == .success {
            print(SyncD.fullMessage(for: error))
            exit(0)
        }
        let isUsage = SyncD.exitCode(for: error) == .validationFailure
        let failure = isUsage ? Failure(.usage, SyncD.message(for: error) + " (see syncd --help)") : Failure(error)
        let line = failure.message.split(whereSeparator: \.isNewline).joined(separator: " ")
        FileHandle.standardError.write(Data("syncd: \(line)\n".utf8))
        exit(failure.code.rawValue)
    }
}

// Entitlements has a type of this name too; the command line means the package's.
typealias Flag = ArgumentParser.Flag
