import Configuration
import Entitlements
import Foundation

/// A configuration file: a JSON object with a section for each command.
///
/// ```json
/// {"serve": {"store": "sqlite:/var/lib/syncd/store.sqlite", "listen": "0.0.0.0:443"}}
/// ```
struct ConfigurationFile: Sendable {
    /// A mistake at a line of the file.
    struct Mistake: Hashable, Sendable {
        /// The line; `nil` if the mistake concerns the whole file.
        var line: Int?
        /// The key with its section, such as `serve.listen`; `nil` if no key causes the mistake.
        var key: [String]?
        var reason: String
    }

    /// The path as it was given.
    let path: String
    /// The unit for which root reads the file.
    private let unit: ServiceUnit?
    /// The valid values.
    private(set) var values: [AbsoluteConfigKey: ConfigValue] = [:]
    /// The mistakes that are visible without the meaning of the values, in the order of their lines.
    private(set) var mistakes: [Mistake] = []
    private var lines: [[String]: Int] = [:]

    /// The sections of the file.
    private(set) var commands: [Setting.Command] = []

    /// The line of a section, a key, or an element such as `[1]` of a list.
    func line(of key: String...) -> Int? { lines[key] }

    /// The mistake as one line: the file, the line, the key and the reason.
    func describe(_ mistake: Mistake) -> String {
        let place = path + (mistake.line.map { ":\($0)" } ?? "")
        let key = mistake.key.map { $0.map(\.singleLine).joined(separator: ".") + ": " } ?? ""
        return "\(place): \(key)\(mistake.reason)"
    }

    /// Reads the file at `path`.
    ///
    /// - Parameter unit: the unit for which root reads it; `nil` for this process.
    init(path: String, for unit: ServiceUnit? = nil) {
        (self.path, self.unit) = (path, unit)
        do throws(Refusal) {
            let root = try Self.parse(try Self.read(path, owner: unit?.user.id ?? geteuid()))
            lines = root.lines
            guard case .object(let sections) = root.value else {
                throw Refusal("must be an object with the sections \(Self.sectionNames), not \(root.value.typeName)", 1)
            }
            for (name, section) in sections { read(section, name: name) }
        } catch {
            mistakes = [Mistake(line: error.line, reason: error.reason)]
        }
        // Another file may be a draft in a folder of root's.
        if let unit, path == unit.configurationPath, let reason = unit.user.unreadable(path) {
            mistakes.append(Mistake(reason: reason))
        }
        mistakes.sort { ($0.line ?? 0, $0.reason) < ($1.line ?? 0, $1.reason) }
    }

