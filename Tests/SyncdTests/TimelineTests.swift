import Foundation
import Testing

@Suite("The drawing of a timeline")
struct TimelineTests {
    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
    }

    private func buy(_ id: String, on date: String, _ product: String = Owls.threeMonths) throws {
        let outcome = try sandbox.run(["record", "purchase", product, "--transaction", id, "--date", date])
        try #require(outcome.exitCode == 0, "\(outcome.error)")
    }

    private func drawing(at date: String, _ options: String = "") throws -> String {
        let outcome = try sandbox.run("timeline --at \(date) \(options)")
        #expect(outcome.exitCode == 0 && outcome.error.isEmpty)
        for line in outcome.output.split(separator: "\n") {
            #expect(terminalColumns(String(line)) <= 80, "\(line)")
        }
        return outcome.output
    }

    /// The width on a terminal for the characters in this file: Han and emoji take two columns.
    private func terminalColumns(_ line: String) -> Int {
        line.reduce(0) { $0 + (("一"..."龥").contains($1) || $1 == "🦉" || $1 == "👨‍👩‍👧‍👦" ? 2 : 1) }
    }

    @Test("A drawing without periods is one line")
    func nothing() throws {
        #expect(try drawing(at: "2026-01-01") == "random: never active\n")
    }

    @Test("Three purchases in a row are drawn one after the other, with their coverage")
    func stack() throws {
        try buy("first", on: "2026-01-01")
        try buy("second", on: "2026-01-01T12:00:00Z")
        try buy("third", on: "2026-02-01", Owls.sixMonths)
        #expect(
            try drawing(at: "2026-07-02") == """
                random: active until 2027-01-01T00:00:00.000Z, 183 days left

                                  2026-01-01     2026-04-02     2026-07-02     2026-10-01
                                  ┬──────────────┬──────────────┬──────────────┬──────────────
                first             ███████████████
                second                          ████████████████
                third                                          ███████████████████████████████
                covered           ████████████████████████████████████████████████████████████
                now                                            ▲ 2026-07-02

                █ a period   × revoked   · a gap

                """)
    }

    @Test("A gap is drawn as dots, and a future purchase after the mark for now")
    func gap() throws {
        try buy("first", on: "2026-01-01")
        try buy("future", on: "2026-07-01")
        #expect(
            try drawing(at: "2026-02-15") == """
                random: active until 2026-04-01T00:00:00.000Z, 45 days left

                                  2026-01-01     2026-03-10     2026-05-17     2026-07-24
                                  ┬──────────────┬──────────────┬──────────────┬──────────────
                first             ████████████████████
                future                                                   █████████████████████
                covered           ████████████████████···················█████████████████████
                now                        ▲ 2026-02-15

                █ a period   × revoked   · a gap

                """)
    }

    @Test("A revocation is marked, and the next purchase moves up")
    func revocation() throws {
        try buy("first", on: "2026-01-01")
        try buy("second", on: "2026-01-02")
        try sandbox.run("record refund first --date 2026-02-01")
        #expect(
            try drawing(at: "2026-04-30") == """
                random: active until 2026-05-01T00:00:00.000Z, 1 day left

                                  2026-01-01     2026-01-31     2026-03-02     2026-04-01
                                  ┬──────────────┬──────────────┬──────────────┬──────────────
                first             ███████████████×
                second                           █████████████████████████████████████████████
                covered           ████████████████████████████████████████████████████████████
                now                                                               2026-04-30 ▲

                █ a period   × revoked   · a gap

                """)
    }

    @Test("The date stands before the mark if there is no space after it")
    func nowAtTheEnd() throws {
        try buy("first", on: "2026-01-01")
        let now = try drawing(at: "2026-04-02").split(separator: "\n").first { $0.hasPrefix("now") }
        #expect(now.map(String.init) == "now" + String(repeating: " ", count: 63) + "2026-04-02 ▲")
    }

    @Test("Long, wide and joined ids fit in 80 columns")
    func longNames() throws {
        try buy(String(repeating: "long", count: 60), on: "2026-01-01")
        try buy("漢字漢字漢字漢字漢字", on: "2026-01-02")
        try buy("👨‍👩‍👧‍👦🦉🦉🦉🦉🦉🦉🦉🦉🦉🦉", on: "2026-01-03")
        try buy("line\u{2028}two\u{85}three", on: "2026-01-04")
        let rows = try drawing(at: "2026-01-05").split(separator: "\n").dropFirst(3).prefix(4)
        // The labels take 18 columns each, followed by 0, 14, 29 and 44 empty ones (60 for a year).
        let labels = rows.map { row in String(row.prefix { $0 != "█" }) }
        #expect(labels.map { terminalColumns($0) } == [18, 32, 47, 62])
        #expect(
            labels.map { String($0.reversed().drop { $0 == " " }.reversed()) } == [
                "longlonglonglong…", "漢字漢字漢字漢字…", "👨‍👩‍👧‍👦🦉🦉🦉🦉🦉🦉🦉…", "line\u{FFFD}two\u{FFFD}three",
            ])
        let group = String(repeating: "g", count: 200)
        try sandbox.write(
            #"{"products": [{"id": "p", "type": "nonRenewing", "group": "\#(group)", "duration": "P1M"}]}"#,
            to: "own.json")
        let wide = "--catalog own.json --local file:other"
        try sandbox.run("record purchase p --transaction t --date 2026-01-01 \(wide)")
        let head = try drawing(at: "2026-01-02", wide).prefix { $0 != "\n" }
        #expect(head == "\(String(repeating: "g", count: 26))…: active until 2026-02-01T00:00:00.000Z, 30 days left")
    }

    @Test("Forty purchases have a row each")
    func many() throws {
        let entries = (0..<40).map {
            #"{"transactionID": "t\#($0)", "productID": "\#(Owls.threeMonths)", "purchaseDate": "2026-01-01"}"#
        }
        try sandbox.write("[\(entries.joined(separator: ","))]", to: "h.json")
        try sandbox.run("import h.json --format history")
        let lines = try drawing(at: "2026-01-02").split(separator: "\n")
        #expect(lines[0] == "random: active until 2036-01-01T00:00:00.000Z, 3651 days left")
        #expect(lines.count { $0.hasPrefix("t") } == 40)
    }
}
