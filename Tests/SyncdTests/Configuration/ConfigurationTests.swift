import Entitlements
import Foundation
import TestSupport
import Testing

@Suite("The configuration file")
struct ConfigurationTests {
    private let sandbox: Sandbox
    /// Without the catalogue of the sandbox.
    private let none = ["SYNCD_CATALOG": ""]

    init() throws { sandbox = try Sandbox() }

    private func run(_ command: String, environment: [String: String] = [:]) throws -> Sandbox.Outcome {
        try sandbox.run(command, environment: none.merging(environment) { $1 })
    }

    /// The value and the source of a setting of `serve`.
    private func shown(
        _ name: String, _ options: String = "", environment: [String: String] = [:]
    ) throws -> [String] {
        let outcome = try run("config show --json serve \(options)", environment: environment)
        #expect(outcome.exitCode == 0, "\(outcome.error)")
        let rows = try JSONReader(parsing: outcome.output.utf8).array().map { try $0.object() }
        let row = try #require(try rows.first { try $0.required("name").string() == name })
        let value = try row.required("value")
        let texts =
            switch value.value {
            case .bool(let flag): ["\(flag)"]
            case .number(let number): ["\(number)"]
            case .array: try value.array().map { try $0.string() }
            default: [try value.string()]
            }
        return texts + [try row.required("source").string()]
    }

    @Test("A wrong file is named with line and key, and nothing starts", arguments: WrongConfiguration.all)
    func wrong(_ wrong: WrongConfiguration) throws {
        try wrong.write(sandbox)
        let before = try sandbox.tree()
        let lines = wrong.mistakes.map { "syncd.json" + $0 }
        let check = try run("config check --config syncd.json")
        #expect(check == Sandbox.Outcome(exitCode: 2, output: lines.map { $0 + "\n" }.joined(), error: ""))
        let start = try run("serve --config syncd.json")
        #expect(start.exitCode == 2 && start.output.isEmpty, "\(start)")
        #expect(start.error.split(separator: "\n").count == 1)
        let pointer = " (syncd config check --config syncd.json lists all mistakes)\n"
        let isNamed = lines.contains { start.error == "syncd: \($0)\(pointer)" }
        #expect(isNamed || start.error.hasPrefix("syncd: --store is required"), "\(start.error)")
        #expect(try sandbox.tree() == before)
    }

