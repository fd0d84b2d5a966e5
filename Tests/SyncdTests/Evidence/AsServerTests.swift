import EntitlementSync
import Entitlements
import EvidenceTestSupport
import Foundation
import SQLiteStorage
import SyncCore
import TestSupport
import Testing

@Suite("Acts of support beside a running server", .timeLimit(.minutes(15)))
struct AsServerTests {
    private let sandbox: Sandbox
    private let mint: EvidenceMint
    private let server: ServerProcess

    init() throws {
        sandbox = try Sandbox()
        mint = try EvidenceMint(sandbox)
        let catalog = try String(contentsOfFile: Sandbox.example, encoding: .utf8)
        try sandbox.write(
            catalog.replacing(#""consumables": "deviceLocal""#, with: #""consumables": "shared""#),
            to: "catalog.json")
        server = try ServerProcess(
            store: "sqlite:\(sandbox.path("server.sqlite"))",
            options: ["--policy", "verified", "--catalog", sandbox.path("catalog.json")],
            environment: ["SYNCD_LOG_LEVEL": "error"])
        for name in ["alice", "bob"] {
            for command in ["create", "login"] {
                let done = try device("account \(command) \(name)", name)
                try #require(done.exitCode == 0, "\(done)")
            }
        }
    }

    /// Runs a command on the device of `name`.
    private func device(_ command: String, _ name: String) throws -> Sandbox.Outcome {
        try sandbox.run(
            "\(command) --local file:\(name) --remote \(server.url)",
            environment: [
                "SYNCD_PASSWORD": "correct horse", "XDG_STATE_HOME": sandbox.path("\(name)-state"),
                "SYNCD_CATALOG": sandbox.path("catalog.json"),
            ])
    }

    private func has(_ entitlement: String, _ name: String) throws -> Bool {
        let synced = try device("sync", name)
        #expect(synced.exitCode == 0, "\(synced)")
        return try device("check \(entitlement)", name).exitCode == 0
    }

    private static let support = "--as-server --local sqlite:server.sqlite --account alice --operator olga"

    private func support(_ command: String, _ rest: String = Self.support, reason: String? = "ticket 7")
        throws -> Sandbox.Outcome
    {
        try sandbox.run(
            "\(command) \(rest)".split(separator: " ").map(String.init) + (reason.map { ["--reason", $0] } ?? []),
            environment: ["SYNCD_CATALOG": sandbox.path("catalog.json")])
    }

    private func audit() throws -> Sandbox.Outcome { try sandbox.run("audit --store sqlite:server.sqlite") }

    @Test("An audit list with a changed entry ends with the entries before it, and with exit code 4")
    func changedList() async throws {
        for id in ["t1", "t2", "t3"] {
            let sold = try support("record purchase \(Owls.night) --transaction \(id) --store app-store")
            #expect(sold.exitCode == 0, "\(sold)")
        }
        let backend = SQLiteBackend(path: sandbox.path("server.sqlite"))
        let key = try EntryKey("server/audit/000000000002")
        guard case .found(let entry) = try await backend.read(key).outcome else {
            Issue.record("no second entry")
            return
        }
        let text = String(decoding: entry.value, as: UTF8.self)
        for (changed, reason) in [
            (text.replacing(#""number":2"#, with: #""number":1"#), "it states the number 1"),
            ("{", "it cannot be read"),
        ] {
            _ = try await backend.write(Array(changed.utf8), to: key, if: .any)
            let list = try audit()
            #expect(list.exitCode == 4)
            #expect(list.output.hasPrefix("1  ") && list.output.split(separator: "\n").count == 1, "\(list)")
            #expect(list.error == "syncd: entry 2 of the audit list is not as it was written: \(reason)\n")
        }
    }

    @Test("A purchase by support reaches a device under the policy verified, and a refund cannot be undone by a client")
    func life() throws {
        let sold = try support("record purchase \(Owls.night) --transaction t1 --store app-store --date 2026-01-01")
        #expect(sold.exitCode == 0, "\(sold)")
        #expect(
            sold.output.hasPrefix("recorded by the server for alice: purchase of 1 \(Owls.night) (audit entry 1)\n"),
            "\(sold)")
        #expect(try has("night-owl", "alice"))
        #expect(try !has("night-owl", "bob"))
        #expect(try support("record refund t1 --store app-store").exitCode == 0)
        #expect(try !has("night-owl", "alice"))
        // The client states whatever it likes.
        let year = "9999-01-01"
        for claim in [
            "record reinstatement t1 --store app-store --signed-at \(year)",
            "record purchase \(Owls.night) --transaction t1 --store app-store --date 2026-01-01 --signed-at \(year)",
            "record flag \(Owls.night)",
        ] {
            _ = try device(claim, "alice")
            #expect(try !has("night-owl", "alice"), "\(claim)")
        }
        #expect(try support("record reinstatement t1 --store app-store").exitCode == 0)
        #expect(try has("night-owl", "alice"))
        let list = try audit()
        #expect(list.exitCode == 0)
        let lines = list.output.split(separator: "\n").map(String.init)
        #expect(lines.count == 4, "\(list)")
        for (line, act) in zip(lines, ["purchase of 1 \(Owls.night)", "refund", "reinstatement"]) {
            #expect(
                line.hasSuffix("  record  alice  app-store/production/t1  olga  \(act): ticket 7"), "\(line)")
        }
        #expect(lines.last?.hasPrefix("3 entries, intact; ") == true)
    }

    @Test("Support credits paid time: a duration is added each time, a covered end adds nothing")
    func credit() throws {
        let credited = try support("record credit random --until 2090-01-01")
        #expect(credited.exitCode == 0, "\(credited)")
        #expect(credited.output.hasSuffix("\n  paid until 2090-01-01T00:00:00.000Z\n"), "\(credited)")
        #expect(try has("random-owls", "alice"))
        let covered = try support("record credit random --until 2020-01-01")
        #expect(covered.output.hasSuffix(": the time is already covered\n"), "\(covered)")
        for end in ["2090-02-01", "2090-03-01"] {
            let added = try support("record credit random --for P1M")
            #expect(added.output.contains("for alice: credit of random for P1M (audit entry"), "\(added)")
            #expect(added.output.hasSuffix("\n  paid until \(end)T00:00:00.000Z\n"), "\(added)")
        }
        #expect(try audit().output.split(separator: "\n").last?.hasPrefix("3 entries, intact") == true)
    }

    @Test("Commands on the server's store join the server ledger, say so, and answer as the customer's device does")
    func serverLedger() throws {
        let onServer = "--local sqlite:server.sqlite --account alice"
        _ = try device("record purchase \(Owls.night) --transaction t1 --store app-store", "alice")
        #expect(try !has("night-owl", "alice"))
        let unverified = try support("check night-owl", onServer, reason: nil)
        let denial = "denied: not verified by the account's server\n"
        #expect(unverified.exitCode == 10 && unverified.output == denial, "\(unverified)")
        #expect(unverified.error == "syncd: alice: the server ledger counts (1 record)\n")
        let ignored = try support("conflicts", onServer, reason: nil)
        #expect(ignored.output.hasPrefix("  unverified  purchase t1  "), "\(ignored)")
        #expect(ignored.output.hasSuffix("  the server has not verified it\n"), "\(ignored)")
        let omitted = try support("export", onServer, reason: nil)
        #expect(omitted.output == "[]\n" && omitted.error.contains("omitted 1 purchase"), "\(omitted)")

        #expect(try support("record purchase \(Owls.night) --transaction t2 --store app-store").exitCode == 0)
        #expect(try has("night-owl", "alice"))
        #expect(try support("check night-owl", onServer, reason: nil).exitCode == 0)
        #expect(try support("record refund t2 --store app-store").exitCode == 0)
        #expect(try !has("night-owl", "alice"))
        for command in ["check night-owl", "explain night-owl", "conflicts"] {
            let phone = try device("\(command) --at 2100-01-01", "alice")
            let support = try support("\(command) --at 2100-01-01", onServer, reason: nil)
            #expect(support.output == phone.output && support.exitCode == phone.exitCode, "\(support) \(phone)")
            // The refund ends one purchase, and the other one would grant access if it were verified.
            if command != "conflicts" { #expect(support.output.contains("denied: not verified"), "\(support)") }
        }
        #expect(try support("facts", onServer, reason: nil).output.contains("  server\n"))
        let history = try support("export", onServer, reason: nil)
        #expect(history.output.contains("\"revokedAt\"") && history.output.contains("\"t2\""), "\(history)")
        // Bob's account has no server ledger yet. The policy of the server counts nevertheless.
        let store = "--local sqlite:server.sqlite --account bob"
        _ = try support("record purchase \(Owls.night) --transaction t3", store, reason: nil)
        #expect(try support("check night-owl", store, reason: nil).exitCode == 10)
    }

    @Test("A purchase of another account is taken only with --transfer, and the former owner is named")
    func transfer() throws {
        let bob = Self.support.replacing("alice", with: "bob")
        let purchase = "record purchase \(Owls.night) --transaction t1 --store app-store --date 2026-01-01"
        #expect(try support(purchase, bob).exitCode == 0)
        #expect(
            try support(purchase)
                == .refused(
                    4,
                    #"app-store/production/t1 belongs to "bob"; nothing was changed; "#
                        + #"to move it to "alice", repeat with --transfer"#))
        let taken = try support(purchase + " --transfer")
        #expect(taken.output.hasSuffix("\n  taken from bob\n"), "\(taken)")
        #expect(try has("night-owl", "alice"))
        #expect(try !has("night-owl", "bob"))
        #expect(try audit().output.contains(#"purchase of 1 \#(Owls.night), taken from "bob": ticket 7"#))
        #expect(
            try support("\(purchase) --transfer", "--local file:phone", reason: nil)
                == .refused(2, "--transfer applies to --as-server only"))
    }

    @Test("Support refunds a purchase that the account does not have, with a warning")
    func unknownRefund() throws {
        let refund = try support("record refund t9 --store app-store")
        #expect(refund.exitCode == 0, "\(refund)")
        #expect(
            refund.output.hasSuffix(
                "\n  warning: alice has no purchase app-store/production/t9; the refund counts once there is one\n"),
            "\(refund)")
        #expect(try support("record purchase \(Owls.night) --transaction t9 --store app-store").exitCode == 0)
        #expect(try !has("night-owl", "alice"))
    }

    @Test("Support records a renewal state, and one of a product that does not renew is refused")
    func renewal() async throws {
        let line = "--transaction s1 --store app-store --date 2026-01-01"
        #expect(try support("record purchase \(Owls.night) \(line)").exitCode == 0)
        let wrong = try support("record renewal s1 --store app-store --cancelled")
        #expect(
            wrong == .refused(2, "transaction \"s1\" has no renewal state: \"\(Owls.night)\" does not renew"))
        let state = try support("record renewal s2 --store app-store --cancelled --billing-retry")
        #expect(state.exitCode == 0, "\(state)")
        #expect(state.output.contains("\n  renewal  s2  does not renew, payment failed\n"), "\(state)")
        #expect(try has("night-owl", "alice"))
        var states: [RenewalState] = []
        for (key, value) in try await stored() where key.hasSuffix("/decisions") {
            for record in try LedgerDocument(decoding: value).ledger.records {
                if case .renewalState(let state) = Fact(record) { states.append(state) }
            }
        }
        #expect(states.map(\.willRenew) == [false] && states.map(\.isInBillingRetry) == [true])
        #expect(try audit().output.contains("\n2 entries, intact; "))
    }

