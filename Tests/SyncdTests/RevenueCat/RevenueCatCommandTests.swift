import Entitlements
import FileStorage
import Foundation
import SyncCore
import TestSupport
import Testing

@Suite("Import from RevenueCat, and export of all customers")
struct RevenueCatCommandTests {
    private static let anonymous = "$RCAnonymousID:0123456789abcdef0123456789abcdef"
    private static let columns =
        "rc_original_app_user_id;rc_last_seen_app_user_id_alias;product_identifier;start_time;end_time;store;"
        + "is_sandbox;store_transaction_id;original_store_transaction_id;refunded_at;ownership_type\n"

    private let sandbox: Sandbox
    private let store = "--local sqlite:server.sqlite"

    init() throws {
        sandbox = try Sandbox()
        try sandbox.write(
            Self.columns + """
                \(Self.anonymous);u1;\(Owls.threeMonths);2026-01-01 08:00:00;;app_store;false;1000;1000;;PURCHASED
                \(Self.anonymous);u1;\(Owls.night);2026-01-02 08:00:00;;app_store;false;1001;1001;;PURCHASED
                u2;u2;\(Owls.couch);2026-01-03 08:00:00;;play_store;false;GPA.1-2-3-4;GPA.1-2-3-4;2026-01-05 00:00:00;
                u2;u2;\(Owls.shy);2026-01-03 08:00:00;;app_store;true;2000;2000;;PURCHASED
                u3;u3;rc_promo_random_monthly;2026-01-03 08:00:00;2026-02-03 08:00:00;promotional;false;x;x;;
                u4;u4;gone;2026-01-03 08:00:00;;app_store;false;3000;3000;;
                u5;u5;\(Owls.units);2026-01-03 08:00:00;;app_store;false;4000;4000;;

                """, to: "transactions.csv")
        try sandbox.write(
            """
            {
              "request_date": "2026-03-01T00:00:00Z",
              "app_user_id": "u6",
              "subscriber": {
                "original_app_user_id": "u6", "first_seen": "2025-12-01T00:00:00Z", "subscriptions": {},
                "non_subscriptions": {"\(Owls.night)": [
                  {"id": "aa", "purchase_date": "2026-01-04T00:00:00Z", "store": "app_store", "is_sandbox": false,
                   "store_transaction_id": "5000"},
                  {"id": "bb", "purchase_date": "2026-01-04T00:00:00Z", "store": "app_store", "is_sandbox": false}]}
              }
            }

            """, to: "u6.json")
    }

    private func importAll(_ rest: String = "") throws -> Sandbox.Outcome {
        try sandbox.run("import --format revenuecat transactions.csv u6.json \(store) \(rest)")
    }

    private func customers() throws -> [String: JSON] {
        let output = try sandbox.run("export --all --at 2026-02-01 \(store)").output
        var customers: [String: JSON] = [:]
        for line in output.split(separator: "\n") {
            let value = try JSON(parsing: Array(line.utf8))
            customers[value["externalId"]?.string ?? ""] = value
        }
        return customers
    }

    private static let losses = """
          1 left out: promotional grants: give the time again, with record credit
          1 left out: purchases without the store's transaction id
          1 left out: the catalogue has no product "gone"
          1 left out: units of consumables: the export does not say which were used
        """

