import Foundation
import Testing

@Suite("Accelerated time and purchases for good on the command line")
struct SandboxTimeTests {
    private static let catalogue = """
        {"products":[{"id":"week","type":"nonRenewing","group":"owls","duration":"P1W"},
                     {"id":"lifetime","type":"nonRenewing","group":"owls","duration":"forever"}],
         "entitlements":[{"id":"owls","grantedBy":["group:owls"]}],
         "policy":{"sandboxTime":"accelerated"}}
        """
    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
        try sandbox.write(Self.catalogue, to: "owls.json")
    }

    @discardableResult
    private func run(_ command: String, at date: String, in environment: String = "sandbox") throws -> Sandbox.Outcome {
        try sandbox.run("\(command) --at \(date) --environment \(environment) --catalog owls.json")
    }

    @Test("record, credit, check, timeline and explain say the accelerated end")
    func accelerated() throws {
        #expect(
            try run("record purchase week --transaction A", at: "2026-01-01")
                == .done("recorded: week as A for anonymous, in accelerated time until 2026-01-01T00:03:00.000Z"))
        #expect(
            try run("record purchase week --transaction A --json", at: "2026-01-01").output.contains(
                #""expires": "2026-01-01T00:03:00.000Z""#))
        #expect(
            try run("record credit owls --for P1M", at: "2026-01-01T00:01:00Z")
                == .done(
                    "recorded: owls paid until 2026-01-01T00:08:00.000Z for anonymous, "
                        + "its end is 2026-01-01T00:08:00.000Z"))
        #expect(
            try run("check owls", at: "2026-01-01T00:04:00Z")
                == .done("granted until 2026-01-01T00:08:00.000Z by group:owls"))
        #expect(try run("check owls", at: "2026-01-01T00:08:00Z").exitCode == 10)
        #expect(
            try run("timeline", at: "2026-01-01T00:02:00Z")
                == .done(
                    """
                    owls: active until 2026-01-01T00:08:00.000Z, 1 day left

                                      00:00:00       00:02:00       00:04:00       00:06:00
                                      ┬──────────────┬──────────────┬──────────────┬──────────────
                    A                 ███████████████████████
                    promotion                               ██████████████████████████████████████
                    covered           ████████████████████████████████████████████████████████████
                    now                              ▲ 00:02:00

                    █ a period   × revoked   · a gap
                    """))
        #expect(
            try run("explain owls", at: "2026-01-01T00:02:00Z")
                == .done(
                    """
                    owls at 2026-01-01T00:02:00.000Z: granted until 2026-01-01T00:08:00.000Z by group:owls
                    rules: stackPurchases, purchasedWins, consumables deviceLocal, sandboxTime accelerated

                    group:owls
                      purchase   A  week  2026-01-01T00:00:00.000Z\
                                                                          \
                    → 2026-01-01T00:00:00.000Z to 2026-01-01T00:03:00.000Z
                      assertion  owls  until 2026-01-01T00:08:00.000Z, \
                    stated by promotion on 2026-01-01T00:01:00.000Z  \
                    → 2026-01-01T00:03:00.000Z to 2026-01-01T00:08:00.000Z
                    """))
        #expect(
            try run("explain owls --json", at: "2026-01-01T00:02:00Z").output.contains(
                #""sandboxTime": "accelerated""#))
    }

    @Test("Production is as sold, whatever the catalogue says")
    func production() throws {
        #expect(
            try run("record purchase week --transaction A", at: "2026-01-01", in: "production")
                == .done("recorded: week as A for anonymous"))
        #expect(
            try run("check owls", at: "2026-01-02", in: "production")
                == .done("granted until 2026-01-08T00:00:00.000Z by group:owls"))
        #expect(
            try run("record credit owls --for P1M", at: "2026-01-01", in: "production").output.hasPrefix(
                "recorded: owls paid until 2026-02-08T00:00:00.000Z"))
        #expect(try !run("explain owls", at: "2026-01-02", in: "production").output.contains("sandboxTime"))
    }

    @Test("A purchase for good has no end in any output, and a credit adds nothing to it")
    func forGood() throws {
        let place = "production"
        #expect(
            try run("record purchase lifetime --transaction L", at: "2026-01-01", in: place)
                == .done("recorded: lifetime as L for anonymous"))
        #expect(try run("check owls", at: "2500-01-01", in: place) == .done("granted for good by group:owls"))
        #expect(try run("status", at: "2026-06-01", in: place).output.contains("owls  active for good\n"))
        #expect(
            try run("record credit owls --for P1M", at: "2026-02-01", in: place)
                == .done("no time added: owls is already covered for good for anonymous"))
        try run("record purchase week --transaction B", at: "2026-03-01", in: place)
        #expect(
            try run("explain owls", at: "2026-03-01", in: place)
                == .done(
                    """
                    owls at 2026-03-01T00:00:00.000Z: granted for good by group:owls
                    rules: stackPurchases, purchasedWins, consumables deviceLocal

                    group:owls
                      purchase  L  lifetime  2026-01-01T00:00:00.000Z  → 2026-01-01T00:00:00.000Z, for good
                      purchase  B  week  2026-03-01T00:00:00.000Z      \
                    → does not count: its time is already covered, or had passed
                    """))
        let status = try run("status --json", at: "2026-06-01", in: place).output
        #expect(status.contains(#""expires": null"#) && status.contains(#""daysRemaining": null"#))
        #expect(status.contains(#""until": null"#) && status.contains(#""end": null"#))
        for command in ["status --json", "timeline", "timeline --json", "explain owls --json", "status", "export"] {
            let outcome = try run(command, at: "2026-06-01", in: place)
            #expect(outcome.exitCode == 0 && !outcome.output.contains("9999"), "\(command): \(outcome)")
        }
        try run("record refund L", at: "2026-03-11", in: place)
        #expect(
            try run("check owls", at: "2026-03-12", in: place)
                == .done("granted until 2026-03-18T00:00:00.000Z by group:owls"))
    }

    @Test("catalog check and convert keep both")
    func catalogue() throws {
        #expect(try sandbox.run("catalog check owls.json").output.contains("lifetime  forever in owls  lifetime\n"))
        let converted = try sandbox.run("catalog convert owls.json").output
        #expect(converted.contains(#""duration": "forever""#) && converted.contains(#""sandboxTime": "accelerated""#))
        try sandbox.write(converted, to: "again.json")
        #expect(try sandbox.run("catalog convert again.json").output == converted)
        #expect(try !sandbox.run("catalog convert \(Sandbox.example)").output.contains("sandboxTime"))
        try sandbox.write(Self.catalogue.replacing("accelerated", with: "fast"), to: "wrong.json")
        #expect(
            try sandbox.run("catalog check wrong.json")
                == .refused(1, #"wrong.json: policy.sandboxTime: must be one of asSold, accelerated, not "fast""#))
        #expect(
            try sandbox.run("record credit owls --for forever --catalog owls.json")
                == .refused(2, #"--for must be at most 100 years, not "forever""#))
    }
}
