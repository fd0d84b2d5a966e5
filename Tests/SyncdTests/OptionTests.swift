import EntitlementSync
import Foundation
import Testing

@Suite("Options, environment variables and accounts")
struct OptionTests {
    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
    }

    private func record(_ transaction: String, _ rest: String = "", environment: [String: String] = [:]) throws
        -> Sandbox.Outcome
    {
        try sandbox.run(
            "record purchase \(Owls.night) --transaction \(transaction) --date 2026-01-01 \(rest)",
            environment: environment)
    }

    private func recorded(_ transaction: String, for account: String) -> Sandbox.Outcome {
        .done("recorded: \(Owls.night) as \(transaction) for \(account)")
    }

    @Test("SYNCD_LOCAL names the store, and --local takes precedence")
    func local() async throws {
        let environment = ["SYNCD_LOCAL": "file:named"]
        try #expect(record("t1", environment: environment) == recorded("t1", for: "anonymous"))
        try #expect(record("t2", "--local file:flag", environment: environment) == recorded("t2", for: "anonymous"))
        #expect(try await sandbox.purchases(in: "named") == ["t1"])
        #expect(try await sandbox.purchases(in: "flag") == ["t2"])
    }

    @Test(
        "An option with one value is refused the second time, and nothing is done",
        arguments: [
            ("record purchase \(Owls.night) --transaction t1 --transaction t2", "transaction", "record purchase"),
            ("status --local file:a --local=file:b", "local", "status"),
            ("status --account alice --account alice", "account", "status"),
            ("serve --store memory: --listen 127.0.0.1:1 --listen 127.0.0.1:2", "listen", "serve"),
            ("serve --store memory: --at 2026-01-01 --at 2026-01-01", "at", "serve"),
            ("serve --config a.json --config b.json", "config", "serve"),
            ("run --local file:a --poll 1 --poll 2", "poll", "run"),
            ("config show serve --store memory: --store memory:", "store", "serve"),
            ("import h.json --format history --format facts", "format", "import"),
            ("evidence verify a --kind app-store-receipt --kind app-store-receipt", "kind", "evidence verify"),
        ])
    func repeatedOption(command: String, option: String, name: String) throws {
        let before = try sandbox.tree()
        #expect(
            try sandbox.run(command)
                == .refused(2, "--\(option) can be passed only once. See 'syncd help \(name)'."))
        #expect(try sandbox.tree() == before)
    }

    @Test("A list, a flag, and an argument after -- may be repeated")
    func repeatable() throws {
        let limits = "serve --store memory: --web nothing --limit accounts=5 --limit accounts=6"
        #expect(try !sandbox.run(limits).error.contains("only once"))
        #expect(try record("t1").exitCode == 0)
        #expect(try sandbox.run("status --json --json").exitCode == 0)
        #expect(try sandbox.run("record refund --at 2026-01-02 -- t1").exitCode == 0)
    }

    @Test("SYNCD_REMOTE names the remote, and --remote takes precedence")
    func remote() async throws {
        let environment = ["SYNCD_REMOTE": "file:named", "SYNCD_ACCOUNT": "alice"]
        _ = try record("t1", environment: environment)
        #expect(try sandbox.run("sync --create-remote", environment: environment).exitCode == 0)
        #expect(try await sandbox.purchases(in: "named", of: .init("alice")) == ["t1"])
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("flag")))
        #expect(try sandbox.run("sync --create-remote --remote file:flag", environment: environment).exitCode == 0)
        #expect(try await sandbox.purchases(in: "flag", of: .init("alice")) == ["t1"])
    }

    @Test("SYNCD_CATALOG names the catalogue, and --catalog takes precedence")
    func catalog() throws {
        try sandbox.write(#"{"products": [{"id": "only", "type": "nonConsumable"}]}"#, to: "own.json")
        func count(_ flag: String) throws -> String? {
            try sandbox.run("catalog check \(flag)", environment: ["SYNCD_CATALOG": "own.json"]).output
                .split(separator: ",").first.map(String.init)
        }
        #expect(try count("") == "valid: 1 product")
        #expect(try count("--catalog \(Sandbox.example)") == "valid: 12 products")
    }

    @Test("SYNCD_ACCOUNT names the account, and --account takes precedence")
    func account() throws {
        let environment = ["SYNCD_ACCOUNT": "alice"]
        try #expect(record("t1", "--create", environment: environment) == recorded("t1", for: "alice"))
        try #expect(record("t2", "--account bob", environment: environment) == recorded("t2", for: "bob"))
    }

    @Test("An empty environment variable counts as not set")
    func emptyVariable() throws {
        let outcome = try sandbox.run("status", environment: ["SYNCD_LOCAL": ""])
        #expect(
            outcome
                == .refused(
                    2, "--local is required: the store on this device, file:DIR or sqlite:FILE (or set SYNCD_LOCAL)"))
        try #expect(record("t1", environment: ["SYNCD_ACCOUNT": ""]) == recorded("t1", for: "anonymous"))
    }

    @Test("The only account of a store is the default")
    func impliedAccount() throws {
        try #expect(record("t1", "--account alice --create") == recorded("t1", for: "alice"))
        try #expect(record("t2") == recorded("t2", for: "alice"))
        try #expect(record("t3", "--account anonymous") == recorded("t3", for: "anonymous"))
    }

    @Test("A store of several accounts requires --account and lists them")
    func severalAccounts() throws {
        for name in ["bob", "anonymous", "alice"] { _ = try record("t-\(name)", "--account \(name) --create") }
        let before = try sandbox.tree()
        let expected = Sandbox.Outcome.refused(
            2, #"--account is required: this store holds "anonymous", "alice", "bob""#)
        try #expect(record("t9") == expected)
        #expect(try sandbox.run("status") == expected)
        #expect(try sandbox.tree() == before)
        try #expect(record("t9", "--account bob") == recorded("t9", for: "bob"))
    }

    @Test("Accounts of one store do not see each other's purchases")
    func separateAccounts() async throws {
        for name in ["alice", "a/b", "%2F", "Ä"] { _ = try record("t-\(name)", "--account \(name) --create") }
        for name in ["alice", "a/b", "%2F", "Ä"] {
            #expect(try await sandbox.purchases(in: "store", of: .init(name)) == ["t-\(name)"])
        }
    }

    @Test("--environment keeps the purchases of a test environment apart")
    func environment() throws {
        _ = try record("t1", "--environment sandbox")
        #expect(try sandbox.run("check night-owl").exitCode == 10)
        #expect(try sandbox.run("check night-owl --environment sandbox").exitCode == 0)
    }

    @Test("--expiry evaluates the same facts by another rule")
    func expiry() throws {
        for device in ["phone", "tablet"] {
            try sandbox.run(
                "record purchase \(Owls.threeMonths) --transaction \(device) --at 2026-01-01 --account alice "
                    + "--local file:\(device) --create")
            try sandbox.run("sync --create-remote --local file:\(device) --remote file:remote --account alice")
        }
        func end(_ rule: String) throws -> String? {
            try sandbox.run("status --local file:tablet --at 2026-01-02 --expiry \(rule)").output
                .firstMatch(of: /active until (\S{10})/).map { String($0.output.1) }
        }
        #expect(try end("latestExpiryWins") == "2026-04-01")
        #expect(try end("stackPurchases") == "2026-07-01")
    }

    @Test("file:///DIR and file:/DIR are the same store")
    func fileURL() async throws {
        _ = try record("t1", "--local file://\(sandbox.path("store"))")
        #expect(try await sandbox.purchases(in: "store") == ["t1"])
    }

    @Test("Output is the same in every time zone", arguments: ["America/St_Johns", "Pacific/Apia"])
    func timeZones(zone: String) throws {
        try #require(
            FileManager.default.fileExists(atPath: "/usr/share/zoneinfo/\(zone)"), "no tzdata: UTC without a word")
        let history = """
            [{"transactionID": "a", "productID": "\(Owls.threeMonths)", "purchaseDate": "2026-01-31T23:30:00Z"},
             {"transactionID": "b", "productID": "\(Owls.sixMonths)", "purchaseDate": "2027-03-14T01:30:00-03:30",
              "revokedAt": "2027-05-01"}]
            """
        try sandbox.write(history, to: "history.json")
        func outputs(_ zone: String) throws -> [String] {
            let store = "--local file:\(zone.prefix(3)) --at 2027-06-30"
            return try [
                "import history.json --format history \(store)", "record flag \(Owls.shy) \(store)",
                "status \(store)", "status --json \(store)", "timeline \(store)", "explain random-owls \(store)",
                "export \(store)", "evaluate --history history.json --at 2027-06-30",
            ].map { command in
                let outcome = try sandbox.run(command, environment: ["TZ": zone])
                #expect(outcome.exitCode == 0, "\(command): \(outcome.error)")
                return outcome.output
            }
        }
        #expect(try outputs(zone) == outputs("UTC"))
    }
}