    @Test("Support records what a store has signed, and evidence that a check refuses changes nothing")
    func evidence() throws {
        let apple = "--kind app-store-transaction --bundle com.example --evidence-root roots.pem"
        try mint.writeTransaction("night.jws", "21")
        let signed = try support("record evidence night.jws \(apple)")
        #expect(signed.exitCode == 0, "\(signed)")
        #expect(try has("night-owl", "alice"))
        let list = try audit().output
        #expect(list.contains("  evidence of the kind app-store-transaction: ticket 7\n"), "\(list)")
        let foreign = try support(
            "record evidence night.jws --kind app-store-transaction --bundle com.other --evidence-root roots.pem")
        #expect(foreign.exitCode == 4 && foreign.error.hasPrefix("syncd: app: "), "\(foreign)")
        #expect(try audit().output == list)
    }

    @Test("A receipt and an answer of verifyReceipt are imported into the server ledger")
    func imports() throws {
        try mint.writeReceipt("receipt.der", [MintedPurchase("11", Owls.night, at: "2024-01-01T00:00:00Z")])
        try sandbox.write(VerifyReceiptText.answer("12", Owls.shy), to: "answer.json")
        let apple = "--bundle com.example"
        let receipt = try support("import receipt.der --format receipt \(apple) --evidence-root roots.pem")
        #expect(receipt.exitCode == 0, "\(receipt)")
        let answer = try support("import answer.json --format verify-receipt \(apple)")
        #expect(answer.exitCode == 0, "\(answer)")
        try sandbox.write(
            #"[{"transactionID":"13","productID":"\#(Owls.couch)","purchaseDate":"2024-01-01T00:00:00Z"}]"#,
            to: "history.json")
        let history = try support("import history.json --format history")
        #expect(history.exitCode == 0, "\(history)")
        #expect(try has("night-owl", "alice"))
        #expect(try has("shy-owl", "alice"))
        #expect(try has("couch-owl", "alice"))
        let list = try audit().output
        #expect(list.contains("  import  alice  app-store/production/11  olga  receipt with 1 purchase: ticket 7\n"))
        #expect(
            list.contains("  import  alice  app-store/production/12  olga  verify-receipt with 1 purchase: ticket 7\n"))
        // Another account cannot get them.
        let bob = "--as-server --local sqlite:server.sqlite --account bob"
        let other = try support("import receipt.der --format receipt \(apple) --evidence-root roots.pem", bob)
        #expect(
            other
                == .refused(
                    4,
                    #"app-store/production/11 belongs to "alice"; nothing was changed; "#
                        + #"to move it to "bob", repeat with --transfer"#))
        #expect(try audit().output == list)
        // Unless the server shares purchases.
        let shared = try support(
            "import receipt.der --format receipt \(apple) --evidence-root roots.pem --ownership share", bob)
        #expect(shared.exitCode == 0, "\(shared)")
        #expect(try has("night-owl", "bob"))
    }

