import Foundation
import Testing

@Suite("JSON output")
struct JSONTests {
    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
        try sandbox.write(
            """
            {"products": [{"id": "b.owl", "type": "nonConsumable"}, {"id": "a.owl", "type": "nonConsumable"},
              {"id": "coins", "type": "consumable", "units": 5},
              {"id": "3m", "type": "nonRenewing", "group": "z", "duration": "P3M"},
              {"id": "1w", "type": "nonRenewing", "group": "never", "duration": "P1W"}],
             "entitlements": [{"id": "z-content", "grantedBy": ["group:z", "units:coins"]},
              {"id": "a-content", "grantedBy": ["group:never"]}]}
            """, to: "own.json")
    }

    private func run(_ command: String) throws -> Sandbox.Outcome {
        try sandbox.run("\(command) --json --catalog own.json")
    }

    private func members(_ command: String) throws -> [String] {
        let value = try JSONSerialization.jsonObject(with: Data(try run(command).output.utf8))
        let object = (value as? [[String: Any]])?.first ?? value as? [String: Any]
        return try #require(object).keys.sorted()
    }

    private static let history = """
        [{"transactionID": "t3", "productID": "b.owl", "purchaseDate": "2026-01-01"},
         {"transactionID": "t2", "productID": "a.owl", "purchaseDate": "2026-01-01"},
         {"transactionID": "t4", "productID": "coins", "purchaseDate": "2026-01-01", "quantity": 2},
         {"transactionID": "t1", "productID": "3m", "purchaseDate": "2026-01-01"}]
        """

    /// The expected object for ``history`` on 3 January, without its first members.
    private static let expected = """
          "at": "2026-01-03T00:00:00.000Z",
          "subscriptions": [
            {
              "group": "never",
              "active": false,
              "level": null,
              "expires": null,
              "daysRemaining": 0,
              "periods": []
            },
            {
              "group": "z",
              "active": true,
              "level": null,
              "expires": "2026-04-01T00:00:00.000Z",
              "daysRemaining": 88,
              "periods": [
                {
                  "start": "2026-01-01T00:00:00.000Z",
                  "end": "2026-04-01T00:00:00.000Z",
                  "transactionID": "t1",
                  "store": "reported",
                  "environment": "production"
                }
              ]
            }
          ],
          "owned": [
            "a.owl",
            "b.owl"
          ],
          "balances": {
            "coins": 10
          },
          "access": {
            "a-content": {
              "granted": false,
              "reason": "notPurchased",
              "date": null
            },
            "z-content": {
              "granted": true,
              "until": "2026-04-01T00:00:00.000Z",
              "because": "group:z"
            }
          },
          "pending": []
        }
        """

    @Test("evaluate prints sorted subscriptions, products, balances and access, with null for an unknown expiry")
    func evaluate() throws {
        try sandbox.write(Self.history, to: "history.json")
        #expect(try run("evaluate --history history.json --at 2026-01-03") == .done("{\n" + Self.expected))
    }

    @Test("status prints the same object after the account")
    func status() throws {
        try sandbox.write(Self.history, to: "history.json")
        #expect(try run("import history.json --format history --account alice --create --at 2026-01-01").exitCode == 0)
        #expect(try run("status --at 2026-01-03") == .done("{\n  \"account\": \"alice\",\n" + Self.expected))
    }

    @Test("Every command that prints results supports --json with the same members each time")
    func members() throws {
        try sandbox.write(Self.history, to: "history.json")
        let account = "--account alice --remote file:remote --at 2026-01-03"
        let members: KeyValuePairs = [
            "import history.json --format history \(account)": "account entries newPurchases newRefunds",
            "record purchase 3m --transaction t9 \(account)": "account isNew productID transactionID",
            "record refund t9 \(account)": "account isNew purchaseKnown transactionID",
            "record flag a.owl \(account)": "account isNew productID",
            "record pending a.owl \(account)": "account isNew productID",
            "sync --create-remote --dry-run \(account)":
                "accessChanges account collisions conflicts dryRun received sent unreadable",
            "sync --create-remote \(account)":
                "accessChanges account collisions conflicts dryRun received sent unreadable",
            "restore \(account)": "account restored status",
            "status \(account)": "access account at balances owned pending subscriptions",
            "check z-content \(account)": "because entitlement granted until",
            "check a-content \(account)": "date entitlement granted reason",
            "use z-content \(account)": "because entitlement granted until",
            "use z-content --account alice --at 2027-01-01": "entitlement granted productID remaining spent",
            "explain z-content \(account)": "access at entitlement rules sources",
            "timeline z \(account)": "active at chains expires group periods",
            "catalog check": "entitlements groups offerings products",
        ]
        for (command, expected) in members {
            #expect(try self.members(command).joined(separator: " ") == expected, "\(command)")
        }
        #expect(
            try self.members("facts --account alice") == [
                "environment", "expiresDate", "kind", "ledger", "originalTransactionID", "productID", "purchaseDate",
                "quantity", "signedDate", "store", "terms", "transactionID",
            ])
    }

    @Test("Ids with special characters are printed unchanged")
    func quoting() throws {
        let id = #"a/"b"\ 🦉 é"#
        try sandbox.run(["record", "purchase", "3m", "--transaction", id, "--catalog", "own.json"])
        let value = try JSONSerialization.jsonObject(
            with: Data(try sandbox.run("export --catalog own.json").output.utf8))
        let entries = try #require(value as? [[String: Any]])
        #expect(entries.compactMap { $0["transactionID"] as? String }.map { Array($0.utf8) } == [Array(id.utf8)])
    }
}
