import Foundation
import Testing

@Suite("Errors in catalogues and histories name the file and the place, and change nothing")
struct DocumentTests {
    @Test("An invalid catalogue is rejected", arguments: BadDocuments.catalogs)
    func catalog(text: String, reason: String) throws {
        let sandbox = try Sandbox()
        try sandbox.write(text, to: "own.json")
        for command in ["catalog check", "status", "record flag a"] {
            #expect(
                try sandbox.run("\(command) --catalog own.json") == .refused(1, "own.json: \(reason)"), "\(command)")
        }
        #expect(try sandbox.tree().keys.sorted() == ["own.json"])
    }

    @Test("An invalid history is rejected", arguments: BadDocuments.histories)
    func history(text: String, reason: String) throws {
        let sandbox = try Sandbox()
        try sandbox.write(text, to: "h.json")
        for command in ["import h.json --format history", "evaluate --history h.json"] {
            #expect(try sandbox.run(command) == .refused(1, "h.json: \(reason)"), "\(command)")
        }
        #expect(try sandbox.tree().keys.sorted() == ["h.json"])
    }

    @Test("A history whose last entry contradicts the ledger is not imported at all")
    func contradiction() throws {
        let sandbox = try Sandbox()
        try sandbox.run("record purchase \(Owls.shy) --transaction a --date 2026-01-01")
        try sandbox.write(BadDocuments.entry(id: "a"), to: "h.json")
        let before = try sandbox.tree()
        #expect(
            try sandbox.run("import h.json --format history")
                == .refused(5, "transaction \"a\" is already recorded differently: product \(Owls.shy)"))
        #expect(try sandbox.tree() == before)
    }

    @Test(
        "Ids with slashes, dots, emoji, spaces and 255 bytes are kept as they are",
        arguments: [
            "a/b", "../../etc", "🦉", "a b", ".", "--", "%2F", String(repeating: "x", count: 255),
        ])
    func oddIDs(id: String) async throws {
        let sandbox = try Sandbox()
        let outcome = try sandbox.run(["record", "purchase", Owls.night, "--transaction=\(id)"])
        #expect(outcome == .done("recorded: \(Owls.night) as \(id) for anonymous"))
        #expect(try await sandbox.purchases(in: "store") == [id])
    }

    @Test("Two ids that are canonically equal are two purchases")
    func canonicallyEqual() async throws {
        let sandbox = try Sandbox()
        for id in ["\u{E9}", "e\u{301}"] {
            let outcome = try sandbox.run(
                ["record", "purchase", Owls.threeMonths, "--transaction", id, "--date", "2026-01-01"])
            #expect(outcome == .done("recorded: \(Owls.threeMonths) as \(id) for anonymous"))
        }
        #expect(
            try sandbox.run("check random-owls --at 2026-06-30").output
                == "granted until 2026-07-01T00:00:00.000Z by group:random\n")
    }
}
