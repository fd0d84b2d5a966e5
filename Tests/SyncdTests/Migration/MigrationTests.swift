import Entitlements
import Foundation
import Testing

@Suite("Data of the tutorials' apps migrates, syncs, and is extended by purchases")
struct MigrationTests {
    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
    }

    private static func example(_ name: String) -> String {
        URL(filePath: Sandbox.example).deletingLastPathComponent().appending(path: name).path(percentEncoded: false)
    }

    private func expect(_ command: String, prints text: String, sourceLocation: SourceLocation = #_sourceLocation)
        throws
    {
        #expect(try sandbox.run(command) == .done(text), sourceLocation: sourceLocation)
    }

    /// The number of facts of alice's ledger by kind.
    private func kinds(_ device: String) throws -> [String] {
        try sandbox.run("facts \(device)").output.split(separator: "\n")
            .compactMap { $0.split(separator: " ").first.map(String.init) }
    }

    private func end(_ device: String, _ entitlement: String) throws -> String {
        String(try sandbox.run("check \(entitlement) \(device)").output.prefix { $0 != "\n" })
    }

    @Test("User defaults of InsomniOwl with an expiry date and two unlocked owls migrate")
    func insomniOwl() throws {
        let phone = "--local file:phone --remote file:remote --account alice"
        let tablet = "--local file:tablet --remote file:remote --account alice"
        let file = Self.example("insomniowl-userdefaults.plist")
        let rest = """
              random ends at 2026-03-10T18:30:00.000Z
              left out: com.back40.InsomniOwl.GrumpyOwl: the catalogue has no such product
              left out: com.back40.InsomniOwl.RandomOwls: units without a transaction are not migrated
              left out: 2 keys without purchases
            """
        try expect(
            "import \(file) --format userdefaults \(phone) --at 2026-01-10",
            prints: "imported for alice: 1 new expiry and 2 new flags, 0 already known\n" + rest)
        try expect(
            "sync --create-remote \(phone) --at 2026-01-10",
            prints: "synced alice: received nothing, sent what the remote lacked")
        #expect(try sandbox.run("restore \(tablet) --at 2026-01-11").exitCode == 0)
        for owl in ["night-owl", "couch-owl"] {
            #expect(try sandbox.run("check \(owl) \(tablet) --at 2026-01-11").exitCode == 0)
        }
        #expect(try sandbox.run("check carefree-owl \(tablet) --at 2026-01-11").exitCode == 10)
        #expect(
            try end("\(tablet) --at 2026-01-11", "random-owls")
                == "granted until 2026-03-10T18:30:00.000Z by group:random")
        try sandbox.run("record purchase \(Owls.threeMonths) --transaction t1 \(tablet) --at 2026-01-12")
        let appended = "granted until 2026-06-10T18:30:00.000Z by group:random"
        #expect(try end("\(tablet) --at 2026-01-12", "random-owls") == appended)
        for _ in 0..<2 {
            for device in [tablet, phone] {
                #expect(try sandbox.run("sync \(device) --at 2026-01-13").exitCode == 0)
                try expect(
                    "import \(file) --format userdefaults \(device) --at 2026-01-13",
                    prints: "imported for alice: 0 new expiries and 0 new flags, 3 already known\n"
                        + rest.replacing("2026-03-10", with: "2026-06-10"))
                #expect(try end("\(device) --at 2026-01-13", "random-owls") == appended)
                #expect(try kinds(device) == ["purchase", "recording", "assertion", "flag", "flag"])
            }
        }
        for device in [tablet, phone] {
            try expect("sync \(device) --at 2026-01-14", prints: "synced alice: received nothing, sent nothing")
        }
    }

    @Test("A Parse export of Rage with an array of dates migrates with the bonus day")
    func rage() throws {
        let catalog = " --catalog \(Self.example("rage.json")) --account ragefan --remote file:remote"
        let (phone, tablet) = ("--local file:phone" + catalog, "--local file:tablet" + catalog)
        let command = "import \(Self.example("rage-parse-user.json")) --format parse"
        #expect(
            try sandbox.run("\(command) \(phone)")
                == .refused(
                    1, "\(Self.example("rage-parse-user.json")): the export holds 3 users: name one with --user"))
        try expect(
            "\(command) --user ragefan \(phone) --at 2026-01-10",
            prints: """
                imported for ragefan: 2 new expiries and 0 new flags, 0 already known
                  comics ends at 2026-05-15T08:00:00.000Z
                """)
        try sandbox.run("sync --create-remote \(phone) --at 2026-01-10")
        try sandbox.run("restore \(tablet) --at 2026-01-11")
        try sandbox.run(
            "record purchase com.razeware.inapprage.3monthsrage --transaction t1 \(tablet) --at 2026-01-12")
        // Three months and the bonus day after 15 May, 08:00.
        let appended = "granted until 2026-08-16T08:00:00.000Z by group:comics"
        for _ in 0..<2 {
            for device in [tablet, phone] {
                #expect(try sandbox.run("sync \(device) --at 2026-01-13").exitCode == 0)
                try expect(
                    "\(command) --user g7y9tkhB7O \(device) --at 2026-01-13",
                    prints: """
                        imported for ragefan: 0 new expiries and 0 new flags, 2 already known
                          comics ends at 2026-08-16T08:00:00.000Z
                        """)
                #expect(try end("\(device) --at 2026-01-13", "nightlyrage") == appended)
                #expect(try kinds(device) == ["purchase", "recording", "assertion", "assertion"])
            }
        }
        try expect(
            "\(command) --user lapsed --local file:other\(catalog) --at 2026-01-10",
            prints: """
                imported for ragefan: 1 new expiry and 0 new flags, 0 already known
                  comics ends at 2013-09-02T00:00:00.000Z
                """)
        #expect(
            try end("--local file:other\(catalog) --at 2026-01-10", "nightlyrage")
                == "denied: restore needed")
    }

    @Test("A server's expiry date that is echoed 50 times, with purchases in between, adds no time")
    func echo() throws {
        let device = "--local file:phone --account alice"
        try sandbox.run(
            "import \(Self.example("insomniowl-userdefaults.plist")) --format userdefaults \(device) --create "
                + "--at 2026-01-10")
        var end = "2026-03-10T18:30:00"
        let ends = ["2026-06-10T18:30:00", "2026-09-10T18:30:00", "2026-12-10T18:30:00", "2027-03-10T18:30:00"]
        for round in 0..<50 {
            let now = "2026-0\(round / 25 + 1)-\(round % 25 < 9 ? "0" : "")\(round % 25 + 1)"
            let today = round < 15 ? "2026-01-\(round + 11)" : now
            if round % 12 == 6 {
                #expect(
                    try sandbox.run(
                        "record purchase \(Owls.threeMonths) --transaction t\(round) \(device) --at \(today)"
                    ).exitCode == 0)
                end = ends[round / 12]
            }
            try sandbox.write(
                "<plist><dict><key>ExpirationDate</key><date>\(end)Z</date></dict></plist>", to: "echo.plist")
            try expect(
                "import echo.plist --format userdefaults \(device) --at \(today)",
                prints: """
                    imported for alice: 0 new expiries and 0 new flags, 1 already known
                      random ends at \(end).000Z
                    """)
        }
        #expect(end == "2027-03-10T18:30:00")
        #expect(
            try kinds(device)
                == [String](repeating: "purchase", count: 4) + [String](repeating: "recording", count: 4)
                + ["assertion", "flag", "flag"])
    }

    @Test("The facts of another ledger are imported once, and a damaged or newer file changes nothing")
    func facts() throws {
        try sandbox.run("record purchase \(Owls.threeMonths) --transaction t1 --at 2026-01-01 --local file:old")
        try sandbox.run("export --format ledger --output old.ledger --local file:old")
        let whole = try sandbox.bytes(of: "old.ledger")
        try sandbox.run("record flag \(Owls.night)")
        let before = try sandbox.tree()
        var newer = whole
        newer[4] = 9
        var damaged = whole
        damaged[60] ^= 1
        for (bytes, code, reason) in [
            (
                Array(whole.dropLast(9)), 1,
                "at byte \(whole.count - 9): the document has \(whole.count - 9) bytes, its header says \(whole.count)"
            ),
            (damaged, 1, "at byte 44: the records do not match their checksum"),
            (newer, 4, "at byte 4: it is written in format 9, this version reads up to 1"),
            (Array("[]".utf8), 1, "at byte 0: this is not a ledger: it does not begin with ESLG"),
        ] as [([UInt8], Int32, String)] {
            try sandbox.write(bytes, to: "old.ledger")
            #expect(
                try sandbox.run("import old.ledger --format facts") == .refused(code, "old.ledger: \(reason)"))
        }
        try sandbox.write(whole, to: "old.ledger")
        #expect(try sandbox.tree() == before)
        try expect("import old.ledger --format facts", prints: "imported for anonymous: 2 new facts of 2")
        try expect("import old.ledger --format facts", prints: "imported for anonymous: 0 new facts of 2")
        #expect(try end("--at 2026-01-02", "random-owls") == "granted until 2026-04-01T00:00:00.000Z by group:random")
    }
}