    @Test("All customers are imported with what is known, and a repetition adds nothing")
    func everything() throws {
        #expect(
            try importAll("--create")
                == .done("3 new accounts, 5 purchases imported, 0 already there, 0 refused\n\(Self.losses)"))
        #expect(
            try importAll() == .done("0 new accounts, 0 purchases imported, 5 already there, 0 refused\n\(Self.losses)")
        )
        let known = try customers()
        #expect(Set(known.keys) == ["u1", "u2", "u6"])
        let first = try #require(known["u1"])
        #expect(first["account"]?.string == "u1" && first["created"]?.string == "2026-01-01T08:00:00.000Z")
        #expect(first["purchases"]?.elements?.compactMap { $0["transaction"]?.string } == ["1000", "1001"])
        #expect(first["periods"]?.elements?.first?["end"]?.string == "2026-04-01T08:00:00.000Z")
        let second = try #require(known["u2"]?["purchases"]?.elements)
        #expect(second.map { $0["environment"]?.string } == ["sandbox", "production"])
        #expect(second[1]["revoked"]?.string == "2026-01-05T00:00:00.000Z")
        let status = try sandbox.run("check random-owls --at 2026-02-01 \(store) --account u1")
        #expect(status.output == "granted until 2026-04-01T08:00:00.000Z by group:random\n")
        let audit = try sandbox.run("audit --store sqlite:server.sqlite").output
        #expect(audit.contains("import") && audit.contains("revenuecat: transactions.csv, u6.json"), "\(audit)")
    }

    @Test("A dry run prints what each customer would get and why, and writes nothing")
    func dryRun() throws {
        let run = try sandbox.run("import --format revenuecat transactions.csv --dry-run --skip-sandbox")
        #expect(run.exitCode == 0 && run.error.isEmpty, "\(run)")
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("server.sqlite")))
        #expect(
            run.output.hasPrefix(
                """
                u1: new account u1
                  \(Owls.threeMonths) app_store 1000 from 2026-01-01T08:00:00.000Z
                  \(Owls.night) app_store 1001 from 2026-01-02T08:00:00.000Z
                """), "\(run.output)")
        for line in [
            "  gets night-owl for good", "GPA.1-2-3-4 from 2026-01-03T08:00:00.000Z, refunded 2026-01-05T00:00:00.000Z",
            "u3: nothing to import\n  left out: rc_promo_random_monthly promotional x",
            "dry run, nothing was written:\n2 new accounts, 3 purchases imported",
            "  1 left out: sandbox purchases (--skip-sandbox)",
        ] {
            #expect(run.output.contains(line), "\(line): \(run.output)")
        }
        _ = try importAll("--create")
        let before = try customers().mapValues(\.line)
        let again = try importAll("--dry-run")
        #expect(again.output.contains("u1: account u1") && again.output.contains("0 new accounts"), "\(again.output)")
        #expect(try customers().mapValues(\.line) == before)
    }

    @Test("A file that is damaged or of another kind is refused before anything is written")
    func damage() throws {
        let rows = String(decoding: try sandbox.bytes(of: "transactions.csv"), as: UTF8.self)
        let cases: [(String, String)] = [
            (String(rows.dropLast(30)), "line 8: "), ("a,b\n1,2\n", "this is no transactions export of RevenueCat"),
            (rows + "\"open", "a quotation mark is not closed"), ("{\"subscriber\":{", "cut off"),
            ("[{\"subscriber\":{}}", "cut off"), ("\u{1F}\u{8B}", "line 1"), ("", "the file is empty"),
            ("PAR1\u{0}", "Parquet"),
        ]
        for (text, reason) in cases {
            try sandbox.write(text, to: "bad")
            let run = try sandbox.run("import --format revenuecat transactions.csv bad \(store) --create")
            #expect(run.exitCode == 1 && run.error.contains(reason) && run.output.isEmpty, "\(reason): \(run)")
            #expect(!FileManager.default.fileExists(atPath: sandbox.path("server.sqlite")), "\(reason)")
        }
        try sandbox.write([0x1F, 0x8B, 8, 0], to: "bad")
        let packed = try sandbox.run("import --format revenuecat bad \(store) --create")
        #expect(packed.error.contains("unpack it first, with gunzip"))
        try sandbox.write(
            Self.columns + "u1;u1;\(Owls.night);yesterday;;app_store;false;1;1;;\n"
                + "u\u{7};u\u{7};\(Owls.night);2026-01-01 00:00:00;;app_store;false;2;2;;\n"
                + "=cmd|' /C calc'!A0;;\(Owls.night);2026-01-01 00:00:00;;app_store;false;3;3;;\n", to: "bad")
        let run = try sandbox.run("import --format revenuecat bad \(store) --create")
        #expect(run.exitCode == 5, "\(run)")
        #expect(run.output.hasPrefix("1 new account, 1 purchase imported, 0 already there, 2 refused\n"), "\(run)")
        #expect(run.error.contains("bad: line 2: refused: start_time: \"yesterday\" is not a date"), "\(run)")
        #expect(run.error.contains("bad: line 3: refused: u\u{FFFD}: an external id cannot have control"), "\(run)")
        // The name that begins like a formula is no formula in CSV, and exact in JSON lines.
        let csv = try sandbox.run("export --all --format csv \(store)").output
        #expect(csv.contains(",'=cmd|' /C calc'!A0,"), "\(csv)")
        #expect(try customers()["=cmd|' /C calc'!A0"] != nil)
    }

    @Test("An export has one line for each customer or fact, and its file appears only when it is complete")
    func export() throws {
        _ = try importAll("--create")
        let csv = try sandbox.run("export --all --format csv --at 2026-02-01 --output all.csv \(store)")
        #expect(csv == Sandbox.Outcome(exitCode: 0, output: "", error: "syncd: all.csv: 3 customers\n"))
        let lines = String(decoding: try sandbox.bytes(of: "all.csv"), as: UTF8.self)
            .split(separator: "\r\n").map(String.init)
        #expect(lines[0].hasPrefix("record,account,external_id,environment,store,transaction,"))
        #expect(lines[1] == "customer,u1,u1,,,,,,,,,2026-01-01T08:00:00.000Z,,,,,,,,")
        #expect(lines.count { $0.hasPrefix("purchase,") } == 5 && lines.count { $0.hasPrefix("period,") } == 1)
        #expect(lines.contains { $0.hasPrefix("entitlement,u1,u1,production,,,,,,night-owl,true,2026-01-02T") })
        #expect(lines.allSatisfy { $0.split(separator: ",", omittingEmptySubsequences: false).count == 20 })
        let permissions = try FileManager.default.attributesOfItem(atPath: sandbox.path("all.csv"))[.posixPermissions]
        #expect(permissions as? Int == 0o600)
        let refusals: [(String, Int32, String)] = [
            ("export --all --format history \(store)", 2, "--all takes --format json-lines or csv"),
            ("export --format csv \(store)", 2, "the format csv needs --all"),
            ("export --all \(store) --remote https://shop.example.com", 2, "--all reads the server's own store, not"),
            ("export --all --local sqlite:gone.sqlite --output x", 3, "there is no store at sqlite:gone.sqlite"),
            ("export --all --local file:store", 3, "there is no store"),
            ("export --all --output gone/x \(store)", 1, "gone/x: cannot be written: No such file"),
            ("export --all --account u1 \(store)", 2, "do not apply here"),
        ]
        for (command, code, reason) in refusals {
            let run = try sandbox.run(command)
            #expect(run.exitCode == code || code == 2 && run.exitCode == 64, "\(command): \(run)")
            #expect(run.error.contains(reason) && run.output.isEmpty, "\(command): \(run)")
        }
        #expect(!(try sandbox.tree()).keys.contains { $0.hasPrefix("x") })
    }

    @Test("A record that cannot be read fails the export, and leaves the file as it was")
    func damagedStore() async throws {
        _ = try importAll("--create")
        try sandbox.write("earlier", to: "all.csv")
        #expect(try sandbox.run("store copy sqlite:server.sqlite file:copy").exitCode == 0)
        let copy = FileBackend(folder: sandbox.path("copy"))
        _ = try await copy.write([1], to: try EntryKey("server/accounts/u2"), if: .any)
        let run = try sandbox.run("export --all --format csv --output all.csv --local file:copy")
        #expect(run.exitCode != 0 && !run.error.isEmpty, "\(run)")
        #expect(try sandbox.bytes(of: "all.csv") == Array("earlier".utf8))
        #expect(!(try sandbox.tree()).keys.contains { $0.hasPrefix("all.csv.") })
    }
}
