import Foundation
import TestSupport
import Testing

/// A Parse user has an object id, which is the account's name, and a user name, which the server takes at a log-in.
@Suite("Names of Parse users", .timeLimit(.minutes(15)))
struct AliasTests {
    private let sandbox: Sandbox
    private let server: ServerProcess
    /// The object id of `owl`.
    private let id: String

    init() throws {
        sandbox = try Sandbox()
        server = try ServerProcess(
            store: "memory:", options: ["--catalog", Sandbox.example, "--parse", "owls"],
            environment: ["SYNCD_LOG_LEVEL": "error"])
        let user = try Self.post(
            "\(server.url)/parse/users", #"{"username":"owl","password":"correct horse"}"#,
            ["--header", "X-Parse-Application-Id: owls"])
        id = try #require(user["objectId"] as? String)
    }

    /// Sends JSON with curl.
    private static func post(_ url: String, _ body: String, _ options: [String]) throws -> [String: Any] {
        let command = try RunningCommand(
            program: URL(filePath: "/usr/bin/env"),
            arguments: ["curl", "--silent", "--header", "Content-Type: application/json", "--data", body]
                + options + [url],
            environment: ["PATH": "/usr/local/bin:/usr/bin:/bin"], folder: "/tmp")
        let output = command.outcome().output
        return try #require(try JSONSerialization.jsonObject(with: Data(output.utf8)) as? [String: Any], "\(output)")
    }

    private func environment(_ device: String) -> [String: String] {
        ["XDG_STATE_HOME": sandbox.path("\(device)-state"), "SYNCD_PASSWORD": "correct horse"]
    }

    private func run(
        _ command: String, on device: String = "phone", _ environment: [String: String] = [:]
    ) throws -> Sandbox.Outcome {
        try sandbox.run(
            "\(command) --local file:\(device) --remote \(server.url)",
            environment: self.environment(device).merging(environment) { $1 })
    }

    @Test("A Parse user's name logs a device in, which shows both names and syncs")
    func logIn() throws {
        #expect(try run("account login owl") == .done("logged in: \(id) (owl)"))
        #expect(try run("account show") == .done(id))
        _ = try run("record purchase \(Owls.night) --transaction t1 --date 2026-01-01")
        #expect(try run("sync") == .done("synced \(id): received nothing, sent what the remote lacked"))
        let second = try run("account login owl --json", on: "tablet")
        let members = try JSONSerialization.jsonObject(with: Data(second.output.utf8)) as? [String: Any]
        #expect(members?["account"] as? String == id && members?["alias"] as? String == "owl", "\(second)")
        #expect(try run("sync", on: "tablet").exitCode == 0)
        #expect(try run("check night-owl", on: "tablet").exitCode == 0)
        // The account's own name logs in too, and so do both again.
        #expect(try run("account login \(id)", on: "tablet") == .done("logged in: \(id)"))
        #expect(try run("account login owl", on: "tablet") == .done("logged in: \(id) (owl)"))
        #expect(try run("account create owl", on: "other").output == "account: \(id) (owl)\n")
        #expect(
            try run("sync --account owl", on: "tablet")
                == .refused(
                    4,
                    "the session at \(server.url) is that of \(id), not of owl: pass --account \(id), or log in first: "
                        + "syncd account login owl"))
        #expect(try run("sync --account \(id)", on: "tablet").exitCode == 0)
    }

    @Test("A recovery code and an erasure work by the name of a Parse user")
    func recovery() throws {
        let code = try sandbox.run(
            "account recovery-codes owl --local file:operator --remote \(server.url)",
            environment: ["SYNCD_TOKEN": ServerProcess.operatorToken])
        try #require(code.exitCode == 0, "\(code)")
        let variables = [
            "SYNCD_RECOVERY_CODE": code.output.trimmingCharacters(in: .newlines), "SYNCD_NEW_PASSWORD": "second horse",
        ]
        #expect(try run("account recover owl", variables) == .done("logged in: \(id) (owl)"))
        #expect(try run("sync").exitCode == 0)
        #expect(try run("account erase owl --yes", ["SYNCD_PASSWORD": "second horse"]) == .done("erased: owl"))
        #expect(try run("account show") == .done("no account is logged in"))
        #expect(try run("account login owl", ["SYNCD_PASSWORD": "second horse"]).exitCode == 4)
    }

    @Test("A local program logs syncd run in by the name of a Parse user, and the process syncs")
    func localProgram() throws {
        #expect(try run("account login owl", on: "tablet").exitCode == 0)
        _ = try run("record purchase \(Owls.night) --transaction t1 --date 2026-01-01", on: "tablet")
        #expect(try run("sync", on: "tablet").exitCode == 0)
        let socket = sandbox.path("s/socket")
        let words = "run --local file:phone --remote \(server.url) --socket \(socket) --poll 60"
        let process = try sandbox.start(words.split(separator: " ").map(String.init), environment: environment("phone"))
        #expect(process.firstOutputLine() == "listening on \(socket)")
        let follower = try RunningCommand(
            program: Sandbox.repository.appending(path: "Examples/local-programs/owls.py"),
            arguments: [socket, "events", "1"], environment: ["PATH": "/usr/local/bin:/usr/bin:/bin"],
            folder: sandbox.folder.path)
        #expect(follower.firstOutputLine() == "following")
        let answer = try Self.post(
            "http://localhost/v1/sessions", #"{"name":"owl","password":"correct horse"}"#, ["--unix-socket", socket])
        #expect(answer["account"] as? String == id && answer["alias"] as? String == "owl", "\(answer)")
        #expect(follower.outcome() == .done("account-changed"))
        // The first sync may end before or after the event.
        let deadline = ContinuousClock.now + Patience.limit
        while try run("check night-owl").exitCode != 0 {
            try #require(ContinuousClock.now < deadline, "the process does not sync")
        }
        process.send(SIGTERM)
        #expect(process.outcome().exitCode == 0)
    }
}