    /// Runs commands that must be refused, each with a reason for the audit list or none.
    private func expectRefusals(_ cases: [(command: String, reason: String?, code: Int32, text: String)]) async throws {
        let before = try await stored()
        for (command, reason, code, text) in cases {
            #expect(try support(command, "", reason: reason) == .refused(code, text), "\(command)")
        }
        #expect(try await stored() == before)
        #expect(try audit().output.hasPrefix("0 entries, intact"))
    }

    @Test("An act without a reason, an account or the server's own store is refused, and changes nothing")
    func circumstances() async throws {
        let (purchase, store) = ("record purchase \(Owls.night)", "--as-server --local sqlite:server.sqlite")
        let reason = "--as-server requires --reason, a text for the audit list"
        let overHTTP =
            "--as-server acts on the server's own store, or over \(server.url): pass either --local sqlite:FILE on the "
            + "server's machine, or --remote with --token-file"
        try await expectRefusals([
            ("\(purchase) \(Self.support)", nil, 2, reason), ("\(purchase) \(Self.support)", " ", 2, reason),
            ("record refund t1 \(Self.support)", nil, 2, reason),
            ("\(purchase) \(Self.support) --remote \(server.url)", "r", 2, overHTTP),
            (
                "\(purchase) --as-server --local \(server.url) --account alice", "r", 2,
                "--local must be a store on this machine, not the server \(server.url)"
            ),
            ("\(purchase) \(store) --account carol", "r", 3, "this server's store has no account \"carol\""),
            (
                "\(purchase) \(store)", "r", 2,
                "--as-server requires --account, the name of an account of the server"
            ),
            (
                "\(purchase) --as-server --local file:alice --account alice", "r", 4,
                "this store is not that of a server: it has no keys of a server"
            ),
            ("\(purchase) --local file:new", "r", 2, "--reason applies to --as-server only"),
            ("\(purchase) --local file:new --operator olga", nil, 2, "--operator applies to --as-server only"),
            ("\(purchase) --local file:new --ownership share", nil, 2, "--ownership applies to --as-server only"),
            (
                "\(purchase) \(Self.support) --ownership first", "r", 2,
                "--ownership must be one of keepWithFirst, transfer, share, not \"first\""
            ),
        ])
        let missing = try support("\(purchase) --as-server --local sqlite:none.sqlite --account alice", "")
        #expect(missing.exitCode == 3, "\(missing)")
        for name in ["none.sqlite", "new"] {
            #expect(!FileManager.default.fileExists(atPath: sandbox.path(name)))
        }
    }

