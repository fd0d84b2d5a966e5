import SyncSimulation

/// The page around the drawing: heading, violations, legend, the list of events and the table of events.
struct DiagramPage: Sendable {
    let title: String
    let subtitle: String
    let story: DiagramStory
    let layout: DiagramLayout

    /// The whole page.
    var html: String {
        var page = Markup()
        page.verbatim("<!DOCTYPE html>\n")
        page.element("html", ["lang": "en"]) { page in
            page.element("head") { head(in: &$0) }
            page.endLine()
            page.element("body") { body(in: &$0) }
        }
        page.endLine()
        return page.text
    }

    private func head(in page: inout Markup) {
        page.leaf("meta", ["charset": "utf-8"], isVoid: true)
        // Allows only the inline style and script; nothing is loaded or sent.
        page.leaf(
            "meta",
            [
                "http-equiv": "Content-Security-Policy",
                "content": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                    + "base-uri 'none'; form-action 'none'",
            ], isVoid: true)
        page.leaf("meta", ["name": "viewport", "content": "width=device-width, initial-scale=1"], isVoid: true)
        page.leaf("meta", ["name": "color-scheme", "content": "light dark"], isVoid: true)
        page.element("title", [:], title)
        page.endLine()
        page.element("style") { page in
            page.verbatim("\n")
            page.words(DiagramPalette.style)
            page.verbatim(DiagramStyle.page)
            page.verbatim(DiagramStyle.drawing)
        }
    }

    private func body(in page: inout Markup) {
        page.element("header", ["class": "top"]) { page in
            page.element("div", ["class": "heading"]) { page in
                page.element("h1", [:], title)
                page.verbatim("<button id=\"theme\" type=\"button\" hidden>Dark</button>")
            }
            page.element("p", ["class": "subtitle"], subtitle)
            page.element("p", ["class": "summary"], summary)
            violations(in: &page)
            DiagramLegend().write(in: &page)
        }
        page.endLine()
        page.element("main", ["style": "--lanes:\(layout.width)px"]) { page in
            laneHeads(in: &page)
            page.element("div", ["class": "body"]) { page in
                drawing(in: &page)
                DiagramList(story: story, layout: layout).write(in: &page)
            }
        }
        page.endLine()
        table(in: &page)
        page.verbatim("<p id=\"full\" role=\"status\" hidden></p>\n")
        page.element("script") { $0.verbatim(DiagramScript.text) }
    }

    private func violations(in page: inout Markup) {
        guard !story.violations.isEmpty else {
            page.element("p", ["class": "held"], "No oracle was violated.")
            return
        }
        page.element("section", ["class": "violations", "aria-label": "Violations"]) { page in
            let count = story.violations.count
            page.element("h2", [:], count == 1 ? "1 violation" : "\(count) violations")
            page.element("ol") { page in
                for index in story.violations { violation(index, in: &page) }
            }
        }
    }

    private func violation(_ index: Int, in page: inout Markup) {
        let event = story.events[index]
        guard case .violated(let oracle, let message) = event.kind else { return }
        page.element("li") { page in
            page.element("a", ["href": "#e\(index)"], oracle)
            page.element("span", [:], " \(message) ")
            page.element(
                "small", [:],
                "\(story.name(of: event.lane)), \(story.calendar.date(event.at)) \(story.calendar.time(event.at))")
        }
    }

    private func laneHeads(in page: inout Markup) {
        page.element("div", ["class": "heads"]) { page in
            page.element("span", ["class": "corner"], "Time (UTC)")
            page.element("div", ["class": "lanes"]) { page in
                for panel in layout.columns.panels {
                    page.element(
                        "div", ["class": "panel", "style": "left:\(panel.left)px;width:\(panel.right - panel.left)px"]
                    ) { page in
                        for lane in panel.lanes {
                            let (kind, name) = (story.lanes[lane].kind.rawValue, story.lanes[lane].name)
                            page.element("span", ["class": kind, "title": name], name)
                        }
                    }
                }
            }
            page.element("span", ["class": "corner words"], "What happened")
        }
    }

    private func drawing(in page: inout Markup) {
        page.element(
            "svg",
            [
                "role": "img", "aria-labelledby": "drawing-title drawing-text", "width": "\(layout.width)",
                "height": "\(layout.height)", "viewBox": "0 0 \(layout.width) \(layout.height)",
            ]
        ) { page in
            page.element("title", ["id": "drawing-title"], "Space-time diagram: \(title)")
            page.element(
                "desc", ["id": "drawing-text"], summary + " The list and the table describe the events in words.")
            page.endLine()
            DiagramDrawing(story: story, layout: layout).draw(in: &page)
        }
        page.endLine()
    }

    private func table(in page: inout Markup) {
        let wording = DiagramWording(story: story)
        page.element("details", ["class": "table"]) { page in
            page.element("summary", [:], "All events as a table")
            page.element("table") { page in
                page.verbatim("<thead><tr><th>No.<th>Time (UTC)<th>Lane<th>Event<th>What happened</thead>")
                page.element("tbody") { page in
                    for (index, event) in story.events.enumerated() {
                        page.endLine()
                        page.element("tr") { page in
                            page.element("td", [:], "\(index + 1)")
                            page.element("td", [:], story.calendar.full(event.at))
                            page.element("td", [:], story.name(of: event.lane))
                            page.element("td", [:], wording.kind(of: index))
                            page.element("td", [:], wording.sentence(for: index))
                        }
                    }
                }
            }
        }
        page.endLine()
    }

    /// The numbers of the run in one sentence.
    private var summary: String {
        let devices = story.lanes.count { $0.kind == .replica }
        let lost = layout.journeys.count { $0.end == .lost }
        let crashes = story.events.count { event in
            if case .crashed = event.kind { true } else { false }
        }
        var words = "\(devices) replica\(devices == 1 ? "" : "s"), \(story.events.count) events"
        if let first = story.events.first, let last = story.events.last {
            words += " from \(story.calendar.date(first.at)) to \(story.calendar.date(last.at))"
        }
        words += ", \(story.sendings.count) messages (\(lost) lost), \(crashes) crash\(crashes == 1 ? "" : "es"), "
        return words + "\(story.violations.count) violation\(story.violations.count == 1 ? "" : "s")."
    }
}
