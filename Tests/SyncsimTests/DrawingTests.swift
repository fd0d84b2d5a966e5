import Foundation
import SyncSimulation
import TestSupport
import Testing

@testable import syncsim

@Suite("The page that draws a run")
struct DrawingTests {
    private static let page = String(decoding: PackageResources.diagram_html, as: UTF8.self)
    private static let attack =
        "</title></style></script><!--<script>\"'><script>alert(1)</script><b onclick='x'>&amp;\u{202E}\u{0}\n"

    /// A device buys and syncs; a request is lost and another arrives twice.
    private static func drawing(words: String = "read accounts/alice") -> Drawing {
        let kinds: [(Int64, Int, TraceEvent.Kind)] = [
            (0, 0, .started(process: 0)), (10, 0, .begun(step: 1, "buys quarter as t1")),
            (14, 0, .ended(step: 1, "recorded", isFailure: false)),
            (14, 0, .believes(group: "pro", expires: 1_775_000_000_000, isActive: true)),
            (20, 0, .begun(step: 2, words)), (20, 0, .sent(message: 1, to: 2, words)),
            (20, 0, .lost(message: 1, words)), (30_020, 0, .ended(step: 2, "no answer came", isFailure: true)),
            (30_020, 0, .disturbed(.cutOutgoing, until: 86_400_000, words)), (30_030, 0, .crashed(process: 0)),
            (30_040, 0, .clockMoved(by: -3_600_000)), (30_050, 1, .storeChanged(words)), (30_060, 2, .healed),
            (90_000_000, 0, .sent(message: 2, to: 2, words)), (90_000_009, 2, .arrived(message: 2, words)),
            (90_000_012, 2, .arrived(message: 2, words)), (90_000_013, 2, .sent(message: 3, to: 0, words)),
            (90_000_020, 0, .believes(group: "pro", expires: nil, isActive: false)),
            (90_000_030, 0, .violated(oracle: "coverage", words)), (90_000_040, 0, .note(words)),
        ]
        let lanes = [
            Trace.Lane(.replica, name: words), Trace.Lane(.localStore, name: "store"),
            Trace.Lane(.remote, name: "remote"),
        ]
        return Drawing(
            title: words, subtitle: words,
            trace: Trace(lanes: lanes, events: kinds.map { TraceEvent(at: $0.0, lane: $0.1, $0.2) }),
            violations: [
                Violation(.coverage, words, at: 90_000_030, lane: 0),
                Violation(.quiescence, words, at: 30_020, lane: 2),
            ])
    }

