import Foundation
import Testing

@Suite("Commands")
struct CommandTests {
    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
    }

    private func expect(_ command: String, prints text: String, sourceLocation: SourceLocation = #_sourceLocation)
        throws
    {
        #expect(try sandbox.run(command) == .done(text), sourceLocation: sourceLocation)
    }

    @Test("record purchase prints the transaction and the account, and recognizes a repetition")
    func recordPurchase() throws {
        let command = "record purchase \(Owls.threeMonths) --transaction t1 --at 2026-01-01"
        try expect(command, prints: "recorded: \(Owls.threeMonths) as t1 for anonymous")
        try expect(command, prints: "already recorded: \(Owls.threeMonths) as t1 for anonymous")
        try expect(
            command + " --account alice", prints: "recorded: \(Owls.threeMonths) as t1 for alice")
    }

    @Test("record purchase without a transaction creates a random one each time")
    func recordWithoutTransaction() async throws {
        for _ in 0..<2 { #expect(try sandbox.run("record purchase \(Owls.night)").exitCode == 0) }
        let made = try await sandbox.purchases(in: "store")
        #expect(made.count == 2)
        #expect(made.allSatisfy { UUID(uuidString: $0) != nil }, "\(made)")
    }

    @Test("record refund revokes a purchase once, and reports an unknown purchase")
    func recordRefund() throws {
        try sandbox.run("record purchase \(Owls.threeMonths) --transaction t1 --at 2026-01-01")
        try expect("record refund t1 --at 2026-02-01", prints: "refunded: t1 for anonymous")
        try expect("record refund t1 --at 2026-02-02", prints: "already refunded: t1 for anonymous")
        try expect("record refund t2", prints: "refunded: t2 for anonymous (the purchase is still unknown here)")
    }

    @Test("record flag sets and clears a flag, and reports no change")
    func recordFlag() throws {
        try expect("record flag \(Owls.shy)", prints: "set: flag of \(Owls.shy) for anonymous")
        try expect("record flag \(Owls.shy)", prints: "unchanged: flag of \(Owls.shy) for anonymous")
        try expect("record flag \(Owls.shy) --clear", prints: "cleared: flag of \(Owls.shy) for anonymous")
    }

    @Test("record pending adds and withdraws a request")
    func recordPending() throws {
        try expect("record pending \(Owls.couch)", prints: "pending: \(Owls.couch) for anonymous")
        try expect("record pending \(Owls.couch)", prints: "unchanged: \(Owls.couch) for anonymous")
        try expect("record pending \(Owls.couch) --withdraw", prints: "withdrawn: \(Owls.couch) for anonymous")
    }

    @Test("use spends nothing during a period, then a unit, and the same id only once")
    func use() throws {
        try sandbox.run("record purchase \(Owls.threeMonths) --transaction t1 --at 2026-01-01")
        try sandbox.run("record purchase \(Owls.units) --transaction t2 --at 2026-01-01")
        try expect(
            "use random-owls --at 2026-01-02",
            prints: "granted until 2026-04-01T00:00:00.000Z by group:random, nothing spent")
        for _ in 0..<2 {
            try expect(
                "use random-owls --at 2026-05-01 --id u1",
                prints: "granted: 1 unit of \(Owls.units) spent, 4 units left")
        }
        for _ in 0..<3 { try sandbox.run("use random-owls --at 2026-05-01") }
        try expect(
            "use random-owls --at 2026-05-01", prints: "granted: 1 unit of \(Owls.units) spent, 0 units left")
    }

    @Test("check answers each kind of grant with exit code 0 and each kind of denial with 10")
    func check() throws {
        try sandbox.run("record purchase \(Owls.threeMonths) --transaction t1 --at 2026-01-01")
        try sandbox.run("record purchase \(Owls.night) --transaction t2 --at 2026-01-01")
        try sandbox.run("record purchase \(Owls.shy) --transaction t3 --at 2026-01-01")
        try sandbox.run("record refund t3 --at 2026-01-05")
        try sandbox.run("record pending \(Owls.couch) --at 2026-01-05")
        func answer(_ question: String) throws -> [String] {
            let outcome = try sandbox.run("check \(question)")
            return ["\(outcome.exitCode)", outcome.output, outcome.error]
        }
        #expect(
            try answer("random-owls --at 2026-01-02")
                == ["0", "granted until 2026-04-01T00:00:00.000Z by group:random\n", ""])
        #expect(
            try answer("night-owl --at 2026-01-02") == ["0", "granted for good by product:\(Owls.night)\n", ""])
        #expect(
            try answer("random-owls --at 2026-04-01") == ["10", "denied: expired at 2026-04-01T00:00:00.000Z\n", ""])
        #expect(try answer("shy-owl --at 2026-02-01") == ["10", "denied: revoked at 2026-01-05T00:00:00.000Z\n", ""])
        #expect(try answer("couch-owl --at 2026-02-01") == ["10", "denied: pending approval\n", ""])
        #expect(try answer("lonely-owl") == ["10", "denied: not purchased\n", ""])
        #expect(try answer("lonely-owl --remote file:remote") == ["10", "denied: not purchased\n", ""])
        #expect(
            try answer("lonely-owl --remote file:remote --account alice") == ["10", "denied: restore needed\n", ""])
    }

    @Test("explain names the facts, what each counts for, and the rules")
    func explain() throws {
        try sandbox.run("record purchase \(Owls.threeMonths) --transaction t1 --at 2026-01-01")
        try sandbox.run("record refund t1 --at 2026-02-01")
        try sandbox.run("record purchase \(Owls.units) --transaction t2 --at 2026-01-01")
        try expect(
            "explain random-owls --at 2026-02-01",
            prints: """
                random-owls at 2026-02-01T00:00:00.000Z: granted by units:\(Owls.units), 5 units left
                rules: stackPurchases, purchasedWins, consumables deviceLocal

                group:random
                  purchase    t1  \(Owls.threeMonths)  2026-01-01T00:00:00.000Z  → 2026-01-01T00:00:00.000Z to \
                2026-02-01T00:00:00.000Z, cut off by a refund
                  revocation  t1  at 2026-02-01T00:00:00.000Z                                      \
                → revokes it

                units:\(Owls.units)
                  purchase  t2  \(Owls.units)  2026-01-01T00:00:00.000Z  → +5, balance 5
                """)
    }

    @Test("facts lists every fact with its ledger")
    func facts() throws {
        try expect("facts", prints: "no facts")
        try sandbox.run("record purchase \(Owls.night) --transaction t1 --at 2026-01-01")
        try sandbox.run("record purchase \(Owls.units) --transaction t2 --quantity 2 --at 2026-01-01")
        let listed = try sandbox.run("facts").output
            .replacing(/by [0-9a-f]{8}/, with: "by REPLICA1")
        #expect(
            listed == """
                  purchase   t1  \(Owls.night)  2026-01-01T00:00:00.000Z        account
                  recording  t1  by REPLICA1 at 2026-01-01T00:00:00.000Z                         account
                  purchase   t2  \(Owls.units) × 2  2026-01-01T00:00:00.000Z  device
                  recording  t2  by REPLICA1 at 2026-01-01T00:00:00.000Z                         device

                """)
    }

    @Test("status shows subscriptions, products, balances and access")
    func status() throws {
        try sandbox.run("record purchase \(Owls.threeMonths) --transaction t1 --at 2026-01-01")
        try sandbox.run("record purchase \(Owls.night) --transaction t2 --at 2026-01-01")
        try sandbox.run("record purchase \(Owls.units) --transaction t3 --at 2026-01-01")
        try expect(
            "status --at 2026-03-31",
            prints: """
                anonymous, at 2026-03-31T00:00:00.000Z

                subscriptions
                  random  active until 2026-04-01T00:00:00.000Z, 1 day left

                products
                  \(Owls.night)    owned
                  \(Owls.units)  5 left

                access
                  carefree-owl    denied: not purchased
                  couch-owl       denied: not purchased
                  crying-owl      denied: not purchased
                  good-job-owl    denied: not purchased
                  good-night-owl  denied: not purchased
                  in-love-owl     denied: not purchased
                  lonely-owl      denied: not purchased
                  night-owl       granted for good by product:\(Owls.night)
                  random-owls     granted until 2026-04-01T00:00:00.000Z by group:random
                  shy-owl         denied: not purchased
                """)
    }

    @Test("catalog check counts products and lists the sources of entitlements")
    func catalogCheck() throws {
        let sound = """
            {"products": [{"id": "a", "type": "nonConsumable", "names": {"en": "Ä"}},
              {"id": "b", "type": "nonRenewing", "group": "g", "duration": "P1M"}],
             "entitlements": [{"id": "e", "grantedBy": ["product:a", "group:g"]}]}
            """
        try sandbox.write(sound, to: "own.json")
        try expect(
            "catalog check own.json",
            prints: """
                valid: 2 products, 1 entitlement
                  a  for good  Ä
                  b  P1M in g  b

                  e  product:a or group:g
                """)
        #expect(try sandbox.run("catalog check").output.hasPrefix("valid: 12 products, 10 entitlements\n"))
    }

    @Test("Help and version end with exit code 0")
    func help() throws {
        // In a release tarball the parentheses contain the commit.
        let version = try sandbox.run("--version")
        #expect(version.exitCode == 0 && version.output.hasPrefix("syncd 0.1.0 ("))
        #expect(version.output.contains(")\nwire /v1, ledger format 1, SQLite schema 2"))
        for command in ["--help", "help sync", "record --help"] {
            let outcome = try sandbox.run(command)
            #expect(outcome.exitCode == 0 && outcome.error.isEmpty)
            #expect(outcome.output.contains("USAGE: syncd "))
        }
    }
}