    @Test("A wrong statement by support is refused, and changes nothing")
    func statements() async throws {
        try sandbox.write("", to: "empty")
        let purchase = "record purchase \(Owls.night) \(Self.support)"
        try await expectRefusals([
            (
                "\(purchase) --create", "r", 2,
                "--create does not apply to --as-server: the account must exist"
            ),
            (
                "\(purchase) --at 2026-01-01", "r", 2,
                "--at does not apply to --as-server: the server's word is dated now"
            ),
            (
                "\(purchase) --signed-at 2026-01-01", "r", 2,
                "--signed-at does not apply to --as-server: the server's word is dated now"
            ),
            ("\(purchase) --quantity 0", "r", 2, "quantity must be 1 to 10,000, not 0"),
            (
                purchase, String(repeating: "r", count: 1_001), 2,
                "the reason must have 1 to 1,000 bytes, not 1001"
            ),
            ("record purchase nothing \(Self.support)", "r", 3, "the catalogue has no product \"nothing\""),
            (
                "record credit nothing --for P1M \(Self.support)", "r", 3,
                "the catalogue has no group \"nothing\""
            ),
            (
                "import empty --format receipt --bundle com.example \(Self.support)", "r", 4,
                "format: empty is empty"
            ),
            (
                "import empty --format facts \(Self.support)", "r", 2,
                "--as-server does not apply to the format facts: it takes history, receipt and verify-receipt. See "
                    + "'syncd help import'."
            ),
        ])
    }

