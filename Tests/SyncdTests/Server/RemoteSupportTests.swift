import EntitlementSync
import Foundation
import TestSupport
import Testing

@Suite("Support commands over HTTP", .timeLimit(.minutes(15)))
struct RemoteSupportTests {
    private let sandbox: Sandbox
    private let server: ServerProcess
    private let token: String

    init() throws {
        sandbox = try Sandbox()
        let catalog = try String(contentsOfFile: Sandbox.example, encoding: .utf8)
        try sandbox.write(
            catalog.replacing(#""consumables": "deviceLocal""#, with: #""consumables": "shared""#), to: "catalog.json")
        server = try ServerProcess(
            store: "sqlite:\(sandbox.path("server.sqlite"))",
            options: ["--policy", "verified", "--catalog", sandbox.path("catalog.json")],
            environment: ["SYNCD_LOG_LEVEL": "error"])
        for name in ["alice", "bob"] {
            let made = try sandbox.run(
                "account create \(name) --local file:\(name) --remote \(server.url)",
                environment: ["SYNCD_PASSWORD": "correct horse", "XDG_STATE_HOME": sandbox.path("state")])
            try #require(made.exitCode == 0, "\(made)")
        }
        let made = try sandbox.run("token create helpdesk --scope support --store sqlite:server.sqlite")
        token = String(made.output.dropLast())
    }

    /// Runs a command of the operator over HTTP, without a store on this machine.
    private func remotely(_ command: String, reason: String? = "ticket 7") throws -> Sandbox.Outcome {
        try sandbox.run(
            "\(command) --remote \(server.url)".split(separator: " ").map(String.init)
                + (reason.map { ["--reason", $0] } ?? []),
            environment: ["SYNCD_TOKEN": token, "SYNCD_LOCAL": "", "SYNCD_CATALOG": ""])
    }

    private func onStore(_ command: String, reason: String? = "ticket 7") throws -> Sandbox.Outcome {
        try sandbox.run(
            "\(command) --local sqlite:server.sqlite".split(separator: " ").map(String.init)
                + (reason.map { ["--reason", $0] } ?? []), environment: ["SYNCD_CATALOG": sandbox.path("catalog.json")])
    }

    /// The entries of the audit list, but for that of the token.
    private func audit() throws -> [String] {
        let list = try sandbox.run("audit --store sqlite:server.sqlite")
        #expect(list.exitCode == 0, "\(list)")
        return list.output.split(separator: "\n").dropFirst().dropLast().map(String.init)
    }

    @Test("A grant is tried, given once for its key, refunded, reinstated and moved, all with the name of the token")
    func life() throws {
        let grant = "record grant random --for P1M --transaction g1 --as-server --account alice"
        let trial = try remotely("\(grant) --dry-run")
        #expect(trial.exitCode == 0, "\(trial)")
        #expect(trial.output.hasPrefix("dry run, nothing is written: grant for alice\n"), "\(trial)")
        #expect(trial.output.contains("  random-owls: denied (notPurchased) before, granted until "), "\(trial)")
        #expect(try audit() == [])
        let done = try remotely("\(grant) --idempotency-key k1")
        #expect(done.output.hasPrefix("grant for alice (audit entry 2)\n"), "\(done)")
        #expect(try remotely("\(grant) --idempotency-key k1") == done)
        let other = try remotely("record grant random --for P2M --as-server --account alice --idempotency-key k1")
        #expect(other.exitCode == 2 && other.error.contains("was used for another request"), "\(other)")
        let refund = "record refund g1 --store support --as-server --account alice"
        #expect(try remotely(refund).output.contains("granted until "))
        #expect(try remotely("record reinstatement g1 --store support --as-server --account alice").exitCode == 0)
        let moved = try remotely("record transfer g1 --store support --to bob --as-server --account alice")
        #expect(moved.output.contains("\n  bob: random-owls: denied (notPurchased) before, granted until "), "\(moved)")
        #expect(moved.output.contains("\n  taken from alice\n"), "\(moved)")
        let bought = try remotely(
            "record purchase \(Owls.night) --transaction t1 --store app-store --as-server --account bob")
        #expect(
            bought.output.contains("  night-owl: denied (notPurchased) before, granted for good after"), "\(bought)")
        let list = try audit()
        #expect(list.count == 6 && list.allSatisfy { $0.contains("  helpdesk  ") || $0.contains("  transfer  ") })
        #expect(list.first?.hasSuffix("helpdesk  grant of random for P1M: ticket 7") == true, "\(list)")
    }

    @Test("Reading commands over HTTP print what they print on the server's store")
    func reading() throws {
        let bought = try remotely(
            "record purchase \(Owls.night) --transaction t1 --store app-store --as-server --account alice")
        #expect(bought.exitCode == 0, "\(bought)")
        for command in [
            "check night-owl", "explain night-owl --at 2030-01-01", "status --at 2030-01-01",
            "timeline --at 2030-01-01", "facts", "conflicts", "export",
        ] {
            let (here, there) = (
                try onStore("\(command) --account alice", reason: nil),
                try remotely("\(command) --account alice", reason: nil)
            )
            #expect(there.output == here.output && there.exitCode == here.exitCode, "\(command): \(there)")
            // The other two have groups and contradictions only.
            let isNamed = !["conflicts", "timeline --at 2030-01-01"].contains(command)
            #expect(there.output.lowercased().contains("night") == isNamed, "\(command): \(there)")
        }
        #expect(try remotely("status --account carol", reason: nil).exitCode == 3)
    }

    @Test("Recovery, sessions and erasure over HTTP")
    func accounts() throws {
        let code = try remotely("account recovery-codes alice")
        #expect(code.output.contains("  recovery code "), "\(code)")
        #expect(code.output.contains("  recoveryCodes: 8 before, 9 after"), "\(code)")
        #expect(try remotely("account end-sessions alice").output.contains("  sessions: 1 before, 0 after"))
        let trial = try remotely("account erase alice --dry-run")
        #expect(trial.exitCode == 0, "\(trial)")
        #expect(try remotely("account erase alice --yes").output.hasPrefix("erasure for alice (audit entry 4)"))
        #expect(try remotely("account end-sessions alice").exitCode == 2)
        #expect(
            try audit().map { $0.split(separator: " ").dropFirst(2).first ?? "" } == [
                "recovery", "sessions", "erasure",
            ])
    }

