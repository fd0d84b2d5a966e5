import ArgumentParser
import Entitlements
import Foundation
import SyncAgent

/// The systemd unit of the server, as systemd has loaded it with all its drop-ins.
///
/// A check by root uses its environment, its credentials and its user, so that it finds what the server finds.
struct ServiceUnit: Sendable {
    static let name = "syncd.service"
    private static let credentialFolder = "/run/credentials/\(name)/"
    /// The bit of the capability CAP_NET_BIND_SERVICE.
    private static let bindingBit: Int64 = 1 << 10

    let user: ServiceUser
    private let environment: [String: String]
    /// The options of `syncd serve`.
    let arguments: [String]
    /// `true` if the unit may listen on every port.
    let mayBindAnyPort: Bool
    /// The source file of each credential, by the credential's name; `nil` if only the running unit has it in plain
    /// text.
    private let credentials: [String: String?]

    /// The unit of this machine; `nil` without systemd, without the unit, and for other users than root.
    static func installed() -> ServiceUnit? {
        guard geteuid() == 0 else { return nil }
        let path = "/org/freedesktop/systemd1/unit/" + name.replacing(".", with: "_2e")
        let manager = "org.freedesktop.systemd1"
        let words = ["call", manager, path, "org.freedesktop.DBus.Properties", "GetAll", "s", manager + ".Service"]
        guard let text = output(of: ["busctl", "--json=short"] + words),
            let answer = try? JSON(parsing: text), let properties = answer["data"]?.elements?.first?.members
        else { return nil }
        return ServiceUnit(properties)
    }

    /// The standard output of a program; `nil` if it is missing or fails.
    private static func output(of words: [String]) -> [UInt8]? {
        let (process, pipe) = (Process(), Pipe())
        (process.executableURL, process.arguments) = (URL(filePath: "/usr/bin/env"), words)
        (process.standardInput, process.standardError) = (FileHandle.nullDevice, FileHandle.nullDevice)
        process.standardOutput = pipe
        do {
            try process.run()
            let data = try pipe.fileHandleForReading.readToEnd() ?? Data()
            process.waitUntilExit()
            return process.terminationStatus == 0 ? Array(data) : nil
        } catch {
            return nil
        }
    }

    /// Reads the properties that D-Bus returns: each has a type and its data.
    init?(_ properties: [String: JSON]) {
        func data(_ name: String) -> JSON? { properties[name]?["data"] }
        func text(_ name: String) -> String { data(name)?.string ?? "" }
        func texts(_ name: String) -> [String] { data(name)?.elements?.compactMap(\.string) ?? [] }
        func rows(_ name: String) -> [[JSON]] { data(name)?.elements?.map { $0.elements ?? [] } ?? [] }
        func number(_ name: String) -> Int64 { if case .number(let number)? = data(name) { number } else { 0 } }
        let isDynamic = data("DynamicUser") == .bool(true)
        // The program, and its words with the name of the program.
        let words = rows("ExecStart").first?.dropFirst().first?.elements?.compactMap(\.string) ?? []
        guard let command = words.firstIndex(of: "serve") else { return nil }
        arguments = Array(words[(command + 1)...])
        environment = Self.variables(rows("EnvironmentFiles"), texts("Environment"))
        credentials = Dictionary(
            rows("LoadCredential").compactMap { row in row.first?.string.map { ($0, row.last?.string) } }
                + (rows("LoadCredentialEncrypted") + rows("SetCredential") + rows("SetCredentialEncrypted"))
                .compactMap { row in row.first?.string.map { ($0, nil) } }
        ) { $1 }
        let states = texts("StateDirectory").map { (isDynamic ? "/var/lib/private/" : "/var/lib/") + $0 }
        var user = Self.user(
            text("User"), [text("Group")] + texts("SupplementaryGroups"), running: number("UID"),
            isDynamic ? states : nil)
        user.ownFolders = isDynamic ? states : []
        let isHome = ["yes", "tmpfs"].contains(text("ProtectHome"))
        user.hiddenFolders =
            (isHome ? ["/home", "/root", "/run/user"] : [])
            + (data("PrivateTmp") == .bool(true) ? ["/tmp", "/var/tmp"] : [])
        if text("ProtectSystem") == "strict" { user.writableFolders = states + texts("ReadWritePaths") }
        self.user = user
        mayBindAnyPort =
            user.id == 0
            || (number("AmbientCapabilities") & Self.bindingBit != 0 && data("PrivateUsers") != .bool(true))
    }

