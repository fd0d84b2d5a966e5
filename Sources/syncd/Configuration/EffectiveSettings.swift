import ArgumentParser
import Entitlements
import Foundation

/// A command whose options the environment and the configuration file can set.
protocol ConfiguredCommand: AsyncParsableCommand {
    /// The command's section in the file.
    static var section: Setting.Command { get }
    /// The property of each setting, by its name.
    static var properties: [String: SettingProperty<Self>] { get }

    /// Checks all values without opening a store or listening.
    func checkValues() throws
}

/// The property of a command that holds the value of a setting.
enum SettingProperty<Options> {
    case flag(WritableKeyPath<Options, Bool>)
    case text(WritableKeyPath<Options, String?>)
    case list(WritableKeyPath<Options, [String]>)
}

extension ConfiguredCommand {
    /// The value of a setting: one text, or all texts of a list; `nil` if it is not set, and for a flag that is false.
    subscript(setting: String) -> [String]? {
        get {
            switch Self.properties[setting] {
            case .flag(let path): self[keyPath: path] ? ["true"] : nil
            case .text(let path): self[keyPath: path].map { [$0] }
            case .list(let path): self[keyPath: path].isEmpty ? nil : self[keyPath: path]
            case nil: nil
            }
        }
        set {
            switch Self.properties[setting] {
            case .flag(let path): self[keyPath: path] = newValue == ["true"]
            case .text(let path): self[keyPath: path] = newValue?.first
            case .list(let path): self[keyPath: path] = newValue ?? []
            case nil: break
            }
        }
    }
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

/// The source of a setting's value.
enum SettingSource {
    case flag
    case variable(String)
    /// The line of the key, and the lines of the elements of a list.
    case file(line: Int, elements: [Int])
}

/// The options of a command with the source of each value: flags over environment variables over the file.
struct EffectiveSettings<Options: ConfiguredCommand> {
    let file: ConfigurationFile?
    private let unit: ServiceUnit?
    private(set) var options: Options
    /// The sources by the names of the settings. A setting that has its default is missing.
    private(set) var sources: [String: SettingSource] = [:]
    /// Settings whose credential was replaced by its source file.
    private var provided: Set<String> = []
    /// Settings whose credential exists only while the unit runs. Their values are left out.
    private(set) var unavailable: [String] = []

    private static var settings: [Setting] { Setting.all(of: Options.section) }

    /// Adds the values of the environment and of a file to the options that ArgumentParser has read.
    ///
    /// - Parameter unit: the unit for which root reads them. Source files replace its credentials.
    /// - Throws: ``Failure`` for an environment variable of a flag that is neither true nor false.
    init(_ flags: Options, file: ConfigurationFile?, for unit: ServiceUnit? = nil) throws(Failure) {
        (options, self.file, self.unit) = (flags, file, unit)
        for setting in Self.settings where options[setting.name] != nil { sources[setting.name] = .flag }
        try add { setting throws(Failure) in
            guard let variable = setting.variable, let text = environmentVariable(variable) else { return nil }
            let texts =
                setting.isFlag
                ? [try isSet(variable) ? "true" : "false"]
                : setting.isList ? text.split(separator: " ").map(String.init) : [text]
            return (texts, .variable(variable))
        }
        try add { setting in file?.values[[Options.section.rawValue, setting.name]] }
        if let unit { replaceCredentials(of: unit) }
    }

    /// Reads the arguments of a command that another command examines.
    ///
    /// - Parameter unit: the unit for which root reads them, if the command is that of the unit. Its arguments come
    ///   first.
    init(parsing words: [String], file: ConfigurationFile?, for unit: ServiceUnit? = nil) throws {
        let unit = Options.section == .serve ? unit : nil
        let words = (unit?.arguments ?? []) + words
        try CommandPath(["syncd", Options.section.rawValue] + words).check()
        try self.init(try Options.parse(words), file: file, for: unit)
    }

    /// Adds the values of a source to those of the sources with precedence.
    private mutating func add(
        _ read: (Setting) throws(Failure) -> (texts: [String], source: SettingSource)?
    ) throws(Failure) {
        let earlier = (sources, options)
        for setting in Self.settings where earlier.0[setting.name] == nil {
            guard let (texts, source) = try read(setting), !texts.isEmpty else { continue }
            // A flag replaces its opposite of a later source.
            let opposite = Setting.opposites[setting.name].flatMap { earlier.1[$0] }
            guard opposite == nil || texts == ["false"] else { continue }
            (options[setting.name], sources[setting.name]) = (texts, source)
        }
    }

