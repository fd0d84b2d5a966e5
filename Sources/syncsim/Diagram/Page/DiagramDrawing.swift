import SyncSimulation

/// Draws lanes, bands, lines, bars, arrows, marks and labels, from back to front.
struct DiagramDrawing: Sendable {
    let story: DiagramStory
    let layout: DiagramLayout

    func draw(in page: inout Markup) {
        for panel in layout.columns.panels { self.panel(panel, in: &page) }
        for row in layout.rows.rows { self.row(row, in: &page) }
        for band in layout.bands { self.band(band, in: &page) }
        for life in layout.lives { self.life(life, in: &page) }
        for belief in layout.beliefs { self.belief(belief, in: &page) }
        for activity in layout.activities { self.activity(activity, in: &page) }
        page.endLine()
        for journey in layout.journeys { self.journey(journey, in: &page) }
        for index in story.events.indices { mark(index, in: &page) }
        page.endLine()
        for label in layout.labels { self.label(label, in: &page) }
    }

    private func panel(_ panel: DiagramPanel, in page: inout Markup) {
        page.leaf(
            "rect",
            [
                "class": "panel", "x": "\(panel.left)", "y": "0", "width": "\(panel.right - panel.left)",
                "height": "\(layout.height)",
            ])
    }

    private func row(_ row: DiagramRow, in page: inout Markup) {
        switch row.content {
        case .pause(let length, _):
            guard length != nil else { return }
            page.leaf("path", ["class": "pause", "d": "M0 \(row.middle)H\(layout.width)"])
        case .event(let index):
            switch story.events[index].kind {
            case .healed: page.leaf("path", ["class": "healed", "d": "M0 \(row.middle)H\(layout.width)"])
            case .violated:
                page.leaf(
                    "rect",
                    [
                        "class": "alarm", "x": "0", "y": "\(row.top)", "width": "\(layout.width)",
                        "height": "\(row.height)",
                    ])
            default: return
            }
        }
    }

    private func band(_ band: DiagramBand, in page: inout Markup) {
        let sentence = DiagramWording(story: story).sentence(for: band.event)
        page.element("g", ["class": "band \(band.kind.rawValue)", "data-k": story.key(of: band.event)]) { page in
            page.element(
                "title", [:], "\(story.name(of: band.lane)), \(DiagramWording.name(of: band.kind)): \(sentence)")
            page.leaf(
                "rect",
                [
                    "x": "\(band.left)", "y": "\(band.top)", "width": "\(band.right - band.left)",
                    "height": "\(band.bottom - band.top)",
                ])
            page.leaf("path", ["d": DiagramHatching(band).path])
        }
    }

    private func life(_ life: DiagramLife, in page: inout Markup) {
        guard let column = layout.columns[life.lane] else { return }
        let kind = story.lanes[life.lane].kind.rawValue
        page.leaf(
            "path",
            [
                "class": "life \(kind)\(life.isAlive ? "" : " dead")",
                "d": "M\(column.line + 4 * life.process) \(life.top)V\(life.bottom)",
            ])
    }

    private func belief(_ belief: DiagramBelief, in page: inout Markup) {
        let words = DiagramWording.expiry(belief.expires, isActive: belief.isActive)
        let width = DiagramColumns.barWidth
        page.element(
            "g",
            ["class": "belief b\(belief.color)\(belief.isActive ? "" : " idle")", "data-k": "e\(belief.event)"]
        ) { page in
            page.element("title", [:], "\(story.name(of: belief.lane)) believes: \(belief.group) \(words)")
            page.leaf(
                "rect",
                [
                    "x": "\(belief.left)", "y": "\(belief.top + 1)", "width": "\(width)",
                    "height": "\(max(1, belief.bottom - belief.top - 2))",
                ])
        }
    }

    private func activity(_ activity: DiagramActivity, in page: inout Markup) {
        guard let column = layout.columns[activity.lane] else { return }
        page.leaf(
            "rect",
            [
                "class": "activity\(activity.isFailure ? " failed" : "")", "data-k": "s\(activity.step)",
                "x": "\(column.line - 3)", "y": "\(activity.top)", "width": "6",
                "height": "\(max(2, activity.bottom - activity.top))",
            ])
    }

    private func label(_ label: DiagramLabel, in page: inout Markup) {
        let x = label.endsRight ? label.right : label.left
        var name = "label"
        switch label.style {
        case .plain: break
        case .failure: name += " failure"
        case .trouble: name += " trouble"
        case .violation:
            name += " violation"
            box("plate", around: label, in: &page)
        case .reminder: name += " reminder"
        case .belief(let color, let isActive):
            name += " belief"
            box("pill b\(color)\(isActive ? "" : " idle")", around: label, in: &page)
        }
        page.element(
            "text",
            [
                "class": name + (label.endsRight ? " end" : ""), "data-k": story.key(of: label.event), "x": "\(x)",
                "y": "\(label.bottom - 3)",
            ], label.text)
    }

    private func box(_ name: String, around label: DiagramLabel, in page: inout Markup) {
        page.leaf(
            "rect",
            [
                "class": name, "x": "\(label.left - 3)", "y": "\(label.top - 1)", "width": "\(label.width + 6)",
                "height": "\(label.height + 2)", "rx": "4",
            ])
    }
}

extension DiagramWording {
    /// The name of a band.
    static func name(of kind: DiagramBand.Kind) -> String {
        TraceEvent.Disturbance(rawValue: kind.rawValue).map { name(of: $0) } ?? "no process runs"
    }
}
