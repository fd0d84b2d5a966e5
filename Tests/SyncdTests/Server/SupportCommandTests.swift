import EntitlementSync
import Foundation
import TestSupport
import Testing

@Suite("Support commands on a server's store")
struct SupportCommandTests {
    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
        let server = try ServerProcess(sandbox)
        let made = try sandbox.run(
            "account create alice --local file:phone --remote \(server.url)",
            environment: ["SYNCD_PASSWORD": "correct horse", "XDG_STATE_HOME": sandbox.path("state")])
        #expect(made.exitCode == 0, "\(made)")
        server.stop()
    }

    private func credit(_ rest: String) throws -> Sandbox.Outcome {
        try sandbox.run("record credit random --until 2027-01-01 --at 2026-12-01 \(rest)")
    }

    @Test("A credit for an account is recorded, and one for an unknown account only with --create")
    func account() throws {
        let store = "--local sqlite:server.sqlite"
        #expect(try credit("\(store) --account alice").exitCode == 0)
        let unknown = #"--account: this server's store has no account "alcie""#
        #expect(
            try credit("\(store) --account alcie")
                == .refused(3, "\(unknown); pass --create to create it"))
        #expect(try sandbox.run("status \(store) --account alcie") == .refused(3, unknown))
        #expect(
            try credit(store) == .refused(2, "--account is required: this store holds the accounts of a server"))
        #expect(try credit("\(store) --account alcie --create").exitCode == 0)
        #expect(try credit("\(store) --account alcie").exitCode == 0)
    }

    @Test("A credit for the anonymous account on a server's store is recorded only with --create")
    func anonymous() throws {
        let store = "--local sqlite:server.sqlite --account anonymous"
        let unknown = #"--account: this server's store has no account "anonymous""#
        #expect(try credit(store) == .refused(3, "\(unknown); pass --create to create it"))
        #expect(try sandbox.run("status \(store)") == .refused(3, unknown))
        #expect(try credit("\(store) --create").exitCode == 0)
    }

    @Test("A store that does not exist is created for a named account only with --create")
    func store() throws {
        for name in ["sever.sqlite", "sever"] {
            let store = (name == "sever" ? "file:" : "sqlite:") + name
            let refusal = "--local: there is no store at \(store); pass --create to create it"
            let variables = ["SYNCD_LOCAL": store, "SYNCD_ACCOUNT": "alice"]
            #expect(try credit("--local \(store) --account alice") == .refused(3, refusal))
            #expect(try sandbox.run("record flag \(Owls.night)", environment: variables) == .refused(3, refusal))
            #expect(!FileManager.default.fileExists(atPath: sandbox.path(name)))
            #expect(try credit("--local \(store) --account alice --create").exitCode == 0)
            #expect(try sandbox.run("record flag \(Owls.night)", environment: variables).exitCode == 0)
        }
    }

    @Test("A reading command is refused if its options name an account and a store that does not exist")
    func reading() throws {
        let commands = [
            "check night-owl", "use night-owl", "explain night-owl", "status", "timeline", "facts", "export",
        ]
        for command in commands {
            let outcome = try sandbox.run("\(command) --local file:sever --account alice")
            #expect(outcome == .refused(3, "--local: there is no store at file:sever"), "\(command)")
        }
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("sever")))
    }

    @Test("A device's first purchase creates its store without --create")
    func device() throws {
        let purchase = "record purchase \(Owls.night)"
        #expect(try sandbox.run("\(purchase) --local file:a").exitCode == 0)
        #expect(try sandbox.run("\(purchase) --local file:b --account alice --remote file:shared").exitCode == 0)
        let variables = ["SYNCD_LOCAL": "file:c", "SYNCD_ACCOUNT": "alice", "SYNCD_REMOTE": "file:shared"]
        #expect(try sandbox.run(purchase, environment: variables).exitCode == 0)
    }
}
