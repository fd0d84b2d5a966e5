import SyncSimulation

/// The path of a message from one lane to another.
struct DiagramJourney: Hashable, Sendable {
    /// The end of a path.
    enum End: Hashable, Sendable {
        case arrived
        /// A repeated arrival.
        case repeated
        case lost
        /// The trace ends before the message arrives.
        case underWay
    }

    var message: Int
    var end: End
    var from: Int
    var to: Int
    var isAnswer: Bool
    var start: DiagramPoint
    var finish: DiagramPoint
    /// Indices of events.
    var sending: Int
    var ending: Int?
}

/// Whole pixels from the top left corner of the lanes.
struct DiagramPoint: Hashable, Sendable {
    var x: Int
    var y: Int
}

extension DiagramJourney {
    /// All journeys of a story, in the order of their ends. Messages that are still under way come last.
    static func all(in story: DiagramStory, _ columns: DiagramColumns, _ rows: DiagramRows) -> [DiagramJourney] {
        var journeys: [DiagramJourney] = []
        var ended: Set<Int> = []
        for (index, event) in story.events.enumerated() {
            let end: End
            let message: Int
            switch event.kind {
            case .arrived(let id, _): (message, end) = (id, ended.contains(id) ? .repeated : .arrived)
            case .lost(let id, _): (message, end) = (id, .lost)
            default: continue
            }
            guard let sending = story.sendings[message], sending < index,
                var journey = begin(sending, message, story, columns, rows)
            else { continue }
            ended.insert(message)
            journey.end = end
            journey.ending = index
            journey.finish.y = rows.middle(ofEvent: index)
            if end == .lost, let target = columns[journey.to] {
                journey.finish.x = target.end(ofLostFrom: journey.start.x)
            }
            journeys.append(journey)
        }
        for (index, event) in story.events.enumerated() {
            guard case .sent(let message, _, _) = event.kind, story.sendings[message] == index,
                !ended.contains(message), var journey = begin(index, message, story, columns, rows)
            else { continue }
            journey.finish.x = (2 * journey.start.x + journey.finish.x) / 3
            journey.finish.y += DiagramRows.eventHeight / 2
            journeys.append(journey)
        }
        return journeys
    }

    private static func begin(
        _ sending: Int, _ message: Int, _ story: DiagramStory, _ columns: DiagramColumns, _ rows: DiagramRows
    ) -> DiagramJourney? {
        let event = story.events[sending]
        guard case .sent(_, let target, _) = event.kind, let from = columns[event.lane], let to = columns[target]
        else { return nil }
        let y = rows.middle(ofEvent: sending)
        return DiagramJourney(
            message: message, end: .underWay, from: event.lane, to: target,
            isAnswer: story.lanes[event.lane].kind != .replica, start: DiagramPoint(x: from.line, y: y),
            finish: DiagramPoint(x: to.line, y: y), sending: sending, ending: nil)
    }
}