    /// - Parameters:
    ///   - running: the user of the running unit; 0 or `uid_t.max` if it does not run.
    ///   - states: the state folders of a dynamic user, whom systemd takes from their owner.
    private static func user(_ name: String, _ groups: [String], running: Int64, _ states: [String]?) -> ServiceUser {
        var status = stat()
        var id = uid_t.max
        if let states {
            if let first = states.first, stat(first, &status) == 0 { id = status.st_uid }
            if running > 0, running < Int64(uid_t.max) { id = uid_t(running) }
        } else {
            id = name.isEmpty ? 0 : UInt32(name) ?? getpwnam(name)?.pointee.pw_uid ?? uid_t.max
        }
        let description =
            states == nil && id == .max
            ? "the missing user \(name) of \(Self.name)"
            : "user \(name.isEmpty ? "root" : name) of \(Self.name)"
        // A dynamic group has the number of its user.
        let named = states == nil ? LocalUsers.groups(of: id) : [id]
        let others = groups.compactMap { UInt32($0) ?? LocalUsers.group(named: $0) }
        return ServiceUser(id: id, groups: Set(named + others), description: description)
    }

    /// The variables of the environment files, which take precedence, and of the unit itself.
    private static func variables(_ files: [[JSON]], _ own: [String]) -> [String: String] {
        func pair(_ line: some StringProtocol) -> (String, String)? {
            guard let sign = line.firstIndex(of: "=") else { return nil }
            return (String(line[..<sign]), String(line[line.index(after: sign)...]))
        }
        let lines = files.compactMap { $0.first?.string }.flatMap { path in
            ((try? String(contentsOfFile: path, encoding: .utf8)) ?? "").split(whereSeparator: \.isNewline)
        }
        let filed = lines.filter { !$0.hasPrefix("#") && !$0.hasPrefix(";") }.compactMap(pair).map { name, value in
            let quote = value.first { _ in value.count > 1 }.flatMap {
                "\"'".contains($0) && value.last == $0 ? $0 : nil
            }
            return (name, quote == nil ? value : String(value.dropFirst().dropLast()))
        }
        return Dictionary(own.compactMap(pair) + filed) { $1 }
    }

    /// The configuration file of the server.
    var configurationPath: String {
        let option = (try? Serve.parse(arguments))?.configurationFile.config
        return option ?? environment["SYNCD_CONFIG"] ?? "/etc/syncd/syncd.json"
    }

    /// Sets the variables of the unit in this process, whose own ones take precedence.
    func adoptEnvironment() {
        for (name, value) in environment where name.hasPrefix("SYNCD_") && name != "SYNCD_CONFIG" {
            setenv(name, value, 0)
        }
        setenv("CREDENTIALS_DIRECTORY", Self.credentialFolder, 1)
    }

    /// The source file of the credential at `path`; `path` itself for any other file.
    func source(_ path: String) -> String {
        guard path.hasPrefix(Self.credentialFolder) else { return path }
        return credentials[String(path.dropFirst(Self.credentialFolder.count))].flatMap(\.self) ?? path
    }

    /// Returns `true` for a credential that only the running unit has in plain text, while the unit does not run.
    func isUnavailable(_ path: String) -> Bool {
        guard path.hasPrefix(Self.credentialFolder), access(path, F_OK) != 0 else { return false }
        return credentials[String(path.dropFirst(Self.credentialFolder.count))].map { $0 == nil } ?? false
    }
}
