import SyncSimulation

extension DiagramDrawing {
    /// Draws an arrow. It is dashed if the network repeated the message, and ends in a cross before its target if the
    /// message was lost.
    func journey(_ journey: DiagramJourney, in page: inout Markup) {
        let name: String
        switch journey.end {
        case .arrived: name = journey.isAnswer ? "answer" : "request"
        case .repeated: name = (journey.isAnswer ? "answer" : "request") + " repeated"
        case .lost: name = "lost"
        case .underWay: name = "underway"
        }
        page.element("g", ["class": "message \(name)", "data-k": "m\(journey.message)"]) { page in
            page.element("title", [:], title(of: journey))
            let line = journey.from == journey.to ? Self.loop(journey) : Self.straight(journey)
            page.leaf("path", ["class": "reach", "d": line])
            page.leaf("path", ["class": "shaft", "d": line])
            switch journey.end {
            case .arrived, .repeated: page.leaf("path", ["class": "tip", "d": Self.tip(journey)])
            case .lost: page.leaf("path", ["class": "cross", "d": Self.cross(at: journey.finish, reach: 5)])
            case .underWay: break
            }
        }
    }

    private func title(of journey: DiagramJourney) -> String {
        let wording = DiagramWording(story: story)
        let sending = "\(story.name(of: journey.from)) sends \(wording.sentence(for: journey.sending))"
        guard let ending = journey.ending else { return sending + " \u{2013} still under way" }
        return sending + " \u{2013} \(wording.kind(of: ending)) \(wording.sentence(for: ending))"
    }

    private static func straight(_ journey: DiagramJourney) -> String {
        "M\(journey.start.x) \(journey.start.y)L\(journey.finish.x) \(journey.finish.y)"
    }

    /// A message to its own lane.
    private static func loop(_ journey: DiagramJourney) -> String {
        let (start, finish) = (journey.start, journey.finish)
        return "M\(start.x) \(start.y)C\(start.x + 30) \(start.y) \(finish.x + 30) \(finish.y) \(finish.x) \(finish.y)"
    }

    private static let tipLength = 9.0
    private static let tipWidth = 3.5
    /// The distance between the tip and the centre of the target's line.
    private static let clearance = 2.0

    private static func tip(_ journey: DiagramJourney) -> String {
        let isLoop = journey.from == journey.to
        let dx = isLoop ? -1 : Double(journey.finish.x - journey.start.x)
        let dy = isLoop ? 0 : Double(journey.finish.y - journey.start.y)
        let length = (dx * dx + dy * dy).squareRoot()
        guard length > 0 else { return "" }
        let (ux, uy) = (dx / length, dy / length)
        let (x, y) = (Double(journey.finish.x) - clearance * ux, Double(journey.finish.y) - clearance * uy)
        let (backX, backY) = (x - tipLength * ux, y - tipLength * uy)
        return "M\(tenths(x)) \(tenths(y))"
            + "L\(tenths(backX - tipWidth * uy)) \(tenths(backY + tipWidth * ux))"
            + "L\(tenths(backX + tipWidth * uy)) \(tenths(backY - tipWidth * ux))Z"
    }

    static func cross(at point: DiagramPoint, reach: Int) -> String {
        let (left, right) = (point.x - reach, point.x + reach)
        let (top, bottom) = (point.y - reach, point.y + reach)
        return "M\(left) \(top)L\(right) \(bottom)M\(left) \(bottom)L\(right) \(top)"
    }

    /// A number with one decimal digit, formatted the same on every platform.
    static func tenths(_ number: Double) -> String {
        let tenths = Int((number * 10).rounded())
        let sign = tenths < 0 ? "-" : ""
        return "\(sign)\(tenths.magnitude / 10).\(tenths.magnitude % 10)"
    }
}