    @Test("An act without a reason is refused, over HTTP and on the store")
    func reasons() throws {
        for command in ["record grant random --for P1M --as-server --account alice", "account end-sessions alice"] {
            for reason in [nil, " "] {
                #expect(try remotely(command, reason: reason).exitCode == 2, "\(command)")
            }
        }
        let bell = try remotely("record grant random --for P1M --as-server --account alice", reason: "a\u{7}b")
        #expect(bell.exitCode == 2 && bell.error.contains("without control characters"), "\(bell)")
        let renewal = try remotely("record renewal t1 --as-server --account alice")
        #expect(renewal.exitCode == 2 && renewal.error.contains("do not apply to the renewal state"), "\(renewal)")
        #expect(try audit() == [])
    }

    @Test("On the store, a dry run and an idempotency key do the same")
    func store() throws {
        let grant = "record grant random --for P1M --as-server --account alice --operator olga"
        let trial = try onStore("\(grant) --dry-run")
        #expect(trial.output.hasPrefix("dry run, nothing is written: grant for alice\n"), "\(trial)")
        let done = try onStore("\(grant) --idempotency-key k1")
        #expect(done.output.hasPrefix("grant for alice (audit entry 2)\n"), "\(done)")
        #expect(try onStore("\(grant) --idempotency-key k1") == done)
        let repeated = try remotely("record grant random --for P1M --as-server --account alice --idempotency-key k1")
        #expect(repeated == done)
        #expect(try audit().count == 1)
        #expect(try audit().first?.contains("  olga  ") == true)
        let both = try onStore("\(grant) --idempotency-key k1 --dry-run")
        #expect(both == .refused(2, "--dry-run and --idempotency-key exclude each other"))
    }
}