    private static let sectionNames = Setting.Command.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: " and ")

    /// An error that concerns the whole file.
    private struct Refusal: Error {
        var reason: String
        var line: Int?

        init(_ reason: String, _ line: Int? = nil) { (self.reason, self.line) = (reason, line) }
    }

    private static let maximumByteCount = 1 << 20

    /// Reads a file that only `owner` and root can change.
    private static func read(_ path: String, owner: uid_t) throws(Refusal) -> [UInt8] {
        // Without O_NONBLOCK, opening a named pipe would wait for a writer.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            throw Refusal(errno == ENOENT || errno == ENOTDIR ? "no such file" : String(cString: strerror(errno)))
        }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw Refusal(String(cString: strerror(errno))) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw Refusal("must be a regular file") }
        guard status.st_mode & 0o022 == 0 else {
            let mode = "0" + String(status.st_mode & 0o7777, radix: 8)
            throw Refusal("has mode \(mode), so other users can change it: chmod go-w \(path.singleLine)")
        }
        guard status.st_uid == 0 || status.st_uid == owner else {
            throw Refusal("must belong to root or to the user who runs syncd, not to user \(status.st_uid)")
        }
        do {
            let bytes = try file.read(upToCount: maximumByteCount + 1) ?? Data()
            guard bytes.count <= maximumByteCount else { throw Refusal("is longer than 1 MiB") }
            return Array(bytes)
        } catch let refusal as Refusal {
            throw refusal
        } catch {
            throw Refusal("cannot be read: \(error.localizedDescription)")
        }
    }

    private static func parse(_ bytes: [UInt8]) throws(Refusal) -> JSONValue.Located {
        guard !bytes.starts(with: [0xEF, 0xBB, 0xBF]) else {
            throw Refusal("starts with a byte order mark: save it as UTF-8 without one", 1)
        }
        do throws(JSONSyntaxError) { return try JSONValue.located(parsing: bytes) } catch {
            throw Refusal("column \(error.column): \(error.reason)", error.line)
        }
    }

    private mutating func read(_ section: JSONValue, name: String) {
        guard let command = Setting.Command(rawValue: name) else {
            let owner = Setting.Command.allCases.first { Setting.named(name, of: $0) != nil }
            let hint =
                owner.map { "put it in the section \"\($0.rawValue)\"" }
                ?? Self.suggestion(
                    for: name, among: Setting.Command.allCases.map(\.rawValue),
                    orAll: "the sections are \(Self.sectionNames)")
            return note([name], "unknown section, \(hint)")
        }
        guard case .object(let members) = section else {
            return note([name], "must be an object, not \(section.typeName)")
        }
        commands.append(command)
        for (key, value) in members {
            guard let setting = Setting.named(key, of: command) else {
                note([name, key], Self.unknown(key, in: command))
                continue
            }
            do throws(Refusal) {
                let content = try content(of: value, for: setting, at: [name, key])
                if case .stringArray([]) = content { continue }
                values[AbsoluteConfigKey([name, key])] = ConfigValue(content, isSecret: false)
            } catch {
                note([name, key], error.reason, at: error.line)
            }
        }
    }

    private mutating func note(_ key: [String], _ reason: String, at line: Int? = nil) {
        mistakes.append(Mistake(line: line ?? lines[key], key: key, reason: reason))
    }

    private static func unknown(_ key: String, in command: Setting.Command) -> String {
        if Setting.commandLineOnly.contains(key) { return "applies to the command line only" }
        if let other = Setting.Command.allCases.first(where: { Setting.named(key, of: $0) != nil }) {
            return "an option of \"\(other.rawValue)\", not of \"\(command.rawValue)\""
        }
        return "unknown key, "
            + suggestion(
                for: key, among: Setting.all(of: command).map(\.name),
                orAll: "syncd help \(command.rawValue) lists the options")
    }

    private static func suggestion(for word: String, among names: [String], orAll all: String) -> String {
        nearest(to: word, among: names).map { "did you mean \"\($0)\"?" } ?? all
    }

    /// The value as text. Relative paths start at the folder of the file.
    private func content(
        of value: JSONValue, for setting: Setting, at key: [String]
    ) throws(Refusal) -> ConfigContent {
        func refusal(_ expected: String) -> Refusal {
            if case .string(let text) = value { return Refusal("must be \(expected), not \"\(text.singleLine)\"") }
            if case .integer(let number) = value { return Refusal("must be \(expected), not \(number)") }
            return Refusal("must be \(expected), not \(value.typeName)")
        }
        switch (setting.kind, value) {
        case (.flag, .bool(let flag)): return .string(flag ? "true" : "false")
        case (.number(let range), .integer(let number)) where range.contains(number): return .string(String(number))
        case (.list, .array(let elements)), (.stores, .array(let elements)):
            var texts: [String] = []
            for (index, element) in elements.enumerated() {
                do throws(Refusal) { texts.append(try text(element, of: setting)) } catch {
                    throw Refusal(error.reason, lines[key + ["[\(index)]"]])
                }
            }
            return .stringArray(texts)
        case (.flag, _), (.number, _), (.list, _), (.stores, _): throw refusal(setting.values)
        case (.choice(let names), .string(let text)) where !names.contains(text):
            let hint = nearest(to: text, among: names).map { ", did you mean \"\($0)\"?" } ?? ""
            throw Refusal(refusal(setting.values).reason + hint)
        default: return .string(try text(value, of: setting))
        }
    }

    private func text(_ value: JSONValue, of setting: Setting) throws(Refusal) -> String {
        guard case .string(let text) = value else { throw Refusal("must be text, not \(value.typeName)") }
        guard !text.isEmpty else { throw Refusal("must not be empty") }
        guard !text.unicodeScalars.contains("\0") else { throw Refusal("must not contain the character U+0000") }
        switch setting.kind {
        case .path: return located(text)
        case .secretPath:
            let path = located(text)
            // The message does not repeat the value, which may be a secret that was written in place of a path.
            let isUnavailable = unit?.isUnavailable(path) ?? false
            guard isUnavailable || access(unit?.source(path) ?? path, F_OK) == 0 || errno == EACCES else {
                throw Refusal("no such file: it must be the path of a file with the secret, never the secret itself")
            }
            return path
        case .pathOrURL where !text.contains("://"): return located(text)
        case .store, .stores:
            guard let colon = text.firstIndex(of: ":"), ["file", "folder", "sqlite"].contains(text[..<colon]) else {
                return text
            }
            let rest = text[text.index(after: colon)...]
            return rest.isEmpty || rest.hasPrefix("/") ? text : text[...colon] + located(String(rest))
        default: return text
        }
    }

    /// A path that is relative to the folder of the file.
    private func located(_ text: String) -> String {
        guard !text.hasPrefix("/"), let slash = path.lastIndex(of: "/") else { return text }
        return path[...slash] + text
    }
}