    /// The entries of the server's store, except those that the server writes at any time.
    private func stored() async throws -> [String: [UInt8]] {
        let store = SQLiteBackend(path: sandbox.path("server.sqlite")).requiringExisting
        var entries: [String: [UInt8]] = [:]
        for item in try await store.list(prefix: "", after: nil, limit: 1_000).outcome.items {
            guard item.key.text != "server/clock", case .found(let entry) = try await store.read(item.key).outcome
            else { continue }
            entries[item.key.text] = entry.value
        }
        return entries
    }

    @Test("Two concurrent acts both count, and an erased account is refused")
    func concurrent() throws {
        let commands = [Owls.night, Owls.shy, Owls.couch].map { product in
            "record purchase \(product) \(Self.support) --reason parallel".split(separator: " ").map(String.init)
        }
        let running = try commands.map {
            try sandbox.start($0, environment: ["SYNCD_CATALOG": sandbox.path("catalog.json")])
        }
        for command in running {
            let outcome = command.outcome()
            #expect(outcome.exitCode == 0, "\(outcome)")
        }
        for owl in ["night-owl", "shy-owl", "couch-owl"] { #expect(try has(owl, "alice")) }
        #expect(try audit().output.contains("\n3 entries, intact; "))
        let erased = try device("account erase bob --yes", "bob")
        #expect(erased.exitCode == 0, "\(erased)")
        #expect(
            try support("record purchase \(Owls.night)", "--as-server --local sqlite:server.sqlite --account bob")
                == .refused(4, "the account \"bob\" was erased"))
    }

    @Test("A command that is killed leaves no act without an entry, and its repetition completes it")
    func killed() throws {
        let command = "record purchase \(Owls.night) --transaction t1 \(Self.support) --reason kill"
        for delay in [20, 30, 40, 50, 60, 70, 80, 100, 120, 150] {
            let running = try sandbox.start(
                command.split(separator: " ").map(String.init),
                environment: ["SYNCD_CATALOG": sandbox.path("catalog.json")])
            running.kill(after: .milliseconds(delay))
            _ = running.outcome()
            let isOwned = try has("night-owl", "alice")
            let list = try audit()
            #expect(list.exitCode == 0, "\(list)")
            if isOwned { #expect(!list.output.hasPrefix("0 entries"), "\(delay)") }
        }
        let last = try sandbox.run(command, environment: ["SYNCD_CATALOG": sandbox.path("catalog.json")])
        #expect(last.exitCode == 0, "\(last)")
        #expect(try has("night-owl", "alice"))
    }
}
