import EntitlementSync
import Foundation
import TestSupport
import Testing

@Suite("Devices over a real server")
struct ServerDeviceTests {
    private let sandbox: Sandbox
    private let server: ServerProcess

    init() throws {
        sandbox = try Sandbox()
        server = try ServerProcess(sandbox)
    }

    /// Runs a command on a device, which has its own store and session.
    private func run(
        _ command: String, on device: String = "phone", password: String? = nil, to url: String? = nil,
        _ environment: [String: String] = [:]
    ) throws -> Sandbox.Outcome {
        try sandbox.run(
            "\(command) --local file:\(device) --remote \(url ?? server.url)",
            environment: self.environment(device, password).merging(environment) { $1 })
    }

    private func environment(_ device: String, _ password: String?) -> [String: String] {
        var environment = ["XDG_STATE_HOME": sandbox.path("\(device)-state")]
        if let password { environment["SYNCD_PASSWORD"] = password }
        return environment
    }

    private func credentials(of device: String) throws -> String {
        let folder = sandbox.path("\(device)-state/syncd")
        let names = try FileManager.default.contentsOfDirectory(atPath: folder).filter { $0.hasSuffix(".json") }
        return folder + "/" + (try #require(names.first))
    }

    private func codes(_ outcome: Sandbox.Outcome) -> [String] {
        outcome.output.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
            .filter { $0.count == 19 && $0.contains("-") }
    }

    private let logInFirst = "log in first: syncd account login alice"

    @Test("Sign up, adopt, sync, restore on a second device, log out, and log in again")
    func walk() throws {
        _ = try run("record purchase \(Owls.night) --transaction t1 --date 2026-01-01")
        let made = try run("account create alice", password: "correct horse")
        #expect(made.exitCode == 0 && made.output.hasPrefix("account: alice\n") && codes(made).count == 8, "\(made)")
        #expect(try run("account create alice", password: "correct horse") == .done("account: alice"))
        #expect(
            try run("account login alice --adopt")
                == .done("logged in: alice, with facts that the remote lacks (syncd sync)"))
        #expect(try run("sync") == .done("synced alice: received nothing, sent what the remote lacked"))
        #expect(
            try run("account login Alice", on: "tablet", password: "correct horse")
                == .done("logged in: alice (Alice)"))
        #expect(try run("check night-owl", on: "tablet").exitCode == 10)
        #expect(try run("restore", on: "tablet").output.hasPrefix("restored for alice: 1 purchase\n"))
        #expect(try run("check night-owl", on: "tablet").exitCode == 0)
        _ = try run("record purchase \(Owls.shy) --transaction t2 --date 2026-01-01", on: "tablet")
        #expect(try run("account logout", on: "tablet") == .done("logged out: alice"))
        #expect(try run("sync").output.hasPrefix("synced alice: received 2 facts, sent nothing\n"))
        #expect(try run("account logout") == .done("logged out: alice"))
        #expect(try run("account logout") == .refused(4, "no account is logged in"))
        #expect(try run("account login alice") == needed("Password of alice", "SYNCD_PASSWORD"))
        #expect(try run("account login alice", password: "correct horse") == .done("logged in: alice"))
        #expect(try run("check shy-owl").exitCode == 0)
    }

    private func needed(_ what: String, _ variable: String) -> Sandbox.Outcome {
        .refused(2, "\(what) is required: pass --password-stdin or set \(variable)")
    }

    @Test("A failed command ends with its exit code and one line, and logs no account in")
    func refusals() throws {
        _ = try run("account create alice", password: "correct horse")
        #expect(
            try run("account login alice", on: "other", password: "wrong horse")
                == .refused(4, "name or password is wrong"))
        #expect(
            try run("account create alice", on: "other", password: "wrong horse")
                == .refused(5, "this name is taken; log in, or choose another name"))
        #expect(
            try run("account create bob", on: "other", password: "short")
                == .refused(2, "this password is too short; choose one of at least 8 characters"))
        #expect(try run("account create bob").exitCode == 4, "alice is logged in at the server from here")
        #expect(try run("sync", on: "other").exitCode == 4)
        #expect(try run("sync --account alice", on: "other") == .refused(4, logInFirst))
        #expect(try run("account password", on: "other") == .refused(4, "log in first: syncd account login NAME"))
        #expect(try run("account show", on: "other") == .done("no account is logged in"))
        #expect(
            try run("sync", to: "http://sync.example.com").error.contains(
                "would send passwords and purchases unencrypted"))
        #expect(try run("sync", to: "http://alice:secret@localhost").exitCode == 2)
        #expect(try sandbox.run("sync --local \(server.url) --remote file:x").exitCode == 2)
        #expect(try sandbox.run("store check \(server.url)").exitCode == 4)
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("other-state/syncd/x")))
    }

    @Test(
        "Ended, readable and foreign sessions end with exit code 4 and a remedy")
    func lostLogIns() throws {
        _ = try run("account create alice", password: "correct horse")
        _ = try run("account login alice")
        _ = try run("account login alice", on: "tablet", password: "correct horse")
        #expect(try run("sync").exitCode == 0)
        let path = try credentials(of: "phone")
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        #expect((attributes[.posixPermissions] as? Int) == 0o600)
        let kept = try Data(contentsOf: URL(filePath: path))
        let before = String(decoding: kept, as: UTF8.self)
        #expect(before.contains("refresh_token") && !before.contains("correct horse"))
        try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: path)
        let open = try run("sync")
        #expect(open.exitCode == 4 && open.error.contains("which other users cannot access: chmod 600 it"), "\(open)")
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
        let other = try run("sync", on: "tablet", ["SYNCD_CREDENTIALS": path])
        #expect(other.exitCode == 4 && other.error.contains("pass another --credentials"), "\(other)")
        #expect(try run("account logout --everywhere", on: "tablet") == .done("logged out: alice"))
        #expect(try run("sync") == .refused(4, logInFirst))
        #expect(try run("sync") == .refused(4, logInFirst), "also when the file is gone")
        #expect(try run("account login alice", password: "correct horse") == .done("logged in: alice"))
        #expect(try run("sync").exitCode == 0)
    }

    @Test("The session of another address asks for a log-in, which replaces it")
    func newAddress() throws {
        _ = try run("account create alice", password: "correct horse")
        _ = try run("account login alice")
        let moved = "http://localhost:\(server.port)"
        let shared = ["SYNCD_CREDENTIALS": try credentials(of: "phone")]
        let refused = try run("sync", to: moved, shared)
        #expect(refused.exitCode == 4)
        #expect(refused.error.contains("phone at \(server.url), not to file:"), "\(refused)")
        #expect(refused.error.hasSuffix("phone at \(moved); log in again\n"), "\(refused)")
        let logIn = try run("account login alice", password: "correct horse", to: moved, shared)
        #expect(logIn == .done("logged in: alice"))
        #expect(try run("sync", to: moved, shared).exitCode == 0)
        #expect(try run("sync", [:]).error.hasSuffix("phone at \(server.url); log in again\n"))
        #expect(try run("account logout", [:]).output.hasPrefix("logged out: alice"))
    }

    @Test("Commands about accounts need no catalogue, and others use that of the server")
    func withoutCatalogue() throws {
        let shop = try ServerProcess(store: "memory:", options: ["--catalog", Sandbox.example])
        let none = ["SYNCD_CATALOG": ""]
        for url in [shop.url, server.url] {
            let phone = url == shop.url ? "phone" : "other"
            _ = try run("account create alice", on: phone, password: "correct horse", to: url, none)
            #expect(try run("account login alice", on: phone, to: url, none) == .done("logged in: alice"))
            #expect(try run("account list", on: phone, to: url, none).output.contains("  alice  logged in"))
        }
        #expect(
            try run("sync", on: "other", none)
                == .refused(2, "--catalog is required: a JSON or .storekit file (or set SYNCD_CATALOG)"))
        let purchase = "record purchase \(Owls.night) --transaction t1 --date 2026-01-01"
        #expect(try run(purchase, to: shop.url, none).exitCode == 0)
        #expect(try run("check night-owl", to: shop.url, none).exitCode == 0)
        #expect(try run("record credit random --for P1M", to: shop.url, none).exitCode == 0)
        #expect(try run("account logout", to: shop.url, none) == .done("logged out: alice"))
        let unreachable = try run("check night-owl", to: "http://127.0.0.1:9", none)
        #expect(unreachable.exitCode == 75)
        #expect(unreachable.error.hasSuffix(" (without --catalog, the server's catalogue is used)\n"))
        #expect(try run("account erase alice --yes", password: "correct horse", to: shop.url, none).exitCode == 0)
    }

    @Test("A password change, new recovery codes and a recovery end older credentials")
    func passwords() throws {
        let made = try run("account create alice", password: "correct horse")
        #expect(
            try run("account password", password: "correct horse", ["SYNCD_NEW_PASSWORD": "second horse"])
                == .done(
                    "changed: the password of alice; other devices must log in again, and its recovery codes are "
                        + "invalid (syncd account recovery-codes creates new ones)"))
        let new = try run("account recovery-codes", password: "second horse")
        #expect(new.exitCode == 0 && codes(new).count == 8 && Set(codes(new)).isDisjoint(with: codes(made)))
        func recover(_ code: String) throws -> Sandbox.Outcome {
            try run(
                "account recover alice", on: "new",
                ["SYNCD_RECOVERY_CODE": code, "SYNCD_NEW_PASSWORD": "third horse"])
        }
        #expect(try recover(codes(made)[0]) == .refused(4, "name or recovery code is wrong"))
        #expect(try recover(codes(new)[0]) == .done("logged in: alice"))
        #expect(try recover(codes(new)[0]).exitCode == 4, "used up")
        #expect(try run("sync --account alice") == .refused(4, logInFirst), "all others are logged out")
        let shell = try sandbox.run(
            after: "export XDG_STATE_HOME=\(sandbox.path("phone-state")); exec <<'END'\nthird horse\nEND\n:",
            "account login alice --password-stdin --local file:phone --remote \(server.url)")
        #expect(shell == .done("logged in: alice"))
    }

    @Test("Erasing requires the password, reaches the other device, and frees the name")
    func erasing() throws {
        _ = try run("record purchase \(Owls.night) --transaction t1 --date 2026-01-01")
        _ = try run("account create alice", password: "correct horse")
        _ = try run("account login alice --adopt")
        _ = try run("sync")
        _ = try run("account login alice", on: "tablet", password: "correct horse")
        _ = try run("restore", on: "tablet")
        #expect(
            try run("account erase alice --yes", password: "wrong horse") == .refused(4, "name or password is wrong"))
        #expect(try run("check night-owl").exitCode == 0)
        #expect(try run("account erase alice --yes", password: "correct horse") == .done("erased: alice"))
        #expect(try run("check night-owl").exitCode == 10)
        #expect(try run("account show") == .done("no account is logged in"))
        #expect(try run("sync", on: "tablet") == .refused(4, "the account \"alice\" was erased"))
        #expect(try run("check night-owl", on: "tablet").exitCode == 10)
        #expect(try run("account create alice", on: "tablet", password: "fourth horse").exitCode == 0)
        #expect(try run("account login alice", on: "tablet") == .done("logged in: alice"))
        #expect(try run("restore", on: "tablet") == .done("nothing new for alice"))
    }

    @Test("A device without a keyboard shows a code and is logged in after its approval")
    func kiosk() throws {
        _ = try run("account create alice", password: "correct horse")
        let kiosk = try sandbox.start(
            ["account", "login", "--device", "--local", "file:kiosk", "--remote", server.url],
            environment: environment("kiosk", nil))
        let line = try #require(kiosk.firstErrorLine())
        let code = try #require(line.split(separator: " ").last)
        #expect(try run("account device approve \(code)") == needed("Password of alice", "SYNCD_PASSWORD"))
        #expect(try run("account device approve BCDF-BCDF", password: "correct horse").exitCode == 3)
        #expect(try run("account device approve BCDF-BCDF --deny").exitCode == 3)
        #expect(try run("account device approve \(code)", password: "wrong horse").exitCode != 0)
        #expect(
            try run("account device approve \(code)", password: "correct horse")
                == .done("approved: the device is logged in as alice"))
        let outcome = kiosk.outcome()
        #expect(outcome.exitCode == 0 && outcome.output == "logged in: alice\n", "\(outcome)")
        #expect(try run("sync", on: "kiosk").exitCode == 0)
    }

    @Test("An unreachable server ends with exit code 75, and nothing is lost")
    func away() throws {
        _ = try run("account create alice", password: "correct horse")
        _ = try run("account login alice")
        let (url, port) = (server.url, server.port)
        server.stop()
        #expect(try run("record purchase \(Owls.night) --transaction t1 --date 2026-01-01", to: url).exitCode == 0)
        for command in ["sync", "restore", "account login alice", "account create alice"] {
            let outcome = try run(command, password: "correct horse", to: url)
            #expect(outcome.exitCode == 75 && outcome.output.isEmpty, "\(command): \(outcome)")
        }
        #expect(try run("check night-owl", to: url).exitCode == 0)
        let again = try ServerProcess(sandbox, port: port)
        #expect(again.url == url)
        #expect(try run("sync", to: url) == .done("synced alice: received nothing, sent what the remote lacked"))
        again.stop()
    }
}