    private mutating func replaceCredentials(of unit: ServiceUnit) {
        for setting in Self.settings where setting.isPath {
            guard let path = options[setting.name]?.first else { continue }
            if unit.isUnavailable(path) {
                unavailable.append(setting.name)
                (options[setting.name], sources[setting.name]) = (nil, nil)
            } else if unit.source(path) != path {
                provided.insert(setting.name)
                options[setting.name] = [unit.source(path)]
            }
        }
    }

    /// The user of the server for whom root checks the values; `nil` for another caller, and for a server of root's.
    var serviceUser: ServiceUser? {
        guard Options.section == .serve, geteuid() == 0 else { return nil }
        if let unit { return unit.user }
        let store = options["store"]?.first.flatMap { try? StoreURL($0, option: "--store") }
        return store?.location.flatMap(ServiceUser.init(ownerOfStore:))
    }

    /// Runs `body` with the options. A failure names the place of the value that causes it.
    func locatingFailures<Result>(_ body: (Options) throws -> Result) throws -> Result {
        do { return try body(options) } catch let failure as Failure {
            guard let name = cause(of: failure), let source = sources[name] else { throw failure }
            let message = mistake(failure, name).text
            guard case .file = source, let file else { throw Failure(failure.code, message) }
            throw file.failure(message)
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

    /// Returns the mistakes of the values, each found by the code that starts the command, and the settings without the
    /// values that have one.
    ///
    /// A value with a mistake is left out to find the next one. A failure that names a value that was left out may
    /// follow from that, so it is not reported.
    func review() -> (mistakes: [Mistake], usable: EffectiveSettings) {
        var found = unreadable()
        var rest = self
        var leftOut = Set(unavailable)
        let section = Options.section.rawValue
        leftOut.formUnion(file?.mistakes.filter { $0.key?.first == section }.compactMap { $0.key?.last } ?? [])
        while let failure = rest.firstFailure() {
            guard let name = rest.cause(of: failure) else {
                return (found + [Mistake(text: failure.message)], rest)
            }
            if leftOut.isDisjoint(with: failure.settings) { found.append(rest.mistake(failure, name)) }
            guard let source = rest.sources[name] else { return (found, rest) }
            // The other elements of a list are examined, and may be usable.
            if let element = rest.element(failure, name), let texts = rest.options[name], texts.count > 1 {
                rest.options[name]?.remove(at: element)
                guard case .file(let line, var lines) = source else { continue }
                lines.remove(at: element)
                rest.sources[name] = .file(line: line, elements: lines)
            } else {
                (rest.options[name], rest.sources[name]) = (nil, nil)
                leftOut.insert(name)
            }
        }
        return (found, rest)
    }

    /// The files that the user of the server cannot read, although root can.
    private func unreadable() -> [Mistake] {
        guard let user = serviceUser else { return [] }
        return Self.settings.compactMap { setting in
            guard setting.isPath, !provided.contains(setting.name), let path = options[setting.name]?.first,
                let reason = user.unreadable(path)
            else { return nil }
            return mistake(Failure(.refused, "--\(setting.name): \(reason)", of: [setting.name]), setting.name)
        }
    }

    private func firstFailure() -> Failure? {
        do { try options.checkValues() } catch { return Failure(error) }
        return nil
    }

    /// The setting that causes a failure.
    private func cause(of failure: Failure) -> String? {
        failure.settings.first { sources[$0] != nil } ?? failure.settings.first
    }

    /// The index of the element of the setting that causes a failure.
    private func element(_ failure: Failure, _ name: String) -> Int? {
        name == failure.settings.first ? failure.element : nil
    }

    /// The failure as a mistake of a setting, with the place of its value.
    private func mistake(_ failure: Failure, _ name: String) -> Mistake {
        var reason = failure.message
        for start in ["--\(name): ", "--\(name) "] where reason.hasPrefix(start) && !reason.hasPrefix("--\(name) and") {
            reason.removeFirst(start.count)
        }
        let line: Int?
        switch sources[name] {
        case .flag: return Mistake(name: name, text: failure.message)
        case .variable(let variable): return Mistake(name: name, text: "\(variable): \(reason)")
        case .file(let key, let elements): line = element(failure, name).map { elements[$0] } ?? key
        case nil: line = file?.line(of: Options.section.rawValue)
        }
        // In the file, options have no dashes.
        reason = reason.replacing(#/--([a-z][a-z0-9-]*)/#) { match in
            Setting.named(String(match.1), of: Options.section) == nil ? match.0 : match.1
        }
        let located = ConfigurationFile.Mistake(reason, at: line, key: [Options.section.rawValue, name])
        return Mistake(name: name, line: line ?? 0, text: file?.describe(located) ?? failure.message)
    }
}
