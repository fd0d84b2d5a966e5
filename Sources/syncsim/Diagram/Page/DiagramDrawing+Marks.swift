import SyncSimulation

extension DiagramDrawing {
    /// Draws the mark of an event on its lane. Marks differ in shape, so they can be distinguished without colour.
    func mark(_ index: Int, in page: inout Markup) {
        let event = story.events[index]
        guard let column = layout.columns[event.lane],
            let (name, path) = Self.shape(of: event.kind, at: at(index, column))
        else { return }
        page.element("g", ["class": "mark \(name)", "data-k": story.key(of: index)]) { page in
            let wording = DiagramWording(story: story)
            page.element(
                "title", [:],
                "\(story.calendar.full(event.at)) \(story.name(of: event.lane)) \(wording.kind(of: index)): "
                    + wording.sentence(for: index))
            page.leaf("path", ["d": path])
            if case .violated = event.kind {
                let point = at(index, column)
                page.element("text", ["x": "\(point.x)", "y": "\(point.y + 5)"], "!")
            }
        }
    }

    private func at(_ index: Int, _ column: DiagramColumn) -> DiagramPoint {
        var x = column.line
        switch story.events[index].kind {
        case .started(let process), .crashed(let process): x += 4 * process
        default: break
        }
        return DiagramPoint(x: x, y: layout.rows.middle(ofEvent: index))
    }

    /// The class and the path of a mark; `nil` for events drawn as an arrow's end, a bar or a rule.
    static func shape(of kind: TraceEvent.Kind, at point: DiagramPoint) -> (name: String, path: String)? {
        let (x, y) = (point.x, point.y)
        switch kind {
        case .begun: return ("begun", "M\(x - 4) \(y - 5)L\(x + 6) \(y)L\(x - 4) \(y + 5)Z")
        case .ended(_, _, let isFailure):
            return isFailure
                ? ("failed", "M\(x) \(y - 7)L\(x + 7) \(y)L\(x) \(y + 7)L\(x - 7) \(y)Z")
                : ("done", circle(at: point, radius: 4))
        case .sent: return ("sent", circle(at: point, radius: 2))
        case .started: return ("started", "M\(x - 5) \(y - 4)H\(x + 5)L\(x) \(y + 5)Z")
        case .crashed: return ("crashed", square(at: point, reach: 6) + cross(at: point, reach: 4))
        case .disturbed: return ("disturbed", "M\(x - 6) \(y + 4)V\(y)H\(x + 6)V\(y + 4)")
        case .clockMoved: return ("clock", circle(at: point, radius: 5) + "M\(x) \(y - 3)V\(y)H\(x + 3)")
        case .storeChanged:
            return ("store", square(at: point, reach: 5) + "M\(x - 5) \(y - 1)H\(x + 5)M\(x - 5) \(y + 2)H\(x + 5)")
        case .violated:
            return (
                "violated",
                "M\(x - 5) \(y - 12)H\(x + 5)L\(x + 12) \(y - 5)V\(y + 5)L\(x + 5) \(y + 12)"
                    + "H\(x - 5)L\(x - 12) \(y + 5)V\(y - 5)Z"
            )
        case .note: return ("note", circle(at: point, radius: 3))
        case .believes: return ("look", "M\(x - 3) \(y)H\(x + 3)")
        case .arrived, .lost, .healed: return nil
        }
    }

    private static func circle(at point: DiagramPoint, radius: Int) -> String {
        let (x, y) = (point.x - radius, point.y)
        return "M\(x) \(y)a\(radius) \(radius) 0 1 0 \(2 * radius) 0a\(radius) \(radius) 0 1 0 \(-2 * radius) 0Z"
    }

    private static func square(at point: DiagramPoint, reach: Int) -> String {
        "M\(point.x - reach) \(point.y - reach)h\(2 * reach)v\(2 * reach)h\(-2 * reach)Z"
    }
}
