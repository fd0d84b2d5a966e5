import SyncSimulation
import Testing

@testable import syncsim

@Suite("A space-time diagram")
struct SpaceTimeDiagramTests {
    private func page(
        _ trace: Trace, title: String = "Seed 1", subtitle: String = "rules", _ violations: [Violation] = []
    ) -> String {
        SpaceTimeDiagram(
            trace, title: title, subtitle: subtitle, violations: violations, epoch: ExampleTraces.epoch
        ).html
    }

    @Test("Equal traces give equal pages, whatever the order of sets", arguments: [1, 2, 3] as [UInt64])
    func determinism(seed: UInt64) {
        let first = page(RandomTrace(seed: seed, replicas: 5, count: 200).trace)
        #expect(first == page(RandomTrace(seed: seed, replicas: 5, count: 200).trace), "seed \(seed)")
        #expect(first != page(RandomTrace(seed: seed + 10, replicas: 5, count: 200).trace), "seed \(seed)")
    }

    @Test("The page refers to no external resource", arguments: [1, 2, 3] as [UInt64])
    func references(seed: UInt64) {
        let text = page(RandomTrace(seed: seed, replicas: 5, count: 200).trace).lowercased()
        for reference in ["http:", "https:", "//cdn", "url(", "@import", "src=", "<link", "<iframe", "<img", "srcset"] {
            let isThere = text.contains(reference)
            #expect(!isThere, "\(reference)")
        }
        let forbidsAll = text.contains("content=\"default-src &#39;none&#39;; ")
        #expect(forbidsAll)
        let targets = text.matches(of: #/href="([^"]*)"/#).map { String($0.1) }
        #expect(targets.allSatisfy { $0.hasPrefix("#") })
    }

    @Test("On a phone only the diagram scrolls sideways")
    func phone() throws {
        let text = try page(ExampleTraces.lostTime().trace)
        #expect(text.contains("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"))
        let rules = try #require(text.split(separator: "@media (max-width:700px){").last)
        #expect(rules.hasPrefix("body{width:auto}"))
        #expect(rules.contains("overflow:auto;max-height:82vh"))
    }

    private static let attack =
        "</title></style></script>\"'><script>alert(1)</script><b onclick='x'>&amp;\u{202E}\u{0}\n"

    @Test("Text from any source is escaped")
    func escaping() {
        let attack = Self.attack
        let kinds: [TraceEvent.Kind] = [
            .begun(step: 1, attack), .ended(step: 1, attack, isFailure: true), .sent(message: 1, to: 2, attack),
            .arrived(message: 1, attack), .lost(message: 1, attack), .disturbed(.full, until: 50, attack),
            .believes(group: attack, expires: 5, isActive: true), .believes(group: "b", expires: nil, isActive: false),
            .storeChanged(attack), .violated(oracle: attack, attack), .note(attack),
        ]
        func trace(_ words: String) -> Trace {
            Trace(
                lanes: [
                    Trace.Lane(.replica, name: words), Trace.Lane(.localStore, name: words),
                    Trace.Lane(.remote, name: words),
                ], events: kinds.map { TraceEvent(at: 0, lane: 0, $0) })
        }
        func page(_ words: String) -> String {
            self.page(
                trace(words), title: words, subtitle: words, [Violation(.errors, words, at: 0, lane: 1)])
        }
        let text = page(attack)
        for pattern in ["<script>alert", "<b onclick", "'x'", "\u{202E}", "\u{0}"] {
            let isThere = text.contains(pattern)
            #expect(!isThere, "\(pattern)")
        }
        // Escaped text adds no element and no attribute: the counts equal those of harmless text.
        let harmless = page("harmless")
        for character in ["<", ">", "\""] as [Character] {
            #expect(text.count { $0 == character } == harmless.count { $0 == character }, "\(character)")
        }
        let shown = "&lt;script&gt;alert(1)&lt;/script&gt;&lt;b onclick=&#39;x&#39;&gt;&amp;amp;\u{FFFD}\u{FFFD} "
        let isShown = text.contains(shown)
        #expect(isShown)
    }

    @Test("Every violation is linked to its event, including those that are missing in the trace")
    func violations() throws {
        var (trace, violations) = try ExampleTraces.lostTime()
        violations.append(Violation(.quiescence, "device 2 still writes", at: 10 * ExampleTraces.day, lane: 2))
        let text = page(trace, violations)
        let story = DiagramStory(trace, violations: violations, epoch: ExampleTraces.epoch)
        #expect(story.events.count == trace.events.count + 1)
        #expect(story.violations.count == 2)
        for index in story.violations {
            guard case .violated(let oracle, let message) = story.events[index].kind else {
                Issue.record("event \(index) is not a violation")
                continue
            }
            #expect(text.contains("<a href=\"#e\(index)\">\(oracle)</a><span> \(message) </span>"))
            #expect(text.contains("<li id=\"e\(index)\" class=\"event violated\""))
        }
        #expect(story.events[story.violations[0]].at == 10 * ExampleTraces.day)
        #expect(text.contains("2 violations"))
        trace.events.removeAll { if case .violated = $0.kind { true } else { false } }
        #expect(page(trace).contains("No oracle was violated."))
    }

    @Test("A violation in both the trace and the outcome is listed once")
    func sameViolation() throws {
        let (trace, violations) = try ExampleTraces.lostTime()
        #expect(DiagramStory(trace, violations: violations, epoch: 0).events == trace.events)
    }

    @Test("The table lists every event with its full time")
    func table() throws {
        let (trace, violations) = try ExampleTraces.lostTime()
        let text = page(trace, violations)
        let body = try #require(text.split(separator: "<tbody>").last?.split(separator: "</tbody>").first)
        #expect(body.matches(of: #/<tr>/#).count == trace.events.count)
        #expect(
            body.contains("<td>2026-01-10T09:00:00.009Z</td><td>device 1</td><td>lost</td><td>on its way to remote"))
    }

