import Entitlements
import Foundation
import Testing

@Suite("Commands between stores")
struct SyncCommandTests {
    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
    }

    private let phone = "--local file:phone --remote file:remote --account alice --at 2026-01-02"
    private let tablet = "--local file:tablet --remote file:remote --account alice --at 2026-01-02"

    private func expect(_ command: String, prints text: String, sourceLocation: SourceLocation = #_sourceLocation)
        throws
    {
        #expect(try sandbox.run(command) == .done(text), sourceLocation: sourceLocation)
    }

    private func buyOnPhone() throws {
        try sandbox.run("record purchase \(Owls.night) --transaction t1 --date 2026-01-01 \(phone)")
    }

    @Test("Sync sends what the remote lacks, then nothing, and a second device receives it")
    func sync() throws {
        try buyOnPhone()
        try expect(
            "sync --create-remote \(phone)", prints: "synced alice: received nothing, sent what the remote lacked")
        try expect("sync \(phone)", prints: "synced alice: received nothing, sent nothing")
        try expect(
            "sync \(tablet)",
            prints: """
                synced alice: received 2 facts, sent nothing
                  night-owl: denied: restore needed → granted for good by product:\(Owls.night)
                """)
        #expect(try sandbox.run("check night-owl \(tablet)").exitCode == 0)
    }

    @Test("sync --dry-run reports the changes to both sides and makes none")
    func dryRun() throws {
        try buyOnPhone()
        let before = try sandbox.tree()
        try expect(
            "sync --create-remote --dry-run \(phone)",
            prints: "would sync alice: receive nothing, send what the remote lacks")
        #expect(try sandbox.tree() == before)
        try sandbox.run("sync --create-remote \(phone)")
        let synced = try sandbox.tree()
        try expect(
            "sync --dry-run \(tablet)",
            prints: """
                would sync alice: receive 2 facts, send nothing
                  night-owl: denied: restore needed → granted for good by product:\(Owls.night)
                """)
        #expect(try sandbox.tree() == synced)
    }

    @Test("Restore lists the restored purchases, and then that nothing is new")
    func restore() throws {
        try buyOnPhone()
        try sandbox.run("sync --create-remote \(phone)")
        try expect(
            "restore \(tablet)",
            prints: """
                restored for alice: 1 purchase
                  \(Owls.night)  2026-01-01T00:00:00.000Z  t1
                  night-owl: denied: restore needed → granted for good by product:\(Owls.night)
                """)
        try expect("restore \(tablet)", prints: "nothing new for alice")
    }

    @Test("An exported history imports with quantities and refunds, and a second time adds nothing")
    func exportAndImport() throws {
        try sandbox.run("record purchase \(Owls.threeMonths) --transaction t1 --quantity 2 --date 2026-01-31")
        try sandbox.run("record purchase \(Owls.units) --transaction t2 --date 2026-02-01")
        try sandbox.run("record refund t1 --date 2026-03-01")
        let history = """
            [
              {
                "transactionID": "t1",
                "productID": "\(Owls.threeMonths)",
                "purchaseDate": "2026-01-31T00:00:00.000Z",
                "quantity": 2,
                "revokedAt": "2026-03-01T00:00:00.000Z"
              },
              {
                "transactionID": "t2",
                "productID": "\(Owls.units)",
                "purchaseDate": "2026-02-01T00:00:00.000Z",
                "quantity": 1
              }
            ]
            """
        try expect("export", prints: history)
        #expect(try sandbox.run("export --output out.json").output.isEmpty)
        #expect(try String(decoding: sandbox.bytes(of: "out.json"), as: UTF8.self) == history + "\n")
        let imported = "import out.json --format history --local file:other"
        try expect(imported, prints: "imported for anonymous: 2 new purchases and 1 new refund of 2 entries")
        try expect(imported, prints: "imported for anonymous: 0 new purchases and 0 new refunds of 2 entries")
        try expect("export --local file:other", prints: history)
    }

    @Test("export --format ledger writes the account's ledger document")
    func exportLedger() throws {
        try sandbox.run("record purchase \(Owls.night) --transaction t1 --date 2026-01-01")
        #expect(try sandbox.run("export --format ledger --output ledger").exitCode == 0)
        let document = try LedgerDocument(decoding: sandbox.bytes(of: "ledger"))
        #expect(document.ledger.count == 2 && document.localSection.isEmpty)
    }

    @Test("Evaluate replays a history without a store")
    func evaluate() throws {
        try sandbox.write(
            """
            [{"transactionID": "b", "productID": "\(Owls.threeMonths)", "purchaseDate": "2026-06-01"},
             {"transactionID": "a", "productID": "\(Owls.threeMonths)", "purchaseDate": "2026-01-01"}]
            """, to: "history.json")
        let before = try sandbox.tree()
        let outcome = try sandbox.run("evaluate --history history.json --at 2026-07-01")
        #expect(
            outcome.output.hasPrefix(
                """
                at 2026-07-01T00:00:00.000Z

                subscriptions
                  random  active until 2026-09-01T00:00:00.000Z, 62 days left

                """))
        #expect(outcome.exitCode == 0 && outcome.error.isEmpty)
        #expect(try sandbox.tree() == before)
    }

    @Test("A memory: store lasts for one command")
    func memory() throws {
        let outcome = try sandbox.run("record purchase \(Owls.night) --transaction t1 --local memory:")
        #expect(outcome == .done("recorded: \(Owls.night) as t1 for anonymous"))
        #expect(try sandbox.tree().isEmpty)
    }
}
