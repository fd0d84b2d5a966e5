import ArgumentParser
import Configuration
import Entitlements
import Foundation
import Synchronization

/// A command whose options the environment and the configuration file can set.
protocol ConfiguredCommand: AsyncParsableCommand {
    /// Checks all values without opening a store or listening.
    func checkValues() throws
}

extension Setting.Command {
    /// The type of the command.
    var type: any ConfiguredCommand.Type {
        switch self {
        case .serve: Serve.self
        case .run: Run.self
        }
    }
}

/// The values of a command's settings, and the source of each: flags over environment variables over the file.
struct EffectiveSettings: Sendable {
    enum Source: Equatable {
        case flag
        case variable(String)
        case file(line: Int)
    }

    struct Value {
        /// One text, or all texts of a list.
        var texts: [String]
        var source: Source
    }

    let command: Setting.Command
    let file: ConfigurationFile?
    private let unit: ServiceUnit?
    /// The settings whose files root passes to the unit.
    private var provided: Set<String> = []
    /// The settings whose files exist only while the unit runs, which it does not. Their values are left out.
    private(set) var unavailable: [String] = []
    /// The values by the names of their settings. A setting that has its default is missing.
    private(set) var values: [String: Value] = [:]
    private var flags: [String]

    /// Reads the settings of `command`.
    ///
    /// - Parameters:
    ///   - flags: the arguments of the command, which ArgumentParser has accepted.
    ///   - file: the configuration file, if there is one.
    ///   - unit: the unit for which root reads them. Files of which systemd makes credentials replace the credentials.
    /// - Throws: ``Failure`` for an environment variable of a flag that is neither true nor false, and for a repeated
    ///   option that has one value.
    init(
        _ command: Setting.Command, flags: [String], file: ConfigurationFile?, for unit: ServiceUnit? = nil
    ) throws(Failure) {
        (self.command, self.file, self.unit) = (command, file, unit)
        self.flags = flags
        let repeated = RepeatedOptions(flags).names
        for setting in Setting.all(of: command)
        where !setting.isList && !setting.isFlag && repeated.contains(setting.name) {
            throw RepeatedOptions.failure(setting.name, "See 'syncd help \(command.rawValue)'.")
        }
        let sources: [any ConfigProvider] = [
            InMemoryProvider(name: "flags", values: Self.values(ofFlags: flags, command)),
            InMemoryProvider(name: "environment", values: try Self.valuesOfEnvironment(command)),
        ]
        let log = SourceLog()
        let reader = ConfigReader(providers: sources + (file.map { [$0] } ?? []), accessReporter: log)
        for setting in Setting.all(of: command) {
            let key: ConfigKey = [command.rawValue, setting.name]
            let texts = setting.isList ? reader.stringArray(forKey: key) : reader.string(forKey: key).map { [$0] }
            guard let texts, let provider = log.provider else { continue }
            let source: Source =
                switch provider {
                case sources[0].providerName: .flag
                case sources[1].providerName: .variable(setting.variable ?? "")
                default: .file(line: file?.line(of: command.rawValue, setting.name) ?? 1)
                }
            values[setting.name] = Value(texts: texts, source: source)
        }
        dropReplacedOpposites()
        if let unit { replaceCredentials(of: unit) }
    }

    private mutating func replaceCredentials(of unit: ServiceUnit) {
        for setting in Setting.all(of: command) {
            guard setting.isPath, let value = values[setting.name], let path = value.texts.first else { continue }
            if unit.isUnavailable(path) {
                unavailable.append(setting.name)
                _ = drop(setting.name, nil)
            } else if unit.source(path) != path {
                provided.insert(setting.name)
                values[setting.name]?.texts = [unit.source(path)]
            }
        }
    }

    /// The user of the server for whom root checks the values; `nil` for another caller, and for a server of root's.
    var serviceUser: ServiceUser? {
        guard command == .serve, geteuid() == 0 else { return nil }
        if let unit { return unit.user }
        let store = values["store"]?.texts.first.flatMap { try? StoreURL($0, option: "--store") }
        return store?.location.flatMap(ServiceUser.init(ownerOfStore:))
    }

    /// Reads the configuration file as well, for a command that starts.
    ///
    /// - Throws: ``Failure`` with the first mistake of the file.
    static func load(
        _ command: Setting.Command, flags: [String], config: String?
    ) throws(Failure) -> EffectiveSettings {
        let file = ConfigurationFile.find(config)
        if let file, let mistake = file.mistakes.first { throw pointing(file.describe(mistake), at: file) }
        return try EffectiveSettings(command, flags: flags, file: file)
    }

