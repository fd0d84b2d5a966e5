import Entitlements
import Foundation

/// A configuration file: a JSON object with a section for each command.
///
/// ```json
/// {"serve": {"store": "sqlite:/var/lib/syncd/store.sqlite", "listen": "0.0.0.0:443"}}
/// ```
struct ConfigurationFile: Sendable {
    /// A mistake at a line of the file.
    struct Mistake: Error {
        /// The line; `nil` if the mistake concerns the whole file.
        var line: Int?
        /// The key with its section, such as `serve.listen`; `nil` if no key causes the mistake.
        var key: [String]?
        var reason: String

        init(_ reason: String, at line: Int? = nil, key: [String]? = nil) {
            (self.reason, self.line, self.key) = (reason, line, key)
        }
    }

    /// The path as it was given.
    let path: String
    /// The unit for which root reads the file.
    private let unit: ServiceUnit?
    /// The valid values, by section and key.
    private(set) var values: [[String]: (texts: [String], source: SettingSource)] = [:]
    /// The mistakes that are visible without the meaning of the values, in the order of their lines.
    private(set) var mistakes: [Mistake] = []
    private var lines: [[String]: Int] = [:]

    /// The sections of the file.
    private(set) var commands: [Setting.Command] = []

    /// The line of a section.
    func line(of section: String) -> Int? { lines[[section]] }

    /// The failure of a command that cannot start because of a mistake.
    func failure(_ mistake: String) -> Failure {
        Failure(.usage, "\(mistake) (syncd config check --config \(path) lists all mistakes)")
    }

    /// The mistake as one line: the file, the line, the key and the reason.
    func describe(_ mistake: Mistake) -> String {
        let location = path + (mistake.line.map { ":\($0)" } ?? "")
        let key = mistake.key.map { $0.map(\.singleLine).joined(separator: ".") + ": " } ?? ""
        return "\(location): \(key)\(mistake.reason)"
    }

    /// Reads the file at `path`.
    ///
    /// - Parameter unit: the unit for which root reads it; `nil` for this process.
    init(path: String, for unit: ServiceUnit? = nil) {
        (self.path, self.unit) = (path, unit)
        do throws(Mistake) {
            let root = try Self.parse(try Self.read(path, owner: unit?.user.id ?? geteuid()))
            lines = root.lines
            guard case .object(let sections) = root.value else {
                throw Mistake(
                    "must be an object with the sections \(Self.sectionNames), not \(root.value.typeName)", at: 1)
            }
            for (name, section) in sections { read(section, name: name) }
        } catch {
            mistakes = [error]
        }
        // Another file may be a draft in a folder of root's.
        if let unit, path == unit.configurationPath, let reason = unit.user.unreadable(path) {
            mistakes.append(Mistake(reason))
        }
        mistakes.sort { ($0.line ?? 0, $0.reason) < ($1.line ?? 0, $1.reason) }
    }

