import Foundation
import Testing

@Suite("Catalogues from .storekit files on the command line")
struct StoreKitCommandTests {
    private static let file = """
        {"identifier":"1A2B","version":{"major":4,"minor":0},
         "products":[{"productID":"coins","type":"Consumable",
                      "localizations":[{"locale":"en_US","displayName":"Coins"}]},
                     {"productID":"owl","type":"NonConsumable"}],
         "nonRenewingSubscriptions":[{"productID":"quarter","type":"NonRenewingSubscription"},
                                     {"productID":"half","type":"NonRenewingSubscription"}],
         "subscriptionGroups":[{"id":"20999999","name":"selfies","subscriptions":[
           {"productID":"weekly","type":"RecurringSubscription","groupNumber":1,"recurringSubscriptionPeriod":"P1W",
            "introductoryOffer":{"paymentMode":"free","numberOfPeriods":1,"subscriptionPeriod":"P3D"}}]}]}
        """
    private static let supplement =
        "--duration quarter=P3M --duration half=P6M --group-of quarter=random --group-of half=random --units coins=5"

    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
        for name in ["app.storekit", "app.json"] { try sandbox.write(Self.file, to: name) }
    }

    @Test(
        "catalog check recognizes a .storekit file by its name and by its content",
        arguments: ["app.storekit", "app.json"])
    func check(name: String) throws {
        #expect(
            try sandbox.run("catalog check \(name) \(Self.supplement)")
                == .done(
                    """
                    valid: 5 products, 4 entitlements
                      coins    5 units                           Coins
                      owl      for good                          owl
                      quarter  P3M in random                     quarter
                      half     P6M in random                     half
                      weekly   P7D in 20999999, level 1, renews  weekly

                      coins    units:coins
                      owl      product:owl
                      random   group:random
                      selfies  group:20999999
                    """))
    }

    @Test("A duration of forever makes a purchase of a non-renewing subscription last for good")
    func forever() throws {
        let supplement = Self.supplement.replacing("half=P6M", with: "half=forever")
        #expect(
            try sandbox.run("catalog check app.storekit \(supplement)").output.contains("half     forever in random"))
        let options = "--catalog app.storekit \(supplement) --at 2026-01-01"
        try sandbox.run("record purchase half --transaction t1 \(options)")
        #expect(try sandbox.run("check random \(options)") == .done("granted for good by group:random"))
    }

    @Test("catalog convert writes JSON that reads as the same catalogue")
    func convert() throws {
        #expect(
            try sandbox.run("catalog convert app.storekit \(Self.supplement) --output own.json")
                == Sandbox.Outcome(exitCode: 0, output: "", error: ""))
        for command in ["catalog check", "catalog check --json"] {
            #expect(
                try sandbox.run("\(command) own.json")
                    == sandbox.run("\(command) app.storekit \(Self.supplement)"))
        }
        let converted = try sandbox.run("catalog convert own.json")
        #expect(converted.output == String(decoding: try sandbox.bytes(of: "own.json"), as: UTF8.self))
        #expect(
            converted.output.contains(
                """
                      "introductory": {
                        "mode": "free",
                        "duration": "P3D"
                      }
                """))
        for name in ["insomniowl.json", "rage.json"] {
            let example = URL(filePath: Sandbox.example).deletingLastPathComponent().appending(path: name)
                .path(percentEncoded: false)
            try sandbox.run("catalog convert \(example) --output again.json")
            #expect(try sandbox.run("catalog check again.json") == sandbox.run("catalog check \(example)"))
        }
    }

    @Test("A file of Xcode 12 is read like one of Xcode 15, and a catalogue without products is not called complete")
    func oldAndEmpty() throws {
        try sandbox.write(Self.file.replacing("\"major\":4", with: "\"major\":1"), to: "old.storekit")
        #expect(
            try sandbox.run("catalog check old.storekit \(Self.supplement)")
                == sandbox.run("catalog check app.storekit \(Self.supplement)"))
        try sandbox.write(#"{"version":{"major":1},"products":[],"subscriptionGroups":[]}"#, to: "new.storekit")
        #expect(
            try sandbox.run("catalog check new.storekit")
                == .refused(
                    1,
                    "new.storekit: the file has no products: add them in Xcode, or let Xcode sync the file with App "
                        + "Store Connect"))
        try sandbox.write(#"{"products":[]}"#, to: "none.json")
        #expect(
            try sandbox.run("catalog check none.json")
                == .done("valid, but without products: add what the app sells"))
    }

    @Test("A store uses a .storekit file like any catalogue, and purchases keep the terms")
    func use() throws {
        let options = "--catalog app.storekit \(Self.supplement) --at 2026-01-01"
        for (product, id) in [("quarter", "t1"), ("half", "t2")] {
            #expect(try sandbox.run("record purchase \(product) --transaction \(id) \(options)").exitCode == 0)
        }
        #expect(
            try sandbox.run("check random \(options)")
                == .done("granted until 2026-10-01T00:00:00.000Z by group:random"))
    }

    @Test(
        "Missing, misspelled and unused options are refused with one line",
        arguments: [
            Refusal(
                1, "catalog check app.storekit",
                "app.storekit: nonRenewingSubscriptions: the file does not say how long a non-renewing subscription "
                    + #"lasts: give --duration ID=P3M for each of "half", "quarter""#),
            Refusal(
                1, "status --catalog app.storekit --duration half=P6M",
                "app.storekit: nonRenewingSubscriptions: the file does not say how long a non-renewing subscription "
                    + #"lasts: give --duration ID=P3M for each of "quarter""#),
            Refusal(
                1, "catalog check app.storekit \(supplement) --duration year=P1Y",
                #"app.storekit: a duration is given for "year", which the file does not sell"#),
            Refusal(
                1, "catalog check app.storekit \(supplement) --duration owl=P1Y",
                #"app.storekit: a duration is given for "owl", which is nonConsumable"#),
            Refusal(
                2, "catalog check app.storekit --duration half=long",
                #"--duration: "long" is not a duration: it must begin with P (write P3M, P1W or P1D)"#),
            Refusal(2, "catalog check app.storekit --duration half", #"--duration must be ID=VALUE, not "half""#),
            Refusal(
                2, "catalog check app.storekit --duration half=P1M --duration half=P2M",
                #"--duration: "half" is set twice"#),
            Refusal(
                2, "catalog check app.storekit --units coins=0",
                #"--units: units must be a number from 1 to 1,000,000, not "0""#),
            Refusal(2, "catalog check app.storekit --group-of half=", "--group-of: an id must not be empty"),
            Refusal(3, "catalog convert none.storekit", "none.storekit: no such file"),
            Refusal(1, "catalog check own.storekit", "own.storekit: version: this is missing"),
        ])
    func refused(refusal: Refusal) throws {
        try sandbox.write(#"{"products":[]}"#, to: "own.storekit")
        let before = try sandbox.tree()
        #expect(try sandbox.run(refusal.arguments) == .refused(refusal.exitCode, refusal.reason))
        #expect(try sandbox.tree() == before)
    }
}