    private static func pointing(_ message: String, at file: ConfigurationFile) -> Failure {
        Failure(.usage, "\(message) (syncd config check --config \(file.path) lists all mistakes)")
    }

    /// The words after the name of the command that is running.
    static func flags(after command: Setting.Command) -> [String] {
        Array(CommandLine.arguments.drop { $0 != command.rawValue }.dropFirst())
    }

    /// The flags, and an argument for each value of another source.
    var arguments: [String] {
        Setting.all(of: command).reduce(into: flags) { words, setting in
            guard let value = values[setting.name], value.source != .flag else { return }
            if setting.isFlag {
                if value.texts == ["true"] { words.append("--\(setting.name)") }
            } else {
                words += value.texts.map { "--\(setting.name)=\($0)" }
            }
        }
    }

    /// Runs `body`. A failure names the place of the value that causes it.
    func locatingFailures<Result>(_ body: () throws -> Result) throws -> Result {
        do { return try body() } catch let failure as Failure {
            guard let name = cause(of: failure), let value = values[name] else { throw failure }
            let message = located(failure, name).text
            guard case .file = value.source, let file else { throw Failure(failure.code, message) }
            throw Self.pointing(message, at: file)
        }
    }

    private static func values(
        ofFlags flags: [String], _ command: Setting.Command
    ) -> [AbsoluteConfigKey: ConfigValue] {
        var texts: [String: [String]] = [:]
        for (index, word) in flags.enumerated() where word.hasPrefix("--") {
            let parts = word.dropFirst(2).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = parts.first.map(String.init), let setting = Setting.named(name, of: command) else {
                continue
            }
            let next = flags.indices.contains(index + 1) ? flags[index + 1] : ""
            texts[name, default: []].append(setting.isFlag ? "true" : parts.count == 2 ? String(parts[1]) : next)
        }
        return contents(texts, command)
    }

    private static func valuesOfEnvironment(
        _ command: Setting.Command
    ) throws(Failure) -> [AbsoluteConfigKey: ConfigValue] {
        var texts: [String: [String]] = [:]
        for setting in Setting.all(of: command) {
            guard let variable = setting.variable, let text = environmentVariable(variable) else { continue }
            if setting.isFlag {
                texts[setting.name] = [try isSet(variable) ? "true" : "false"]
            } else {
                texts[setting.name] = setting.isList ? text.split(separator: " ").map(String.init) : [text]
            }
        }
        return contents(texts, command)
    }

    private static func contents(
        _ texts: [String: [String]], _ command: Setting.Command
    ) -> [AbsoluteConfigKey: ConfigValue] {
        Dictionary(
            uniqueKeysWithValues: Setting.all(of: command).compactMap { setting in
                guard let texts = texts[setting.name], let last = texts.last else { return nil }
                let content: ConfigContent = setting.isList ? .stringArray(texts) : .string(last)
                return (AbsoluteConfigKey([command.rawValue, setting.name]), ConfigValue(content, isSecret: false))
            })
    }

    /// Drops a flag whose opposite comes from a source with precedence.
    private mutating func dropReplacedOpposites() {
        func rank(_ name: String) -> Int? {
            guard let value = values[name], value.texts == ["true"] else { return nil }
            switch value.source {
            case .flag: return 0
            case .variable: return 1
            case .file: return 2
            }
        }
        for (name, opposite) in Setting.opposites {
            if let own = rank(name), let other = rank(opposite), other < own { values[name] = nil }
        }
    }
}

extension EffectiveSettings {
    /// A mistake of a value.
    struct Mistake {
        /// The setting with the mistake; `nil` if no setting causes it.
        var name: String?
        /// The line in the file; 0 if the value is not from the file.
        var line = 0
        var text: String
    }

    /// The mistakes of the values, each found by the code that starts the command.
    func mistakes() throws -> [Mistake] { try review().mistakes }

    /// Returns the mistakes of the values, and the settings without the values that have one.
    ///
    /// A value with a mistake is left out to find the next one. Messages that name a value that was left out may follow
    /// from that, so they are not reported.
    func review() throws -> (mistakes: [Mistake], usable: EffectiveSettings) {
        var found = unreadable()
        var rest = self
        var leftOut = Set(unavailable)
        leftOut.formUnion(file?.mistakes.filter { $0.key?.first == command.rawValue }.compactMap { $0.key?.last } ?? [])
        while let failure = rest.firstFailure() {
            guard let name = rest.cause(of: failure) else {
                return (found + [Mistake(text: failure.message)], rest)
            }
            if leftOut.isDisjoint(with: Self.names(in: failure.message) + [name]) {
                let (line, text) = rest.located(failure, name)
                found.append(Mistake(name: name, line: line, text: text))
            }
            // The other elements of a list are examined, and may be usable.
            let element = rest.element(of: name, in: failure.message)
            guard rest.drop(name, element) else { return (found, rest) }
            if element == nil { leftOut.insert(name) }
        }
        return (found, rest)
    }

