import ArgumentParser
import Entitlements
import Foundation

struct ConfigCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config", abstract: "Check the configuration file, and show what applies.",
        subcommands: [ConfigCheck.self, ConfigShow.self])
}

/// The option that names the configuration file.
struct ConfigOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The configuration file (SYNCD_CONFIG; default: the first that exists of "
                + "$XDG_CONFIG_HOME/syncd/config.json and /etc/syncd/syncd.json).", valueName: "file"))
    var config: String?
}

struct ConfigCheck: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Print every mistake of the configuration file with its line and key.",
        discussion: """
            The values are checked by the code that starts the command of their section, with the environment \
            variables of this process. Root checks the section "serve" for the user of the unit syncd.service, with \
            its variables and credentials; without the unit, for the owner of the store. The exit code is 2 if there \
            is a mistake.
            """)

    @OptionGroup var options: ConfigOptions

    func run() throws {
        let unit = ServiceUnit.installed()
        unit?.adoptEnvironment()
        guard let file = ConfigurationFile.find(options.config, for: unit) else {
            let paths = ConfigurationFile.usualPaths.joined(separator: " and ")
            throw Failure(.notFound, "there is no configuration file: \(paths) do not exist")
        }
        var mistakes = file.mistakes.map { (line: $0.line ?? 0, text: file.describe($0)) }
        var user = "user \(userName(geteuid()))"
        var unavailable: [String] = []
        for command in file.commands {
            func check<Options: ConfiguredCommand>(_ type: Options.Type) throws {
                let settings = try EffectiveSettings<Options>(parsing: [], file: file, for: unit)
                mistakes += settings.review().mistakes.map { ($0.line, $0.text) }
                user = settings.serviceUser?.description ?? user
                unavailable += settings.unavailable
            }
            try check(command.type)
        }
        guard !mistakes.isEmpty else {
            let names = unavailable.joined(separator: ", ")
            let rest = names.isEmpty ? "" : "; not checked: \(names) (a credential of the running unit)"
            return try writeOutput("\(file.path): no mistakes, checked for \(user)\(rest)\n".utf8)
        }
        let lines = mistakes.sorted { $0.line < $1.line }.map { mistake in
            let isOfUser = geteuid() != 0 && mistake.text.hasSuffix("permission denied")
            return mistake.text + (isOfUser ? " for \(user); root checks for the user of the server" : "") + "\n"
        }
        try writeOutput(lines.joined().utf8)
        throw ExitCode(.usage)
    }
}

struct ConfigShow: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Print the effective value of each setting and its source.",
        usage: "syncd config show [--json] [--config <file>] <command> [<options of the command>]",
        discussion: "A secret is shown as the path of its file.")

    @OptionGroup var options: ConfigOptions
    @OptionGroup var output: OutputOptions

    @Argument(
        parsing: .allUnrecognized,
        help: ArgumentHelp("\(Setting.Command.names), and options to apply.", valueName: "command"))
    var words: [String] = []

    func run() throws {
        guard let command = words.first.flatMap(Setting.Command.init) else {
            throw Failure(.usage, "pass the command whose configuration is shown: \(Setting.Command.names)")
        }
        let rows = try rows(command.type, Array(words.dropFirst()))
        let cells = rows.map { row in
            let text = row.texts.joined(separator: " ").singleLine
            return [row.setting.name, text.isEmpty ? "-" : text, row.source]
        }
        try output.show(.array(rows.map(\.json)), or: aligned(cells).joined(separator: "\n"))
    }

    private func rows<Options: ConfiguredCommand>(_ type: Options.Type, _ flags: [String]) throws -> [Row] {
        let file = try ConfigurationFile.findValid(options.config)
        let settings = try EffectiveSettings<Options>(parsing: flags, file: file)
        return Setting.all(of: Options.section).map { setting in
            let standard = setting.isFlag ? "false" : setting.standard
            let source =
                switch settings.sources[setting.name] {
                case .flag: "flag"
                case .variable(let name): name
                case .file(let line, _): "\(file?.path ?? ""):\(line)"
                case nil: "default"
                }
            return Row(
                setting: setting, texts: settings.options[setting.name] ?? standard.map { [$0] } ?? [], source: source)
        }
    }

    private struct Row {
        var setting: Setting
        var texts: [String]
        var source: String

        var json: JSON {
            let text = texts.first
            let value: JSON =
                switch setting.kind {
                case .list, .stores: .array(texts.map(JSON.string))
                case .flag: .bool(text == "true")
                case .number: text.flatMap(Int64.init).map(JSON.number) ?? JSON(text)
                default: JSON(text)
                }
            return ["name": .string(setting.name), "value": value, "source": .string(source)]
        }
    }
}
