import ArgumentParser
import Foundation
import TestSupport
import Testing

@testable import syncd

/// Compares the list of settings with the options of the commands and with `Docs/Operations.md`.
///
/// With `WRITE_SETTINGS=1` in the environment the test writes the table instead.
@Suite("The list of settings")
struct SettingTests {
    private struct Tool: Decodable {
        var command: Command
    }

    private struct Command: Decodable {
        var commandName: String
        var subcommands: [Command]?
        var arguments: [Argument]?
    }

    private struct Argument: Decodable {
        struct Name: Decodable {
            var name: String
        }
        var kind: String
        var isRepeating: Bool
        var preferredName: Name?
    }

    @Test("Each option of a command is a setting, and each setting is an option", arguments: Setting.Command.allCases)
    func options(command: Setting.Command) throws {
        let dump = try Sandbox().run("--experimental-dump-help").output
        let tool = try JSONDecoder().decode(Tool.self, from: Data(dump.utf8)).command
        let described = tool.subcommands?.first { $0.commandName == command.rawValue }
        let options = try #require(described?.arguments).compactMap { argument -> String? in
            guard let name = argument.preferredName?.name, !["help", "version"].contains(name),
                !Setting.commandLineOnly.contains(name)
            else { return nil }
            return "\(name) \(argument.kind)\(argument.isRepeating ? " repeating" : "")"
        }
        let settings = Setting.all(of: command).map {
            "\($0.name) \($0.isFlag ? "flag" : "option")\($0.isList ? " repeating" : "")"
        }
        #expect(options.sorted() == settings.sorted())
    }

    @Test("An option sets the property of its setting and no other", arguments: Setting.Command.allCases)
    func properties(command: Setting.Command) throws {
        func expectAll<Options: ConfiguredCommand>(_ type: Options.Type) throws {
            let settings = Setting.all(of: command)
            #expect(Set(Options.properties.keys) == Set(settings.map(\.name)))
            for setting in settings {
                let words = ["--\(setting.name)"] + (setting.isFlag ? [] : ["x"])
                let options = try Options.parse(words)
                #expect(options[setting.name] == [setting.isFlag ? "true" : "x"])
                #expect(settings.filter { options[$0.name] != nil }.map(\.name) == [setting.name])
            }
        }
        try expectAll(command.type)
    }

    @Test("Names and variables are unique within a command", arguments: Setting.Command.allCases)
    func unique(command: Setting.Command) {
        let settings = Setting.all(of: command)
        #expect(Set(settings.map(\.name)).count == settings.count)
        let variables = settings.compactMap(\.variable)
        #expect(Set(variables).count == variables.count)
    }

    @Test("Docs/Operations.md has the current table of settings")
    func table() throws {
        let file = Sandbox.repository.appending(path: "Docs/Operations.md")
        let page = try String(contentsOf: file, encoding: .utf8)
        let (start, end) = ("<!-- settings -->\n", "<!-- end of settings -->\n")
        let parts = page.components(separatedBy: start)
        let rest = try #require(parts.last).components(separatedBy: end)
        try #require(parts.count == 2 && rest.count == 2)
        let text = parts[0] + start + Setting.table + end + rest[1]
        if ProcessInfo.processInfo.environment["WRITE_SETTINGS"] == "1" { try Data(text.utf8).write(to: file) }
        #expect(
            try String(contentsOf: file, encoding: .utf8) == text,
            "out of date: run WRITE_SETTINGS=1 swift test --filter SettingTests and review the page")
    }

    @Test("The example of Docs/Operations.md has no mistakes")
    func example() throws {
        let page = try String(contentsOf: Sandbox.repository.appending(path: "Docs/Operations.md"), encoding: .utf8)
        let example = try #require(page.firstMatch(of: #/```json\n(\{\n  "serve"(?s:.*?))```/#)).1
        let sandbox = try Sandbox()
        try ProcessEnd.run(
            "/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", "/CN=localhost", "-days", "1", "-keyout", sandbox.path("key.pem"), "-out",
            sandbox.path("chain.pem"))
        try sandbox.setMode(0o600, of: "key.pem")
        try sandbox.writeConfiguration(String(repeating: "0123456789abcdef", count: 2), to: "operator-token")
        try FileManager.default.copyItem(atPath: Sandbox.example, toPath: sandbox.path("catalog.json"))
        try sandbox.writeConfiguration(String(example))
        #expect(
            try sandbox.run("config check --config syncd.json", environment: ["SYNCD_CATALOG": ""])
                == .done("syncd.json: no mistakes, checked for user \(NSUserName())"))
    }
}