    /// The JSON in a page.
    private func run(in html: String) throws -> Substring {
        let opened = try #require(html.firstRange(of: "id=\"run\">"))
        let rest = html[opened.upperBound...]
        return rest[..<(try #require(rest.firstRange(of: "</script>")).lowerBound)]
    }

    @Test("Text from a run cannot become markup, and is the same when read again", arguments: ["harmless", attack])
    func embedding(words: String) throws {
        let drawing = Self.drawing(words: words)
        let html = try drawing.html()
        let text = try run(in: html)
        #expect(!text.contains("<"))
        #expect(html.replacing(text, with: "") == Self.page)
        let run = try JSONDecoder().decode(Drawing.self, from: Data(text.utf8))
        #expect(run.title == words && run.subtitle == words)
        #expect(run.epoch == Simulation.epoch)
        #expect(run.trace == drawing.trace)
        #expect(run.violations == drawing.violations)
    }

    @Test("The page refers to no other resource, and allows none")
    func references() {
        let markup = Self.page.replacing("http://www.w3.org/2000/svg", with: "").lowercased()
        for reference in [
            "http:", "https:", "url(\"", "url(h", "@import", "src=", "<link", "<iframe", "<img", "fetch(",
        ] {
            #expect(!markup.contains(reference), "\(reference)")
        }
        #expect(markup.contains("content=\"default-src 'none'; base-uri 'none'; form-action 'none';"))
        #expect(!markup.contains("unsafe-inline"))
    }

    /// The colours of the page by name, for light and dark.
    private var palette: [String: [UInt32]] {
        let found = Self.page.matches(of: #/--(\w+): light-dark\(#(\w{6}), #(\w{6})\);/#)
        return Dictionary(
            uniqueKeysWithValues: found.map { (String($0.1), [$0.2, $0.3].compactMap { UInt32($0, radix: 16) }) })
    }

    /// WCAG 2.2's relative luminance.
    private func luminance(_ color: UInt32) -> Double {
        zip([16, 8, 0] as [UInt32], [0.2126, 0.7152, 0.0722]).reduce(0) { sum, part in
            let channel = Double((color >> part.0) & 0xFF) / 255
            return sum + part.1 * (channel <= 0.04045 ? channel / 12.92 : pow((channel + 0.055) / 1.055, 2.4))
        }
    }

    @Test("Colours have the contrast that WCAG requires, in light and dark mode")
    func contrasts() throws {
        let palette = palette
        func check(_ colors: [String], on grounds: [String], atLeast ratio: Double) throws {
            for (color, ground) in colors.flatMap({ color in grounds.map { (color, $0) } }) {
                for (first, second) in zip(try #require(palette[color]), try #require(palette[ground])) {
                    let (left, right) = (luminance(first), luminance(second))
                    let contrast = (max(left, right) + 0.05) / (min(left, right) + 0.05)
                    #expect(contrast >= ratio, "\(color) on \(ground)")
                }
            }
        }
        #expect(abs(luminance(0xFFFFFF) - 1) < 0.001 && luminance(0) == 0)
        try check(
            ["ink", "soft", "link", "trouble", "danger", "good"], on: ["page", "panel", "pause", "lit", "alarm"],
            atLeast: 4.5)
        try check(
            ["request", "answer", "life"] + (0..<8).map { "b\($0)" }, on: ["page", "panel", "lit", "alarm"], atLeast: 3)
        #expect(palette.count == 22)
    }

    private static let chromium = ProcessInfo.processInfo.environment["PATH"]?.split(separator: ":")
        .map { "\($0)/chromium" }.first { FileManager.default.isExecutableFile(atPath: $0) }

    /// The document that Chromium makes of `html`, and the complaints on its console.
    private func open(_ html: String) throws -> (document: String, console: [Substring]) {
        let folder = try TemporaryFolder()
        try Data(html.utf8).write(to: URL(filePath: folder.path(of: "run.html")))
        let outcome = try RunningProgram(
            URL(filePath: try #require(Self.chromium)),
            [
                "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                "--user-data-dir=\(folder.path)/profile", "--dump-dom", "file://\(folder.path)/run.html",
            ], folder: folder.path
        ).outcome()
        try #require(outcome.exitCode == 0, "\(outcome.error)")
        return (outcome.output, outcome.error.split(separator: "\n").filter { $0.contains("CONSOLE") })
    }

    @Test(
        "A browser lists every event, draws every message and complains about nothing",
        .enabled(if: chromium != nil, "needs chromium in PATH"))
    func drawn() throws {
        let (document, console) = try open(Self.drawing().html())
        #expect(console == [])
        let events = document.matches(of: #/<li class="event [^"]*" id="(e\d+)"/#).map { String($0.1) }
        #expect(events == (0..<21).map { "e\($0)" })
        let times = document.matches(of: #/<td>(\d{4}-[^<]*Z)<\/td>/#).map { String($0.1) }
        #expect(
            times.count == 21 && times.first == "2026-01-01T00:00:00.000Z" && times.last == "2026-01-02T01:00:00.040Z")
        for part in [
            "<g class=\"message lost\" data-k=\"m1\">", "<g class=\"message request\" data-k=\"m2\">",
            "<g class=\"message request repeated\" data-k=\"m2\">", "<g class=\"message underway\" data-k=\"m3\">",
            "sends to remote: read accounts/alice – lost on its way to remote: read accounts/alice",
            "<a href=\"#e9\">quiescence</a>", "<a href=\"#e19\">coverage</a>", "<h2>2 violations</h2>",
            "<b>believes</b> pro until 2026-03-31, active", "<i>… 1 day …</i><b>2026-01-02</b>",
            "<rect class=\"pill b0\"", "<g class=\"band cutOutgoing\"", "<g class=\"band down\"",
            "<g class=\"band wrongClock\"", "<path class=\"healed\"",
        ] { #expect(document.contains(part), "\(part)") }
    }

    @Test(
        "A browser shows hostile text as text, and events of kinds that it does not know as notes",
        .enabled(if: chromium != nil, "needs chromium in PATH"))
    func hostile() throws {
        let html = try Self.drawing(words: Self.attack).html().replacing("{\"note\":", with: "{\"constructor\":")
        let (document, console) = try open(html)
        #expect(console == [])
        #expect(document.contains("<h1>&lt;/title&gt;&lt;/style&gt;&lt;/script&gt;&lt;!--&lt;script&gt;"))
        #expect(!document.contains("<script>alert") && !document.contains("<b onclick"))
        #expect(document.contains("<b>constructor</b> &lt;/title&gt;"))
        #expect(document.contains("&amp;amp;\u{FFFD}\u{FFFD} "))
    }
}