    @Test("A lost message has a cross, and a repeated one is dashed")
    func shapes() {
        let trace = Trace(
            lanes: ExampleTraces.lanes(replicas: 1),
            events: [
                TraceEvent(at: 0, lane: 0, .sent(message: 1, to: 2, "write")),
                TraceEvent(at: 1, lane: 2, .arrived(message: 1, "write")),
                TraceEvent(at: 2, lane: 2, .arrived(message: 1, "write")),
                TraceEvent(at: 2, lane: 2, .sent(message: 2, to: 0, "written")),
                TraceEvent(at: 2, lane: 2, .lost(message: 2, "the answer is lost")),
            ])
        let text = page(trace)
        #expect(text.contains("<g class=\"message request\" data-k=\"m1\">"))
        #expect(text.contains("<g class=\"message request repeated\" data-k=\"m1\">"))
        #expect(text.contains("receives</b> again from device 1: write"))
        #expect(text.contains("<g class=\"message lost\" data-k=\"m2\">"))
        #expect(text.contains("remote sends to device 1: written – lost on its way to device 1: the answer is lost"))
    }

    @Test("Pauses show how much time passes between bursts")
    func pauses() throws {
        let text = page(try ExampleTraces.lostTime().trace)
        #expect(text.contains("<i>… 8 days …</i><b>2026-01-09</b>"))
        #expect(text.contains("<i>… 3 days 9 h …</i><b>2026-01-13</b>"))
    }
}

@Suite("Times and lengths in a diagram")
struct DiagramCalendarTests {
    @Test(
        "Durations are shown in their two largest units",
        arguments: [
            (0, "0 ms"), (999, "999 ms"), (1_000, "1 s"), (61_500, "1 min 1 s"), (3_600_000, "1 h"),
            (86_400_000, "1 day"), (90_000_000, "1 day 1 h"), (1_036_800_000, "12 days"), (-3_660_000, "1 h 1 min"),
            (.min, "106751991167 days 7 h"),
        ] as [(Int64, String)])
    func lengths(milliseconds: Int64, words: String) {
        #expect(DiagramCalendar.length(milliseconds) == words)
    }

    @Test("Moves of a clock have a sign")
    func shifts() {
        #expect(DiagramCalendar.shift(-86_400_000) == "−1 d")
        #expect(DiagramCalendar.shift(5_000) == "+5 s")
    }

    @Test("Extreme times are clamped")
    func range() {
        let calendar = DiagramCalendar(epoch: .max)
        #expect(calendar.full(5) == "9999-12-31T23:59:59.999Z")
        #expect(DiagramCalendar(epoch: .min).full(-5) == "0001-01-01T00:00:00.000Z")
        #expect(DiagramCalendar.difference(from: .min, to: .max) == .max)
        #expect(DiagramCalendar(epoch: ExampleTraces.epoch).minute(9 * 3_600_000) == "2026-01-01 09:00")
    }
}

@Suite("The colours of a diagram")
struct DiagramPaletteTests {
    /// WCAG 2.2's contrast ratio of two colours.
    private func contrast(_ first: UInt32, _ second: UInt32) -> Double {
        let (left, right) = (luminance(first), luminance(second))
        return (max(left, right) + 0.05) / (min(left, right) + 0.05)
    }

    /// WCAG 2.2's relative luminance, with the power of 2.4 as a product: x^2.4 = x² · (x^(1/5))².
    private func luminance(_ color: UInt32) -> Double {
        zip([16, 8, 0] as [UInt32], [0.2126, 0.7152, 0.0722]).reduce(0) { sum, part in
            let channel = Double((color >> part.0) & 0xFF) / 255
            let base = (channel + 0.055) / 1.055
            let root = fifthRoot(base)
            return sum + part.1 * (channel <= 0.04045 ? channel / 12.92 : base * base * root * root)
        }
    }

    private func fifthRoot(_ number: Double) -> Double {
        var root = 1.0
        for _ in 0..<60 { root -= (root * root * root * root * root - number) / (5 * root * root * root * root) }
        return root
    }

    @Test("Colours have the contrast that WCAG requires, in light and dark mode")
    func contrasts() {
        #expect(abs(contrast(0x000000, 0xFFFFFF) - 21) < 0.001)
        for ground in DiagramPalette.grounds {
            for ink in DiagramPalette.inks {
                #expect(contrast(ink.light, ground.light) >= 4.5, "\(ink.name) on \(ground.name), light")
                #expect(contrast(ink.dark, ground.dark) >= 4.5, "\(ink.name) on \(ground.name), dark")
            }
        }
        for ground in DiagramPalette.grounds where ["page", "panel", "alarm", "lit"].contains(ground.name) {
            for shape in DiagramPalette.shapes {
                #expect(contrast(shape.light, ground.light) >= 3, "\(shape.name) on \(ground.name), light")
                #expect(contrast(shape.dark, ground.dark) >= 3, "\(shape.name) on \(ground.name), dark")
            }
        }
    }

    @Test("Each distinguishable expiry has a colour")
    func bars() {
        let bars = DiagramPalette.shapes.filter { $0.name.hasPrefix("b") }
        #expect(bars.map(\.name) == (0..<DiagramBelief.colorCount).map { "b\($0)" })
        #expect(DiagramPalette.style.contains("--b7:#2b3a4a;"))
    }
}
