import ArgumentParser
import Entitlements
import Foundation
import SyncCore

/// The root command.
struct SyncD: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "syncd",
        abstract: "Keep purchases in sync between devices, offline first, and serve them.",
        discussion: """
            Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 refused, 5 conflict, 10 access denied, 75 try again \
            later.
            """,
        version: Version.description,
        subcommands: [Demo.self],
        groupedSubcommands: [
            CommandGroup(
                name: "Ledger",
                subcommands: [
                    RecordCommand.self, Use.self, Check.self, Explain.self, Status.self, TimelineCommand.self,
                    FactsCommand.self, Conflicts.self,
                ]),
            CommandGroup(name: "Sync", subcommands: [Sync.self, Restore.self, AccountCommand.self, Run.self]),
            CommandGroup(name: "Data", subcommands: [Import.self, Export.self, Evaluate.self, CatalogCommand.self]),
            CommandGroup(
                name: "Server",
                subcommands: [
                    Serve.self, ConfigCommand.self, Doctor.self, StoreCommand.self, KeysCommand.self, TokenCommand.self,
                    EvidenceCommand.self, NotificationsCommand.self, WebhookCommand.self, McpCommand.self,
                    Audit.self,
                ]),
        ])
}

@main
enum Main {
    static func main() async {
        do {
            try checkEncoding()
            try CommandPath(CommandLine.arguments).check()
            var command = try SyncD.parseAsRoot()
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
            leave(0)
        } catch let failure as ExitCode {
            leave(failure.rawValue)
        } catch {
            finish(with: error)
        }
    }

    /// Throws for an argument that is not UTF-8: replacing its bytes could turn two ids into one.
    private static func checkEncoding() throws(Failure) {
        for (index, argument) in CommandLine.arguments.enumerated() where argument.contains("\u{FFFD}") {
            throw Failure(.usage, "argument \(index) is not UTF-8: \"\(argument.singleLine)\"")
        }
    }

    /// Prints the requested help, or reports the error in one line on standard error.
    private static func finish(with error: any Error) -> Never {
        if SyncD.exitCode(for: error) == .success {
            print(optionsFirst(SyncD.fullMessage(for: error)))
            leave(0)
        }
        let failure: Failure
        if SyncD.exitCode(for: error) == .validationFailure {
            let message = SyncD.message(for: error)
            let end = message.last.map { ".?!".contains($0) } == true ? "" : "."
            failure = Failure(.usage, "\(message)\(end) \(CommandPath(CommandLine.arguments).pointer)")
        } else {
            failure = Failure(error)
        }
        warn(failure.message.onOneLine)
        leave(failure.code.rawValue)
    }

    /// Ends the process without the exit handlers of libraries.
    ///
    /// The handler of OpenSSL would free the same memory as a thread of libcurl that ends at that moment.
    private static func leave(_ code: Int32) -> Never {
        fflush(nil)
        _exit(code)
    }

    /// Moves a command's own options before the titled groups of shared ones, where ArgumentParser lists them last.
    private static func optionsFirst(_ help: String) -> String {
        var sections = help.components(separatedBy: "\n\n")
        guard let options = sections.firstIndex(where: { $0.hasPrefix("OPTIONS:\n") }),
            let titled = sections.firstIndex(where: { $0.prefix { $0 != "\n" }.hasSuffix(" OPTIONS:") }),
            titled < options
        else { return help }
        sections.insert(sections.remove(at: options).trimmingCharacters(in: .newlines), at: titled)
        return sections.map { $0.trimmingCharacters(in: .newlines) }.joined(separator: "\n\n") + "\n"
    }
}

// Entitlements declares a type of this name too.
typealias Flag = ArgumentParser.Flag
