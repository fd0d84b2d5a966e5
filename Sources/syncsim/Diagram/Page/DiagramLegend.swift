import SyncSimulation

/// The legend, drawn with the same shapes as the diagram.
struct DiagramLegend: Sendable {
    func write(in page: inout Markup) {
        page.element("details", ["class": "legend", "open": ""]) { page in
            page.element("summary", [:], "Legend")
            page.element("ul") { page in
                for (kind, words) in Self.marks { entry(words, in: &page) { mark(kind, in: &$0) } }
                for (name, words) in Self.messages { entry(words, in: &page) { message(name, in: &$0) } }
                for kind in DiagramBand.Kind.allCases {
                    entry(DiagramWording.name(of: kind), in: &page) { band(kind, in: &$0) }
                }
                entry("a bar for each expiry believed: same colour, same date", in: &page) {
                    bar("belief b0", at: 6, in: &$0)
                    bar("belief b1", at: 16, in: &$0)
                }
                entry("hollow: not active", in: &page) { bar("belief b0 idle", at: 11, in: &$0) }
                entry("later, earlier than before", in: &page) { page in
                    page.element("text", ["class": "label", "x": "7", "y": "13"], "\u{25B2} \u{25BC}")
                }
                entry("faults are over", in: &page) { $0.leaf("path", ["class": "healed", "d": "M0 9H30"]) }
            }
        }
    }

    private static let marks: [(TraceEvent.Kind, String)] = [
        (.begun(step: 0, ""), "step begins"),
        (.ended(step: 0, "", isFailure: false), "step done"),
        (.ended(step: 0, "", isFailure: true), "step failed"),
        (.started(process: 0), "process starts"),
        (.crashed(process: 0), "process crashes"),
        (.clockMoved(by: 0), "clock moved"),
        (.storeChanged(""), "store replaced"),
        (.believes(group: "", expires: nil, isActive: true), "expiry read"),
        (.note(""), "note"),
        (.violated(oracle: "", ""), "oracle violated"),
    ]

    private static let messages = [
        ("request", "request"), ("answer", "answer"), ("request repeated", "arrives again"), ("lost", "message lost"),
    ]

    private func entry(_ words: String, in page: inout Markup, _ picture: (inout Markup) -> Void) {
        page.element("li") { page in
            page.element("svg", ["width": "30", "height": "18", "aria-hidden": "true"], picture)
            page.words(words)
        }
    }

    private func mark(_ kind: TraceEvent.Kind, in page: inout Markup) {
        guard let (name, path) = DiagramDrawing.shape(of: kind, at: DiagramPoint(x: 15, y: 9)) else { return }
        page.element("g", ["class": "mark \(name)"]) { page in
            page.leaf("path", ["d": path])
            if case .violated = kind { page.element("text", ["x": "15", "y": "14"], "!") }
        }
    }

    private func message(_ name: String, in page: inout Markup) {
        page.element("g", ["class": "message \(name)"]) { page in
            page.leaf("path", ["class": "shaft", "d": "M1 9H\(name == "lost" ? 22 : 28)"])
            if name == "lost" {
                page.leaf(
                    "path", ["class": "cross", "d": DiagramDrawing.cross(at: DiagramPoint(x: 22, y: 9), reach: 5)])
            } else {
                page.leaf("path", ["class": "tip", "d": "M29 9L20 5.5L20 12.5Z"])
            }
        }
    }

    private func band(_ kind: DiagramBand.Kind, in page: inout Markup) {
        let width = kind == .wrongClock ? 7 : 30
        let left = (30 - width) / 2
        let band = DiagramBand(
            kind: kind, lane: 0, left: left, right: left + width, top: 0, bottom: 18, event: 0)
        page.element("g", ["class": "band \(kind.rawValue)"]) { page in
            page.leaf("rect", ["x": "\(left)", "y": "0", "width": "\(width)", "height": "18"])
            page.leaf("path", ["d": DiagramHatching(band).path])
        }
    }

    private func bar(_ name: String, at x: Int, in page: inout Markup) {
        page.element("g", ["class": "\(name)"]) { page in
            page.leaf("rect", ["x": "\(x)", "y": "1", "width": "8", "height": "16"])
        }
    }
}
