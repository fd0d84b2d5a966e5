import SyncSimulation

/// A row of the diagram, in whole pixels from its top.
struct DiagramRow: Hashable, Sendable {
    /// The content of a row.
    enum Content: Hashable, Sendable {
        /// Time without events, or the start of the run (`nil`). The row names the date of the next event.
        case pause(length: Int64?, next: Int)
        /// The event with this index.
        case event(Int)
    }

    var content: Content
    var top: Int
    var height: Int

    var bottom: Int { top + height }
    /// The position of an event's mark or of a pause's line.
    var middle: Int {
        if case .pause = content { top + 11 } else { top + height / 2 }
    }
}

/// The time axis: a row for each event, and one for each pause between bursts.
struct DiagramRows: Sendable {
    private(set) var rows: [DiagramRow] = []
    /// The row of each event.
    private(set) var rowOfEvent: [Int] = []
    private(set) var height = 0

    /// The shortest time without events that gets a row of its own. It is longer than a request's timeout, so an
    /// exchange stays in one burst.
    static let shortestPause: Int64 = 5 * 60_000
    static let eventHeight = 24
    static let violationHeight = 40
    static let healedHeight = 30
    static let beliefHeight = 14
    private static let pauseHeight = 24

    init(_ story: DiagramStory) {
        for (index, event) in story.events.enumerated() {
            if let pause = Self.pause(before: index, in: story) {
                let beliefs = index == 0 ? 0 : max(1, story.groups.count)
                append(.pause(length: pause.length, next: index), Self.pauseHeight + beliefs * Self.beliefHeight)
            }
            rowOfEvent.append(rows.count)
            append(.event(index), Self.height(of: event))
        }
        height += Self.eventHeight / 2
    }

    private static func pause(before index: Int, in story: DiagramStory) -> (length: Int64?, Void)? {
        guard index > 0 else { return (nil, ()) }
        let (before, after) = (story.events[index - 1].at, story.events[index].at)
        let length = DiagramCalendar.difference(from: before, to: after)
        let isNewDay = story.calendar.date(before) != story.calendar.date(after)
        return length >= shortestPause || isNewDay ? (length, ()) : nil
    }

    private static func height(of event: TraceEvent) -> Int {
        switch event.kind {
        case .violated: violationHeight
        case .healed: healedHeight
        default: eventHeight
        }
    }

    private mutating func append(_ content: DiagramRow.Content, _ rowHeight: Int) {
        rows.append(DiagramRow(content: content, top: height, height: rowHeight))
        height += rowHeight
    }

    /// The position of an event's mark.
    func middle(ofEvent index: Int) -> Int { rows[rowOfEvent[index]].middle }

    /// The position at which an element that ends at `time` ends: before the next event, or in the pause before it;
    /// `nil` if the trace ends earlier.
    func position(of time: Int64, in story: DiagramStory) -> Int? {
        guard let next = story.events.firstIndex(where: { $0.at > time }) else { return nil }
        let row = rowOfEvent[next]
        guard row > 0, case .pause = rows[row - 1].content else { return rows[row].top }
        return rows[row - 1].middle
    }
}
