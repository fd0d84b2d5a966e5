import Foundation
import Testing

@Suite("Commands that record statements of stores and other systems")
struct StatementCommandTests {
    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
    }

    private func expect(_ command: String, prints text: String, sourceLocation: SourceLocation = #_sourceLocation)
        throws
    {
        #expect(try sandbox.run(command) == .done(text), sourceLocation: sourceLocation)
    }

    @Test("A refund can be reversed, and only a signed statement revokes a signed purchase")
    func reinstatement() throws {
        try sandbox.run("record purchase \(Owls.threeMonths) --transaction t1 --at 2026-01-01")
        try expect(
            "record reinstatement t1 --at 2026-02-01",
            prints: "not refunded, nothing to reverse: t1 for anonymous")
        try sandbox.run("record refund t1 --at 2026-02-01")
        try expect("record reinstatement t1 --at 2026-02-02", prints: "reinstated: t1 for anonymous")
        try expect(
            "check random-owls --at 2026-02-03", prints: "granted until 2026-04-01T00:00:00.000Z by group:random")
        try sandbox.run(
            "record purchase \(Owls.night) --transaction 1 --store app-store --signed-at 2026-01-01 --at 2026-01-01")
        #expect(
            try sandbox.run("record refund 1 --store app-store --at 2026-02-01")
                == .refused(
                    5, #"transaction "1" is signed by its store: only a signed statement can revoke it"#))
        try expect("check night-owl --at 2026-02-03", prints: "granted for good by product:\(Owls.night)")
        try expect(
            "record refund 1 --store app-store --signed-at 2026-01-20 --at 2026-02-01",
            prints: "refunded: 1 for anonymous")
        #expect(try sandbox.run("check night-owl --at 2026-02-03").exitCode == 10)
    }

    @Test("A credit extends a group to its date and adds nothing when repeated, and an unknown group is reported")
    func credit() throws {
        try sandbox.write(
            #"{"products": [{"id": "a", "type": "nonRenewing", "group": "rage", "duration": "P1M"}]}"#,
            to: "groups.json")
        let command = "record credit random --until 2026-02-10 --source parse --at 2026-01-01"
        try expect(
            command,
            prints: "recorded: random paid until 2026-02-10T00:00:00.000Z for anonymous, its end is "
                + "2026-02-10T00:00:00.000Z")
        try expect(
            command,
            prints: "no time added: random is already covered until 2026-02-10T00:00:00.000Z for anonymous")
        for end in ["2026-03-10", "2026-04-10"] {
            try expect(
                "record credit random --for P1M --date 2026-01-05 --at 2026-01-06",
                prints: "recorded: random paid until \(end)T00:00:00.000Z for anonymous, its end is "
                    + "\(end)T00:00:00.000Z")
        }
        // The former name of the command.
        try expect(
            "record grant rage --for P1M --at 2026-01-15 --local file:other --catalog groups.json",
            prints: "recorded: rage paid until 2026-02-15T00:00:00.000Z for anonymous, its end is "
                + "2026-02-15T00:00:00.000Z")
        try sandbox.run("record purchase \(Owls.threeMonths) --transaction t1 --at 2026-01-02")
        try expect(
            "check random-owls --at 2026-01-02", prints: "granted until 2026-05-10T00:00:00.000Z by group:random")
        #expect(
            try sandbox.run("record credit nothing --until 2026-02-10")
                == .refused(3, #"the catalogue has no group "nothing""#))
        #expect(try sandbox.run("record credit random --until soon").exitCode == 2)
    }

    @Test("A credit that begins after a gap adds time, and one that ends before it begins adds none")
    func creditAfterGap() throws {
        try sandbox.run("record purchase \(Owls.threeMonths) --transaction t1 --date 2026-11-01 --at 2026-11-25")
        let command = "record credit random --date 2027-06-01 --until 2027-08-01 --at 2026-11-25"
        try expect(
            command,
            prints: "recorded: random paid until 2027-08-01T00:00:00.000Z for anonymous, its end is "
                + "2027-08-01T00:00:00.000Z")
        try expect(
            command, prints: "no time added: random is already covered until 2027-08-01T00:00:00.000Z for anonymous")
        let other = command + " --local file:other --json"
        #expect(try sandbox.run(other).output.contains(#""added": true"#))
        #expect(try sandbox.run(other).output.contains(#""added": false"#))
        try expect(
            "record credit random --until 2026-01-01 --at 2026-11-25",
            prints: "no time added: the statement or a purchase of anonymous is dated 2026-01-01T00:00:00.000Z "
                + "or later")
    }

    @Test("status shows the renewal state beside the level, and a grace period extends access")
    func renewal() throws {
        try sandbox.write(
            """
            {"products":[{"id":"all","type":"autoRenewable","group":"g","level":1,"duration":"P1W"},
                         {"id":"some","type":"autoRenewable","group":"g","level":2,"duration":"P1W"}],
             "entitlements":[{"id":"content","grantedBy":["group:g"]}]}
            """, to: "renewals.json")
        let options = "--catalog renewals.json --store app-store"
        try sandbox.run("record purchase some --transaction 1 --at 2026-01-01 \(options)")
        try expect(
            "record renewal 1 --grace 2026-01-20 --billing-retry --pending all --at 2026-01-08 \(options)",
            prints: "recorded: renewal state of 1 for anonymous")
        try expect(
            "record renewal 1 --grace 2026-01-20 --billing-retry --pending all --at 2026-01-08 \(options)",
            prints: "unchanged: renewal state of 1 for anonymous")
        try expect(
            "check content --catalog renewals.json --at 2026-01-10",
            prints: "granted until 2026-01-20T00:00:00.000Z by group:g")
        let status = try sandbox.run("status --catalog renewals.json --at 2026-01-10").output
        #expect(status.contains("g  active until 2026-01-20T00:00:00.000Z, 10 days left, level 2, payment failed"))
    }

    @Test("A purchase that does not renew has no renewal state")
    func renewalOfNonRenewing() throws {
        try sandbox.run("record purchase \(Owls.threeMonths) --transaction t1 --at 2026-01-01")
        #expect(
            try sandbox.run("record renewal t1 --cancelled")
                == .refused(
                    2,
                    #"transaction "t1" has no renewal state: "\#(Owls.threeMonths)" is nonRenewing, "#
                        + "not autoRenewable"))
        try expect("record renewal t2 --cancelled", prints: "recorded: renewal state of t2 for anonymous")
    }

    @Test("The device that syncs last lists the conflict")
    func conflicts() throws {
        try expect("conflicts", prints: "no conflicts")
        let remote = "--remote file:remote --account alice"
        try sandbox.run(
            "record purchase \(Owls.threeMonths) --transaction A --date 2026-01-01 --account alice --create")
        try sandbox.run(
            "record purchase \(Owls.night) --transaction A --date 2026-01-01 --account alice "
                + "--local file:tablet --create"
        )
        try sandbox.run("sync --create-remote \(remote)")
        let dry = try sandbox.run("sync --dry-run \(remote) --local file:tablet").output
        #expect(dry.contains("conflict: A  kept "))
        try sandbox.run("sync \(remote) --local file:tablet")
        let log = try sandbox.run("conflicts --account alice --local file:tablet").output
        #expect(log.hasPrefix("  contradiction  A  kept ") && log.split(separator: "\n").count == 1)
    }

    @Test("--flags replaces the catalogue's flag rule")
    func flagRule() throws {
        try sandbox.run("record flag \(Owls.shy)")
        try sandbox.run("record flag \(Owls.shy) --clear")
        #expect(try sandbox.run("check shy-owl").exitCode == 0)
        #expect(try sandbox.run("check shy-owl --flags lastWriterWins").exitCode == 10)
        #expect(
            try sandbox.run("check shy-owl --flags best")
                == .refused(2, #"--flags must be one of purchasedWins, lastWriterWins, remoteWins, not "best""#))
    }
}