    private static let sectionNames = Setting.Command.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: " and ")

    private static let maximumByteCount = 1 << 20

    /// Reads a file that only `owner` and root can change.
    private static func read(_ path: String, owner: uid_t) throws(Mistake) -> [UInt8] {
        // Without O_NONBLOCK, opening a named pipe would wait for a writer.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            throw Mistake(errno == ENOENT || errno == ENOTDIR ? "no such file" : String(cString: strerror(errno)))
        }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw Mistake(String(cString: strerror(errno))) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw Mistake("must be a regular file") }
        guard status.st_mode & 0o022 == 0 else {
            throw Mistake("has mode \(modeText(status)), so other users can change it: chmod go-w \(path.singleLine)")
        }
        guard status.st_uid == 0 || status.st_uid == owner else {
            throw Mistake("must belong to root or to the user who runs syncd, not to user \(status.st_uid)")
        }
        do {
            let bytes = try file.read(upToCount: maximumByteCount + 1) ?? Data()
            guard bytes.count <= maximumByteCount else { throw Mistake("is longer than 1 MiB") }
            return Array(bytes)
        } catch let mistake as Mistake {
            throw mistake
        } catch {
            throw Mistake("cannot be read: \(error.localizedDescription)")
        }
    }

    private static func parse(_ bytes: [UInt8]) throws(Mistake) -> (value: JSON, lines: [[String]: Int]) {
        guard !bytes.starts(with: [0xEF, 0xBB, 0xBF]) else {
            throw Mistake("starts with a byte order mark: save it as UTF-8 without one", at: 1)
        }
        do throws(InputError) { return try JSON.located(parsing: bytes) } catch {
            throw Mistake("column \(error.column ?? 1): \(error.reason)", at: error.line)
        }
    }

    private mutating func read(_ section: JSON, name: String) {
        guard let command = Setting.Command(rawValue: name) else {
            let owner = Setting.Command.allCases.first { Setting.named(name, of: $0) != nil }
            let hint =
                owner.map { "put it in the section \"\($0.rawValue)\"" }
                ?? Self.suggestion(
                    for: name, among: Setting.Command.allCases.map(\.rawValue),
                    orAll: "the sections are \(Self.sectionNames)")
            return add("unknown section, \(hint)", of: [name])
        }
        guard case .object(let members) = section else {
            return add("must be an object, not \(section.typeName)", of: [name])
        }
        commands.append(command)
        for (key, value) in members {
            guard let setting = Setting.named(key, of: command) else {
                add(Self.unknown(key, in: command), of: [name, key])
                continue
            }
            do throws(Mistake) {
                let texts = try texts(of: value, for: setting, at: [name, key])
                let elements = texts.indices.map { lines[[name, key, "[\($0)]"]] ?? 1 }
                values[[name, key]] = (texts, .file(line: lines[[name, key]] ?? 1, elements: elements))
            } catch {
                add(error.reason, of: [name, key], at: error.line)
            }
        }
    }

    private mutating func add(_ reason: String, of key: [String], at line: Int? = nil) {
        mistakes.append(Mistake(reason, at: line ?? lines[key], key: key))
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

    /// The value as text, or the elements of a list. Relative paths start at the folder of the file.
    private func texts(of value: JSON, for setting: Setting, at key: [String]) throws(Mistake) -> [String] {
        func wrong(_ hint: String = "") -> Mistake {
            let found =
                switch value {
                case .string(let text): "\"\(text.singleLine)\""
                case .number(let number): String(number)
                default: value.typeName
                }
            return Mistake("must be \(setting.values), not \(found)\(hint)")
        }
        switch (setting.kind, value) {
        case (.flag, .bool(let flag)): return [flag ? "true" : "false"]
        case (.number(let range), .number(let number)) where range.contains(number): return [String(number)]
        case (.list, .array(let elements)), (.stores, .array(let elements)):
            return try elements.enumerated().map { (index, element) throws(Mistake) in
                do throws(Mistake) { return try text(element, of: setting) } catch {
                    throw Mistake(error.reason, at: lines[key + ["[\(index)]"]])
                }
            }
        case (.flag, _), (.number, _), (.list, _), (.stores, _): throw wrong()
        case (.choice(let names), .string(let text)) where !names.contains(text):
            let hint = nearest(to: text, among: names).map { ", did you mean \"\($0)\"?" } ?? ""
            throw wrong(hint)
        default: return [try text(value, of: setting)]
        }
    }

    private func text(_ value: JSON, of setting: Setting) throws(Mistake) -> String {
        guard case .string(let text) = value else { throw Mistake("must be text, not \(value.typeName)") }
        guard !text.isEmpty else { throw Mistake("must not be empty") }
        guard !text.unicodeScalars.contains("\0") else { throw Mistake("must not contain the character U+0000") }
        switch setting.kind {
        case .path: return located(text)
        case .secretPath:
            let path = located(text)
            // The message does not repeat the value, which may be a secret instead of a path.
            let isUnavailable = unit?.isUnavailable(path) ?? false
            guard isUnavailable || access(unit?.source(path) ?? path, F_OK) == 0 || errno == EACCES else {
                throw Mistake("no such file: it must be the path of a file with the secret, never the secret itself")
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

    /// Reads the file for a command that starts.
    ///
    /// - Throws: ``Failure`` with the first mistake of the file.
    static func findValid(_ option: String?) throws(Failure) -> ConfigurationFile? {
        let file = find(option)
        if let file, let mistake = file.mistakes.first { throw file.failure(file.describe(mistake)) }
        return file
    }
}
