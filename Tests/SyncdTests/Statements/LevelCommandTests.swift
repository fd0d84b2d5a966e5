import Testing

@Suite("Entitlements by level on the command line")
struct LevelCommandTests {
    private static let catalogue = """
        {"products":[{"id":"all","type":"autoRenewable","group":"selfies","level":1,"duration":"P1W"},
                     {"id":"one","type":"autoRenewable","group":"selfies","level":2,"duration":"P1W"}],
         "entitlements":[{"id":"all-selfies","grantedBy":["group:selfies@1"]},
                         {"id":"badge","grantedBy":["product:one"]},
                         {"id":"one-selfie","grantedBy":["group:selfies@2"]}]}
        """
    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
        try sandbox.write(Self.catalogue, to: "selfies.json")
    }

    @discardableResult
    private func run(_ command: String, at date: String = "2026-01-01") throws -> Sandbox.Outcome {
        try sandbox.run("\(command) --at \(date) --catalog selfies.json")
    }

    @Test("catalog check lists levels and products, and a converted catalogue reads back the same")
    func catalog() throws {
        let checked = try sandbox.run("catalog check selfies.json")
        #expect(
            checked
                == .done(
                    """
                    valid: 2 products, 3 entitlements
                      all  P7D in selfies, level 1, renews  all
                      one  P7D in selfies, level 2, renews  one

                      all-selfies  group:selfies@1
                      badge        product:one
                      one-selfie   group:selfies@2
                    """))
        try sandbox.run("catalog convert selfies.json --output converted.json")
        #expect(try sandbox.run("catalog check converted.json") == checked)
        try sandbox.write(Self.catalogue.replacing("selfies@1", with: "selfies@1001"), to: "wrong.json")
        #expect(
            try sandbox.run("catalog check wrong.json")
                == .refused(
                    1,
                    "wrong.json: entitlements[0].grantedBy[0]: a level must be 1 (highest) to 1,000, not \"1001\""))
    }

    @Test("explain names the level of a purchase that is too low, and says that asserted time has none")
    func explain() throws {
        try run("record purchase all --transaction T1")
        try run("record purchase one --transaction T2 --original T1", at: "2026-01-08")
        #expect(try run("check all-selfies", at: "2026-01-08").exitCode == 10)
        #expect(
            try run("check one-selfie", at: "2026-01-08")
                == .done("granted until 2026-01-15T00:00:00.000Z by group:selfies@2"))
        #expect(
            try run("check badge", at: "2026-01-08") == .done("granted until 2026-01-15T00:00:00.000Z by product:one"))
        let credited = try run("record credit selfies --until 2026-03-01", at: "2026-01-09")
        #expect(credited.exitCode == 0, "\(credited)")
        #expect(
            credited.error == "syncd: warning: the time has no level, and no entitlement has the source group:selfies; "
                + "use --as-server with --for, or record a purchase of a product\n")
        let stated = "until 2026-03-01T00:00:00.000Z, stated by promotion on 2026-01-09T00:00:00.000Z"
        let gap = String(repeating: " ", count: 55)
        #expect(
            try run("explain all-selfies", at: "2026-01-10")
                == .done(
                    """
                    all-selfies at 2026-01-10T00:00:00.000Z: denied: expired at 2026-01-08T00:00:00.000Z
                    rules: stackPurchases, purchasedWins, consumables deviceLocal

                    group:selfies@1
                      purchase   T1  all  2026-01-01T00:00:00.000Z\(gap)  \
                    → 2026-01-01T00:00:00.000Z to 2026-01-08T00:00:00.000Z
                      purchase   T2  one  2026-01-08T00:00:00.000Z\(gap)  \
                    → does not count: its level is 2, and the source needs 1
                      assertion  selfies  \(stated)  → does not count: it has no level
                    """))
        let json = try run("explain all-selfies --json", at: "2026-01-10").output
        #expect(json.contains(#""source": "group:selfies@1""#))
        #expect(json.contains(#""effect": "does not count: its level is 2, and the source needs 1""#))
        #expect(json.contains(#""effect": "does not count: it has no level""#))
    }
}