extension ConfigurationFile {
    /// The paths of the files of which the first that exists is read.
    static var usualPaths: [String] {
        var user = environmentVariable("XDG_CONFIG_HOME")
        if user?.hasPrefix("/") != true { user = environmentVariable("HOME").map { $0 + "/.config" } }
        return [user.map { $0 + "/syncd/config.json" }, "/etc/syncd/syncd.json"].compactMap(\.self)
    }

    /// Reads the file of `--config` or of SYNCD_CONFIG, or the first of ``usualPaths``; `nil` if there is none.
    ///
    /// - Parameter unit: the unit for which root reads the file. Its own file then replaces the usual ones.
    static func find(_ option: String?, for unit: ServiceUnit? = nil) -> ConfigurationFile? {
        if let path = option ?? environmentVariable("SYNCD_CONFIG") { return ConfigurationFile(path: path, for: unit) }
        // A file that cannot be examined is not ignored: reading it reports the reason.
        return (unit.map { [$0.configurationPath] } ?? usualPaths)
            .first { access($0, F_OK) == 0 || ![ENOENT, ENOTDIR].contains(errno) }
            .map { ConfigurationFile(path: $0, for: unit) }
    }
}

extension ConfigurationFile: ConfigProvider, ConfigSnapshot {
    var providerName: String { "file" }

    func value(forKey key: AbsoluteConfigKey, type: ConfigType) throws -> LookupResult {
        LookupResult(encodedKey: key.components.joined(separator: "."), value: values[key])
    }

    nonisolated(nonsending) func fetchValue(
        forKey key: AbsoluteConfigKey, type: ConfigType
    ) async throws -> LookupResult {
        try value(forKey: key, type: type)
    }

    nonisolated(nonsending) func watchValue<Return: ~Copyable>(
        forKey key: AbsoluteConfigKey, type: ConfigType,
        updatesHandler:
            nonisolated(nonsending) (
                ConfigUpdatesAsyncSequence<Result<LookupResult, any Error>, Never>
            ) async throws -> Return
    ) async throws -> Return {
        try await watchValueFromValue(forKey: key, type: type, updatesHandler: updatesHandler)
    }

    func snapshot() -> any ConfigSnapshot { self }

    nonisolated(nonsending) func watchSnapshot<Return: ~Copyable>(
        updatesHandler:
            nonisolated(nonsending) (
                ConfigUpdatesAsyncSequence<any ConfigSnapshot, Never>
            ) async throws -> Return
    ) async throws -> Return {
        try await watchSnapshotFromSnapshot(updatesHandler: updatesHandler)
    }
}
