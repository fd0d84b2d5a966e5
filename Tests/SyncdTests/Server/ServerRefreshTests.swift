import Foundation
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Sessions on a real server, and its operator")
struct ServerRefreshTests {
    private let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    private func start(_ command: String, _ server: ServerProcess) throws -> RunningCommand {
        try sandbox.start(
            "\(command) --local file:phone --remote \(server.url)".split(separator: " ").map(String.init),
            environment: ["SYNCD_PASSWORD": "correct horse", "SYNCD_CREDENTIALS": sandbox.path("log-in.json")])
    }

    private func kept() throws -> [String: String] {
        let data = try Data(contentsOf: URL(filePath: sandbox.path("log-in.json")))
        let members = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
        return members.compactMapValues { $0 as? String }
    }

    @Test("Twelve processes with an expired access token share one refresh")
    func together() throws {
        let server = try ServerProcess(sandbox)
        for command in ["account create alice", "account login alice", "sync"] {
            #expect(try start(command, server).outcome().exitCode == 0, "\(command)")
        }
        for round in 0..<3 {
            // The state after ten minutes: the token has expired.
            let before = try kept()
            var text = try String(contentsOf: URL(filePath: sandbox.path("log-in.json")), encoding: .utf8)
            let token = try #require(before["access_token"])
            text = text.replacing(token, with: "expired.expired.expired")
            try sandbox.write(text, to: "log-in.json")
            let processes = try (0..<12).map { _ in try start("sync", server) }
            for process in processes {
                let outcome = process.outcome()
                #expect(outcome.exitCode == 0, "round \(round): \(outcome)")
            }
            let after = try kept()
            #expect(after["refresh_token"] != before["refresh_token"], "round \(round)")
            // A second rotation would have left another token, or none.
            #expect(try start("sync", server).outcome().exitCode == 0)
            #expect(try kept() == after, "round \(round)")
        }
        let names = try FileManager.default.contentsOfDirectory(atPath: sandbox.folder.path)
        #expect(names.filter { $0.hasPrefix("log-in.json") }.sorted() == ["log-in.json", "log-in.json.lock"])
    }

    @Test("The session survives kill -9 of refreshing syncs, in 20 rounds")
    func killed() throws {
        let seed = printedSeed("kill -9 of sync while it refreshes")
        var timer = KillTimer(generator: SeededGenerator(seed: seed), step: 1.15)
        let server = try ServerProcess(sandbox)
        for command in ["account create alice", "account login alice", "sync"] {
            #expect(try start(command, server).outcome().exitCode == 0, "\(command)")
        }
        for round in 0..<20 {
            let text = try String(contentsOf: URL(filePath: sandbox.path("log-in.json")), encoding: .utf8)
            let token = try #require(try kept()["access_token"])
            try sandbox.write(text.replacing(token, with: "expired.expired.expired"), to: "log-in.json")
            _ = timer.runOrKill(try start("sync", server))
            let outcome = try start("sync", server).outcome()
            #expect(outcome.exitCode == 0, "round \(round), seed \(seed): \(outcome)")
        }
        print("kill -9 of sync while it refreshes: \(timer.killed) killed")
    }

    @Test("The operator lists, shows, recovers and erases accounts, and copies the store")
    func operating() throws {
        let token = ServerProcess.operatorToken
        try sandbox.write(token + "\n", to: "token")
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: sandbox.path("token"))
        let server = try ServerProcess(sandbox)
        #expect(try start("account create alice", server).outcome().exitCode == 0)
        #expect(try start("account login alice", server).outcome().exitCode == 0)
        func operate(_ command: String, _ environment: [String: String] = [:]) throws -> Sandbox.Outcome {
            try sandbox.run("account \(command) --remote \(server.url)", environment: environment)
        }
        #expect(try operate("list --token-file token").output.hasPrefix("  alice  since 20"))
        #expect(try operate("list", ["SYNCD_TOKEN": token]).output.hasPrefix("  alice  since 20"))
        #expect(try operate("show alice --token-file token").output.hasPrefix("alice\nsince 20"))
        #expect(try operate("show bob --token-file token").exitCode == 3)
        #expect(try operate("list", ["SYNCD_TOKEN": "wrong"]).exitCode == 4)
        let code = try operate("recovery-codes alice --token-file token")
        #expect(code.exitCode == 0 && code.output.count == 20)
        let copy = try sandbox.run("store copy \(server.url) file:copy --token-file token")
        #expect(copy.exitCode == 0 && copy.output.contains("copied"), "\(copy)")
        #expect(try sandbox.run("store check \(server.url) --token-file token").output.contains("intact"))
        #expect(try operate("erase alice --yes --token-file token") == .done("erased: alice"))
        #expect(try operate("list --token-file token").output == "\n")
        #expect(try start("sync", server).outcome() == .refused(4, "the account \"alice\" was erased"))
    }
}
