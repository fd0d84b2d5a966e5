import ArgumentParser
import Entitlements

/// An option of `serve` or `run` that the environment and the configuration file can set as well.
///
/// ``all`` is the only list of the keys of the file, of the environment variables, and of the help of these options.
struct Setting: Sendable {
    /// A command with a configuration, whose name is that of its section in the file.
    enum Command: String, CaseIterable, Sendable {
        case serve, run

        /// "serve or run".
        static let names = allCases.map(\.rawValue).joined(separator: " or ")
    }

    /// The values that a setting can have.
    enum Kind: Sendable {
        case text
        case number(ClosedRange<Int64>)
        case flag
        /// Texts. In the environment they are separated by spaces.
        case list
        case choice([String])
        case path
        /// The path of a file with a secret.
        case secretPath
        case pathOrURL
        /// The URL of a store. The path in it can be relative.
        case store
        /// A list of such URLs.
        case stores
    }

    /// The option without its dashes, which is the key in the file.
    let name: String
    /// The environment variable; `nil` if there is none.
    let variable: String?
    let kind: Kind
    /// The placeholder of the value in the help.
    let value: String
    let meaning: String
    /// The default, for the reader; `nil` if there is none.
    let standard: String?
    let commands: Set<Command>

    /// - Parameter variable: The environment variable, if it is not named after the option.
    init(
        _ name: String, _ kind: Kind, _ value: String, _ meaning: String, default standard: String? = nil,
        of commands: Set<Command> = [.serve], variable: String? = nil, hasVariable: Bool = true
    ) {
        (self.name, self.kind, self.value, self.meaning) = (name, kind, value, meaning)
        (self.standard, self.commands) = (standard, commands)
        let usual = "SYNCD_" + name.uppercased().replacing("-", with: "_")
        self.variable = hasVariable ? variable ?? usual : nil
    }

    /// The settings of `command`, in the order of the list.
    static func all(of command: Command) -> [Setting] { all.filter { $0.commands.contains(command) } }

    static func named(_ name: String, of command: Command) -> Setting? {
        all.first { $0.name == name && $0.commands.contains(command) }
    }

    var isFlag: Bool { if case .flag = kind { true } else { false } }

    var isList: Bool {
        switch kind {
        case .list, .stores: true
        default: false
        }
    }

    var isPath: Bool {
        switch kind {
        case .path, .secretPath, .pathOrURL: true
        default: false
        }
    }

    /// The possible values, for the reader.
    var values: String {
        switch kind {
        case .text: "text"
        case .number(let range) where range.upperBound == .max: "a number"
        case .number(let range): "a number from \(range.lowerBound) to \(range.upperBound)"
        case .flag: "true or false"
        case .list: "a list of texts"
        case .choice(let names): "one of \(names.joined(separator: ", "))"
        case .path: "a path"
        case .secretPath: "the path of a file with the secret"
        case .pathOrURL: "a path or a URL"
        case .store: "a store"
        case .stores: "a list of stores"
        }
    }

    /// The number that the text of a setting states.
    static func number(_ text: String?, of name: String) throws(Failure) -> Int64? {
        guard let text, let setting = all.first(where: { $0.name == name }) else { return nil }
        if let number = Int64(text), case .number(let range) = setting.kind, range.contains(number) { return number }
        let unit = setting.value == "seconds" ? "number of seconds" : "number"
        let values = setting.values.replacing("number", with: unit)
        throw Failure(.usage, "--\(name) must be \(values), not \"\(text.singleLine)\"", of: [name])
    }

    /// The case that the text of a setting names.
    static func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ text: String?, of name: String
    ) throws(Failure) -> Choice? {
        try choice(text, of: name, among: Choice.allCases, \.rawValue)
    }

    /// The element of `choices` that the text of a setting names.
    static func choice<Choice>(
        _ text: String?, of name: String, among choices: some Sequence<Choice>, _ nameOf: (Choice) -> String
    ) throws(Failure) -> Choice? {
        guard let text, let setting = all.first(where: { $0.name == name }) else { return nil }
        if let choice = choices.first(where: { nameOf($0) == text }) { return choice }
        throw Failure(.usage, "--\(name) must be \(setting.values), not \"\(text.singleLine)\"", of: [name])
    }

    /// The text of the option in the help.
    var help: ArgumentHelp {
        var notes: [String] = []
        if let variable { notes.append(variable + (isFlag ? "=1" : isList ? ", separated by spaces" : "")) }
        if let standard { notes.append("default: \(standard)") }
        let note = notes.isEmpty ? "" : " (\(notes.joined(separator: "; ")))"
        return ArgumentHelp("\(meaning)\(note).", valueName: isFlag ? nil : value)
    }

    /// The table of Docs/Operations.md, in Markdown.
    static var table: String {
        all.reduce("| key | sections | value | variable | meaning |\n|---|---|---|---|---|\n") { table, setting in
            let sections = Command.allCases.filter(setting.commands.contains).map { "`\($0.rawValue)`" }
            let variable = setting.variable.map { "`\($0)`" } ?? ""
            let standard = setting.standard.map { " (default: \($0))" } ?? ""
            return table
                + "| `\(setting.name)` | \(sections.joined(separator: ", ")) | \(setting.values) | \(variable) "
                + "| \(setting.meaning)\(standard) |\n"
        }
    }
}

extension ArgumentHelp? {
    /// The help of the option that sets `name`.
    static func setting(_ name: String, of command: Setting.Command = .serve) -> ArgumentHelp? {
        Setting.named(name, of: command)?.help
    }
}
