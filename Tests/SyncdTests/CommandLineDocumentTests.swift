import Foundation
import Testing

/// Compares `Docs/CommandLine.md` with the help of every command.
///
/// With `WRITE_COMMAND_LINE=1` in the environment the test writes the file instead.
@Suite("The command-line reference")
struct CommandLineDocumentTests {
    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
    }

    private struct Tool: Decodable {
        var command: Command
    }

    private struct Command: Decodable {
        var commandName: String
        var subcommands: [Command]?
    }

    private static let start = """
        # Command line

        The help of every command of `syncd`, as `syncd help COMMAND` prints it. Groups of options that commands share
        are at the end of the page. This page is generated: after a change, run
        `WRITE_COMMAND_LINE=1 swift test --filter CommandLineDocumentTests`.

        ## Exit codes

        | code | meaning |
        |---|---|
        | 0 | done |
        | 1 | failed |
        | 2 | wrong usage |
        | 3 | not found: a product, an account, a file, a store, a folder that is not mounted |
        | 4 | refused: not allowed, or not supported |
        | 5 | conflict with what is stored |
        | 10 | `check` and `use`: access denied |
        | 75 | temporary failure: try again later |

        An error is one line on standard error. Results go to standard output; `--json` prints them as JSON.

        ## Environment variables

        An option takes precedence over its variable. An empty variable counts as not set.


        """

    /// The variables that the help texts name, each with the options that name it.
    private static func variables(in help: String) -> String {
        var options: [String: Set<String>] = [:]
        var option = "password prompts"
        for line in help.split(separator: "\n") {
            if line.hasPrefix("  --"), let name = line.split(separator: " ").first { option = "`\(name)`" }
            if !line.hasPrefix(" ") { option = "password prompts" }
            for match in line.matches(of: /SYNCD_[A-Z_]+/) { options[String(match.output), default: []].insert(option) }
        }
        return options.sorted { $0.key < $1.key }.reduce("| variable | option |\n|---|---|\n") { table, row in
            let named = row.value.filter { $0.hasPrefix("`") }
            return table
                + "| `\(row.key)` | \((named.isEmpty ? row.value : named).sorted().joined(separator: ", ")) |\n"
        }
    }

    /// The groups of options that many commands share, which the page shows once.
    private static let sharedTitles = ["COMMON OPTIONS:", "CATALOGUE OPTIONS:", "SERVER OPTIONS:"]

    /// The help of a command and its subcommands, each under its heading.
    ///
    /// - Parameter shared: collects the texts of the shared groups by their titles.
    private func help(of command: Command, path: [String], shared: inout [String: String]) throws -> String {
        let outcome = try sandbox.run(["help"] + path.dropFirst(), environment: ["COLUMNS": "100"])
        #expect(outcome.exitCode == 0)
        var sections = outcome.output.components(separatedBy: "\n\n")
            .map { $0.trimmingCharacters(in: .newlines).replacing(#/ +\n/#, with: "\n") }.filter { !$0.isEmpty }
        var links: [String] = []
        for title in Self.sharedTitles {
            guard let index = sections.firstIndex(where: { $0.hasPrefix(title) }) else { continue }
            let text = sections.remove(at: index)
            // A command can have a part of a group. Only the whole group is left out.
            if shared[title] == nil { shared[title] = text }
            guard shared[title] == text else {
                sections.append(text)
                continue
            }
            let name = title.lowercased().dropLast()
            links.append("[\(name)](#\(name.replacing(" ", with: "-")))")
        }
        var text = "\n## \(path.joined(separator: " "))\n\n```text\n\(sections.joined(separator: "\n\n"))\n```\n"
        if !links.isEmpty { text += "\nShared: \(links.joined(separator: ", ")).\n" }
        for subcommand in command.subcommands ?? [] where subcommand.commandName != "help" {
            text += try help(of: subcommand, path: path + [subcommand.commandName], shared: &shared)
        }
        return text
    }

    @Test("Docs/CommandLine.md has the current help of every command")
    func isCurrent() throws {
        let dump = try sandbox.run("--experimental-dump-help").output
        let tool = try JSONDecoder().decode(Tool.self, from: Data(dump.utf8))
        var shared: [String: String] = [:]
        var help = try help(of: tool.command, path: [tool.command.commandName], shared: &shared)
        for title in Self.sharedTitles {
            let name = title.capitalized.replacing("Options:", with: "options")
            help += "\n## \(name)\n\n```text\n\(try #require(shared[title]))\n```\n"
        }
        let text = Self.start + Self.variables(in: help) + help
        let file = Sandbox.repository.appending(path: "Docs/CommandLine.md")
        if ProcessInfo.processInfo.environment["WRITE_COMMAND_LINE"] == "1" { try Data(text.utf8).write(to: file) }
        let written = try String(decoding: Data(contentsOf: file), as: UTF8.self)
        #expect(
            written == text,
            "out of date: run WRITE_COMMAND_LINE=1 swift test --filter CommandLineDocumentTests and review the page")
    }
}
