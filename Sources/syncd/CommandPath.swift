import ArgumentParser
import Entitlements

/// The command that a command line names, and the first word that is not a known subcommand.
///
/// ArgumentParser reports an unknown subcommand as an unexpected argument, and `help` ignores it.
struct CommandPath {
    /// The names of the command, starting with `syncd`.
    private(set) var names = ["syncd"]
    /// The word that was passed where a subcommand is expected; `nil` if all are known.
    private(set) var stray: String?
    /// `true` if the command requires a subcommand and none was passed.
    private(set) var isIncomplete = false
    private var command: any ParsableCommand.Type = SyncD.self
    private let isHelp: Bool
    /// The words after the names.
    private var rest: ArraySlice<String> = []

    /// Follows the subcommand names in `arguments`, whose first element is the program.
    init(_ arguments: [String]) {
        var words = arguments.dropFirst()
        isHelp = words.first == "help"
        if isHelp { words.removeFirst() }
        defer { rest = words }
        while let word = words.first, !word.hasPrefix("-") {
            let subcommands = command.configuration.subcommands
            // The arguments of a command begin here.
            if subcommands.isEmpty && !isHelp { return }
            guard let next = subcommands.first(where: { $0.name == word || $0.configuration.aliases.contains(word) })
            else {
                stray = word
                return
            }
            (command, names) = (next, names + [next.name])
            words.removeFirst()
        }
        isIncomplete =
            words.isEmpty && !isHelp && names.count > 1 && !command.configuration.subcommands.isEmpty
            && command.configuration.defaultSubcommand == nil
    }

    /// The sentence that points to the help of the command.
    var pointer: String { "See '\((["syncd", "help"] + names.dropFirst()).joined(separator: " "))'." }

    /// Throws for an unknown subcommand, for a missing one, and for a repeated option that has one value.
    func check() throws {
        let name = names.joined(separator: " ")
        let subcommands = command.configuration.subcommands.map { $0.name }
        if let stray {
            let meant = suggestion(for: stray).map { " Did you mean '\($0)'?" } ?? ""
            throw Failure(.usage, "'\(stray.singleLine)' is not a subcommand of '\(name)'.\(meant) \(pointer)")
        }
        if isIncomplete {
            throw Failure(.usage, "'\(name)' needs a subcommand: \(subcommands.joined(separator: ", ")). \(pointer)")
        }
        try checkRepetition()
    }

    /// Throws for an option that is passed twice although only one of its values could apply.
    ///
    /// ArgumentParser would apply the last one without a word.
    private func checkRepetition() throws {
        let repeated = RepeatedOptions(rest).names
        guard !repeated.isEmpty else { return }
        // The description that --experimental-dump-help prints.
        let tool = try JSONReader(parsing: command._dumpHelp().utf8).object()
        for argument in try tool.required("command").object().required("arguments").array() {
            let members = try argument.object()
            guard try members.required("kind").string() == "option", try !members.required("isRepeating").bool()
            else { continue }
            for name in try members["names"]?.array() ?? [] {
                let name = try name.object().required("name").string()
                if repeated.contains(name) { throw RepeatedOptions.failure(name, pointer) }
            }
        }
    }

    /// The subcommand of this command with the most similar name, or else, for the root command, the path of a command
    /// called `word`; `nil` if there is neither.
    private func suggestion(for word: String) -> String? {
        nearest(to: word, among: command.configuration.subcommands.map { $0.name })
            ?? (names.count == 1 ? Self.path(to: word, in: SyncD.self) : nil)
    }

    /// The names from the root to the first command that is called `word`.
    private static func path(to word: String, in command: any ParsableCommand.Type) -> String? {
        for subcommand in command.configuration.subcommands {
            let name = subcommand.name
            if name == word { return name }
            if let rest = path(to: word, in: subcommand) { return "\(name) \(rest)" }
        }
        return nil
    }
}

extension ParsableCommand {
    fileprivate static var name: String { configuration.commandName ?? String(describing: self).lowercased() }
}

/// The options that are passed more than once.
struct RepeatedOptions {
    /// The names without dashes.
    let names: Set<String>

    init(_ words: some Sequence<String>) {
        var seen: Set<String> = []
        var names: Set<String> = []
        for word in words.prefix(while: { $0 != "--" }) where word.hasPrefix("--") {
            let name = String(word.dropFirst(2).prefix { $0 != "=" })
            if !seen.insert(name).inserted { names.insert(name) }
        }
        self.names = names
    }

    static func failure(_ name: String, _ pointer: String) -> Failure {
        Failure(.usage, "--\(name) can be passed only once. \(pointer)")
    }
}
