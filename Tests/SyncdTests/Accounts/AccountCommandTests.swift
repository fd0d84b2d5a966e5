import EntitlementSync
import FileStorage
import Foundation
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("syncd account")
struct AccountCommandTests {
    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
    }

    private func run(_ command: String, on device: String = "phone") throws -> Sandbox.Outcome {
        try sandbox.run("\(command) --local file:\(device) --remote file:remote")
    }

    @Test("Accounts are created, logged in, listed, logged out, erased and created again")
    func walk() throws {
        #expect(try run("account create alice --create-remote") == .done("account: alice"))
        #expect(try run("account create alice") == .done("account: alice"))
        #expect(try run("account create bob") == .done("account: bob"))
        #expect(try run("account show") == .done("no account is logged in"))
        #expect(
            try run("record purchase \(Owls.night) --transaction t1")
                == .done("recorded: \(Owls.night) as t1 for anonymous"))
        #expect(
            try run("account login alice --adopt")
                == .done("logged in: alice, with facts that the remote lacks (syncd sync)"))
        #expect(try run("account show") == .done("alice"))
        #expect(try run("account logout") == .done("logged out: alice"))
        #expect(try run("account login bob") == .done("logged in: bob"))
        #expect(try run("check night-owl").exitCode == 10)
        #expect(try run("account list").output.split(separator: "\n").count == 3)
        #expect(try run("account login alice") == .done("logged in: alice"))
        #expect(try run("check night-owl").exitCode == 0)
        #expect(
            try run("account reset --environment sandbox --account alice").output == "reset: sandbox of alice\n")
        #expect(try run("account erase alice --yes") == .done("erased: alice"))
        #expect(try run("account show") == .done("no account is logged in"))
        #expect(try run("check night-owl").exitCode == 10)
        #expect(try run("account create alice") == .done("account: alice"))
        #expect(try run("account login alice") == .done("logged in: alice"))
        #expect(try run("check night-owl").exitCode == 10)
    }

    @Test("A failed command ends with its exit code and one line, and changes nothing")
    func refusals() throws {
        _ = try run("account create alice --create-remote")
        let before = try sandbox.tree()
        let unknown = #"there is no account "zoe"; create it first"#
        let named = "--account and SYNCD_ACCOUNT do not apply here: pass the account as an argument, or log in"
        #expect(try run("account login zoe") == .refused(3, unknown))
        #expect(try run("account erase zoe --yes") == .refused(3, unknown))
        #expect(
            try run("account erase alice")
                == .refused(2, #"this cannot be undone: pass --yes to erase "alice" and its purchases"#))
        #expect(try run("account logout") == .refused(4, "no account is logged in"))
        for command in ["create alice", "login alice", "logout", "list", "show", "erase alice --yes"] {
            #expect(try run("account \(command) --account bob") == .refused(2, named), "\(command)")
        }
        #expect(
            try run("account reset")
                == .refused(4, "production cannot be reset; pass a test environment, such as --environment sandbox"))
        #expect(try run("account create anonymous").exitCode == 2)
        for command in ["create carol", "login carol", "erase alice --yes"] {
            let outcome = try sandbox.run("account \(command) --local file:phone --remote file:away")
            #expect(outcome.exitCode == 3 && outcome.output.isEmpty, "\(command): \(outcome)")
        }
        #expect(try sandbox.tree() == before)
    }

    @Test("With an unreadable session only a log-in succeeds")
    func damagedSession() async throws {
        _ = try run("account create alice --create-remote")
        let local = FileBackend(folder: sandbox.path("phone"))
        _ = try await local.write([7], to: EntryKey("device/session"), if: .any)
        #expect(try run("account show").exitCode == 1)
        #expect(try run("account login alice") == .done("logged in: alice"))
        #expect(try run("account show") == .done("alice"))
    }

    @Test("Nothing is lost by kill -9 of a log-in that adopts purchases, in at least 40 rounds")
    func killed() async throws {
        let seed = printedSeed("kill -9 of account login --adopt")
        var logins = KillTimer(generator: SeededGenerator(seed: seed), step: 1.15)
        _ = try run("account create alice --create-remote")
        _ = try run("account login alice")
        var (round, all) = (0, Set<String>())
        let alice = try await EntitlementStore.account(
            "alice", in: FileBackend(folder: sandbox.path("phone")))
        while round < 40 || (round < 200 && !logins.hasSeen(5)) {
            _ = try run("account logout")
            let id = "k\(round)"
            #expect(try run("record purchase \(Owls.night) --transaction \(id) --date 2026-01-01").exitCode == 0)
            all.insert(id)
            let process = try sandbox.start(
                "account login alice --adopt --local file:phone --remote file:remote".split(separator: " ")
                    .map(String.init))
            if logins.runOrKill(process) != nil {
                #expect(
                    try await sandbox.purchases(in: "phone", of: alice).contains(id), "round \(round), seed \(seed)")
            }
            round += 1
        }
        #expect(try run("account login alice --adopt").exitCode == 0)
        #expect(try await sandbox.purchases(in: "phone", of: alice) == all, "seed \(seed)")
        #expect(try await sandbox.purchases(in: "phone").isEmpty)
        #expect(try run("sync").exitCode == 0)
        #expect(try await sandbox.purchases(in: "remote", of: alice) == all)
        print("kill -9 of account login --adopt, \(round) rounds: \(logins.killed) killed")
        #expect(logins.hasSeen(5))
    }
}
