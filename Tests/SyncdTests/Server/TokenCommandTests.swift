import Foundation
import TestSupport
import Testing

@Suite("syncd token")
struct TokenCommandTests {
    private let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    @Test("The commands work on a store beside its server and over HTTP; a support token makes no token")
    func commands() async throws {
        let store = "sqlite:\(sandbox.path("server.sqlite"))"
        let server = try ServerProcess(store: store)
        try sandbox.write(ServerProcess.operatorToken, to: "admin.token")
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: sandbox.path("admin.token"))
        let made = try sandbox.run("token create helpdesk --scope support --for P90D --store \(store)")
        #expect(made.exitCode == 0 && made.output.hasPrefix("est_") && made.output.utf8.count == 86)
        let support = ["SYNCD_TOKEN": String(made.output.dropLast())]
        // A token that is made beside the server is accepted at once.
        let list = try sandbox.run("token list --remote \(server.url)", environment: support)
        #expect(
            list
                == .refused(
                    4, "this needs a token with the scope \"admin\"; the scope of \"helpdesk\" is \"support\""))
        let refused = try sandbox.run("token create x --scope read --remote \(server.url)", environment: support)
        #expect(refused.exitCode == 4)
        #expect(try sandbox.run("account list --remote \(server.url)", environment: support).exitCode == 0)
        let remote = "--remote \(server.url) --token-file admin.token"
        let reader = try sandbox.run("token create ci --scope read --until 2999-01-01 \(remote) --json")
        #expect(reader.exitCode == 0 && reader.output.contains("\"expires\": \"2999-01-01T00:00:00.000Z\""))
        let taken = try sandbox.run("token create ci --scope read \(remote)")
        #expect(
            taken == .refused(5, "there is a token \"ci\" already; choose another name, or revoke it"))
        let tokens = try sandbox.run("token list \(remote)")
        #expect(tokens.output == (try sandbox.run("token list --store \(store)")).output)
        #expect(tokens.output.split(separator: "\n").count == 2 && !tokens.output.contains("est_"))
        #expect(try sandbox.run("token revoke helpdesk \(remote)").output.contains("revoked 2"))
        let ended = try sandbox.run("account list --remote \(server.url)", environment: support)
        #expect(ended.exitCode == 4 && ended.error.contains("\"helpdesk\" was revoked at 2"))
        #expect(
            try sandbox.run("token revoke nobody --store \(store)")
                == .refused(3, "there is no token with the name or id \"nobody\""))
        #expect(server.stop() == 0)
    }

    @Test("A store that is missing or no server's, a missing place and wrong options are refused")
    func refusals() throws {
        #expect(
            try sandbox.run("token list --store sqlite:none.sqlite")
                == .refused(3, "there is no store at sqlite:none.sqlite"))
        #expect(
            try sandbox.run("token create x --scope owner --store memory:")
                == .refused(2, "--scope must be one of read, support, admin, not \"owner\""))
        #expect(
            try sandbox.run("token create x --scope read --for P1D --until 2030-01-01 --store memory:")
                == .refused(2, "--for and --until exclude each other"))
        #expect(
            try sandbox.run("token list")
                == .refused(2, "pass --store with the server's store, or --remote https://HOST and --token-file"))
    }
}