    @Test("There are at least 30 wrong forms")
    func count() { #expect(WrongConfiguration.all.count >= 30) }

    @Test("A flag precedes a variable, which precedes the file, which precedes the default")
    func precedence() throws {
        try sandbox.writeConfiguration(
            """
            {"serve": {
              "listen": "127.0.0.1:1",
              "origin": ["https://file.example", "https://other.example"],
              "password-cost": 12,
              "insecure-http": true
            }}
            """)
        let file = ["SYNCD_CONFIG": "syncd.json"]
        let both = file.merging(["SYNCD_LISTEN": "127.0.0.1:2", "SYNCD_INSECURE_HTTP": "0"]) { $1 }
        #expect(try shown("listen") == ["127.0.0.1:8440", "default"])
        #expect(try shown("listen", environment: file) == ["127.0.0.1:1", "syncd.json:2"])
        #expect(try shown("listen", environment: both) == ["127.0.0.1:2", "SYNCD_LISTEN"])
        #expect(try shown("listen", "--listen 127.0.0.1:3", environment: both) == ["127.0.0.1:3", "flag"])
        #expect(try shown("password-cost", environment: file) == ["12", "syncd.json:4"])
        #expect(try shown("insecure-http", environment: file) == ["true", "syncd.json:5"])
        #expect(try shown("insecure-http", environment: both) == ["false", "SYNCD_INSECURE_HTTP"])
        #expect(
            try shown("origin", environment: file) == ["https://file.example", "https://other.example", "syncd.json:3"])
        let origins = file.merging(["SYNCD_ORIGINS": "https://a.example  https://b.example"]) { $1 }
        #expect(
            try shown("origin", environment: origins) == ["https://a.example", "https://b.example", "SYNCD_ORIGINS"])
        #expect(
            try shown("origin", "--origin https://c.example --origin=https://d.example", environment: origins)
                == ["https://c.example", "https://d.example", "flag"])
    }

    @Test("--config precedes SYNCD_CONFIG, which precedes the file of the user")
    func places() throws {
        try FileManager.default.createDirectory(
            atPath: sandbox.path("configuration/syncd"), withIntermediateDirectories: true)
        try sandbox.writeConfiguration(#"{"serve": {"web": "user"}}"#, to: "configuration/syncd/config.json")
        try sandbox.writeConfiguration(#"{"serve": {"web": "variable"}}"#, to: "variable.json")
        try sandbox.writeConfiguration(#"{"serve": {"web": "/option"}}"#, to: "option.json")
        let variable = ["SYNCD_CONFIG": "variable.json"]
        let user = sandbox.path("configuration/syncd/")
        #expect(try shown("web") == [user + "user", user + "config.json:1"])
        #expect(try shown("web", environment: variable) == ["variable", "variable.json:1"])
        #expect(try shown("web", "--config option.json", environment: variable) == ["/option", "option.json:1"])
    }

    @Test("A server starts with a file alone, and paths start at its folder")
    func start() throws {
        try FileManager.default.createDirectory(atPath: sandbox.path("etc"), withIntermediateDirectories: true)
        try sandbox.writeConfiguration(String(repeating: "0123456789abcdef", count: 2), to: "etc/token")
        try sandbox.writeConfiguration(
            """
            {"serve": {"store": "sqlite:store.sqlite", "listen": "127.0.0.1:0", "operator-token-file": "token",
              "password-cost": 10, "catalog": "\(Sandbox.example)", "log-level": "info"}}
            """, to: "etc/syncd.json")
        #expect(
            try run("config check --config etc/syncd.json")
                == .done("etc/syncd.json: no mistakes, checked for user \(NSUserName())"))
        let server = try sandbox.start(["serve", "--config", "etc/syncd.json"], environment: none)
        defer { server.kill() }
        #expect(server.firstOutputLine()?.hasPrefix("listening on http://127.0.0.1:") == true)
        server.send(SIGTERM)
        #expect(server.outcome().exitCode == 0)
        #expect(FileManager.default.fileExists(atPath: sandbox.path("etc/store.sqlite")))
    }

    @Test("A wrong variable is named, and a flag replaces a flag of the file that it excludes")
    func variables() throws {
        try sandbox.writeConfiguration(
            #"{"serve": {"store": "memory:", "listen": "0.0.0.0:80", "no-sign-up": true, "web": "none"}}"#)
        let wrong = try run("serve --config syncd.json", environment: ["SYNCD_LISTEN": "x"])
        #expect(
            wrong == .refused(2, "SYNCD_LISTEN: must be HOST:PORT, such as 127.0.0.1:8440, not \"x\""))
        let flag = try run("serve --config syncd.json", environment: ["SYNCD_INSECURE_HTTP": "maybe"])
        #expect(flag == .refused(2, "SYNCD_INSECURE_HTTP must be 1 or 0, not \"maybe\""))
        let replaced = try run("serve --config syncd.json --sign-up --listen 127.0.0.1:0")
        #expect(replaced.error.hasPrefix("syncd: syncd.json:1: serve.web: none: not a readable folder"))
    }

    @Test("The file of another user is refused", .enabled(if: geteuid() == 0))
    func owner() throws {
        try sandbox.writeConfiguration("{}")
        try #require(chown(sandbox.path("syncd.json"), 12_345, 0) == 0)
        #expect(
            try run("config check --config syncd.json").output
                == "syncd.json: must belong to root or to the user who runs syncd, not to user 12345\n")
    }

    @Test("config show prints a secret as the path of its file, and refuses a wrong file")
    func show() throws {
        try sandbox.writeConfiguration("0123456789abcdef0123456789abcdef", to: "token")
        try sandbox.writeConfiguration(#"{"serve": {"operator-token-file": "token"}}"#)
        let shown = try run("config show serve --config syncd.json --listen 127.0.0.1:9")
        #expect(shown.exitCode == 0 && !shown.output.contains("0123456789abcdef"), "\(shown)")
        let rows = shown.output.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
        #expect(rows.contains(["operator-token-file", "token", "syncd.json:1"]))
        #expect(rows.contains(["listen", "127.0.0.1:9", "flag"]))
        #expect(rows.contains(["web", "-", "default"]))
        try sandbox.writeConfiguration("{\"serve\": {\"colour\": 1}}")
        #expect(try run("config show serve --config syncd.json").exitCode == 2)
        #expect(try run("config show serve --colour red").exitCode == 2)
        #expect(try run("config show").exitCode == 2)
    }
}
