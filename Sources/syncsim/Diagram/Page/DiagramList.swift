import SyncSimulation

/// The rows beside and behind the drawing: times on the left, descriptions on the right.
struct DiagramList: Sendable {
    let story: DiagramStory
    let layout: DiagramLayout

    func write(in page: inout Markup) {
        page.element("ol", ["class": "rows", "aria-label": "Events"]) { page in
            for (number, row) in layout.rows.rows.enumerated() {
                switch row.content {
                case .pause(let length, let next): pause(length, next, row, in: &page)
                case .event(let index): event(index, row, isFirst: number == 1, in: &page)
                }
                page.endLine()
            }
        }
    }

    private func pause(_ length: Int64?, _ next: Int, _ row: DiagramRow, in page: inout Markup) {
        page.element("li", ["class": "pause", "style": "height:\(row.height)px"]) { page in
            page.element("span", ["class": "time"]) { page in
                if let length {
                    page.element("i", [:], "\u{2026} \(DiagramCalendar.length(length)) \u{2026}")
                }
                page.element("b", [:], story.calendar.date(story.events[next].at))
            }
            page.leaf("span", ["class": "words"])
        }
    }

    private func event(_ index: Int, _ row: DiagramRow, isFirst: Bool, in page: inout Markup) {
        let (event, wording) = (story.events[index], DiagramWording(story: story))
        let (kind, sentence) = (wording.kind(of: index), wording.sentence(for: index))
        let lane = story.name(of: event.lane)
        page.element(
            "li",
            [
                "id": "e\(index)", "class": "event \(Self.name(of: event.kind, wording.direction(of: index)))",
                "data-k": story.key(of: index), "style": "height:\(row.height)px", "tabindex": isFirst ? "0" : "-1",
            ]
        ) { page in
            page.element("span", ["class": "time", "title": story.calendar.full(event.at)]) { page in
                if isNewTime(index) { page.words(story.calendar.time(event.at)) }
            }
            page.element("span", ["class": "words", "title": "\(lane) \(kind): \(sentence)"]) { page in
                page.element("span", ["class": "said"]) { page in
                    page.element("em", [:], lane)
                    page.words(" ")
                    page.element("b", [:], kind)
                    page.words(" \(sentence)")
                }
            }
        }
    }

    private func isNewTime(_ index: Int) -> Bool {
        index == 0 || story.events[index - 1].at != story.events[index].at
    }

    private static func name(of kind: TraceEvent.Kind, _ direction: Int) -> String {
        switch kind {
        case .violated: "violated"
        case .healed: "healed"
        case .ended(_, _, true): "failed"
        case .lost, .crashed, .disturbed, .storeChanged, .clockMoved: "trouble"
        case .sent, .arrived: "passing"
        case .believes: direction < 0 ? "believes less" : "believes"
        default: "plain"
        }
    }
}