    /// The files that the user of the server cannot read, although root can.
    private func unreadable() -> [Mistake] {
        guard let user = serviceUser else { return [] }
        return Setting.all(of: command).compactMap { setting in
            guard setting.isPath, !provided.contains(setting.name), let path = values[setting.name]?.texts.first,
                let reason = user.unreadable(path)
            else { return nil }
            let (line, text) = located(Failure(.refused, "--\(setting.name): \(reason)"), setting.name)
            return Mistake(name: setting.name, line: line, text: text)
        }
    }

    /// The index of the element of a list that a message quotes, if the list has others.
    private func element(of name: String, in message: String) -> Int? {
        guard let texts = values[name]?.texts, texts.count > 1 else { return nil }
        return texts.firstIndex { message.contains("\"\($0.singleLine)\"") }
    }

    /// Removes the value of a setting, or one element of it, also from the flags. Returns `false` if there is none.
    private mutating func drop(_ name: String, _ element: Int?) -> Bool {
        guard let value = values[name] else { return false }
        values[name] = nil
        if let element {
            values[name] = value
            values[name]?.texts.remove(at: element)
            guard value.source == .flag else { return true }
        }
        let takesValue = Setting.named(name, of: command)?.isFlag == false
        var rest: [String] = []
        var words = flags[...]
        var count = 0
        while let word = words.popFirst() {
            guard word == "--\(name)" || word.hasPrefix("--\(name)=") else {
                rest.append(word)
                continue
            }
            let own = word == "--\(name)" && takesValue ? [word] + [words.popFirst()].compactMap { $0 } : [word]
            if let element, count != element { rest += own }
            count += 1
        }
        flags = rest
        return true
    }

    private func firstFailure() -> Failure? {
        do { try command.type.parse(arguments).checkValues() } catch { return Failure(error) }
        return nil
    }

    /// The setting that causes a failure: the message names its option, or the path that is its value.
    private func cause(of failure: Failure) -> String? {
        let named = Self.names(in: failure.message).filter { Setting.named($0, of: command) != nil }
        let option = named.first { values[$0] != nil } ?? named.first
        if let option, failure.message.hasPrefix("--") { return option }
        let text = " \(failure.message) "
        let path = Setting.all(of: command).first { setting in
            guard setting.isPath, let path = values[setting.name]?.texts.first else { return false }
            return [path, path.singleLine].contains { text.contains(" \($0) ") || text.contains(" \($0): ") }
        }
        return path?.name ?? option
    }

    /// The message of a failure with the place of the value that causes it, and its line in the file.
    private func located(_ failure: Failure, _ name: String) -> (line: Int, text: String) {
        var reason = failure.message
        for start in ["--\(name): ", "--\(name) "] where reason.hasPrefix(start) && !reason.hasPrefix("--\(name) and") {
            reason.removeFirst(start.count)
        }
        var line: Int?
        switch values[name]?.source {
        case .flag: return (0, failure.message)
        case .variable(let variable): return (0, "\(variable): \(reason)")
        case .file(let place):
            let element = values[name]?.texts.firstIndex { reason.contains("\"\($0.singleLine)\"") }
            line = element.flatMap { file?.line(of: command.rawValue, name, "[\($0)]") } ?? place
        case nil: line = file?.line(of: command.rawValue)
        }
        // In the file, options have no dashes.
        reason = reason.replacing(#/--([a-z][a-z0-9-]*)/#) { match in
            Setting.named(String(match.1), of: command) == nil ? match.0 : match.1
        }
        let mistake = ConfigurationFile.Mistake(line: line, key: [command.rawValue, name], reason: reason)
        return (line ?? 0, file?.describe(mistake) ?? failure.message)
    }

    /// The options that a message names.
    private static func names(in message: String) -> [String] {
        message.matches(of: #/--([a-z][a-z0-9-]*)/#).map { String($0.1) }
    }
}

/// The provider of the value that was read last.
private final class SourceLog: AccessReporter {
    private let last = Mutex<String?>(nil)

    var provider: String? { last.withLock { $0 } }

    func report(_ event: AccessEvent) {
        let provider = event.providerResults.first { (try? $0.result.get().value) != nil }?.providerName
        last.withLock { $0 = provider }
    }
}
