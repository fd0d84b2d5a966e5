/// A trace made ready for drawing: with every violation among its events, and with what belongs together found.
struct DiagramStory: Sendable {
    let lanes: [Trace.Lane]
    let events: [TraceEvent]
    let calendar: DiagramCalendar
    /// The indices of events that tell of violations.
    let violations: [Int]
    /// Groups that somebody believed something about, in the order of their first appearance.
    let groups: [String]
    /// For each message its sending: an index of `events`.
    let sendings: [Int: Int]
    /// The indices of arrivals of messages that had arrived before.
    let repetitions: Set<Int>
    /// For each event the belief that it replaces.
    let predecessors: [Int: Int]

    init(_ trace: Trace, violations: [Violation], epoch: Int64) {
        lanes = trace.lanes
        calendar = DiagramCalendar(epoch: epoch)
        let events = Self.events(of: trace, with: violations)
        self.events = events
        self.violations = events.indices.filter { index in
            if case .violated = events[index].kind { true } else { false }
        }
        var groups: [String] = []
        var sendings: [Int: Int] = [:]
        var arrived: Set<Int> = []
        var repetitions: Set<Int> = []
        var predecessors: [Int: Int] = [:]
        var latest: [Belief: Int] = [:]
        for (index, event) in events.enumerated() {
            switch event.kind {
            case .sent(let message, _, _):
                if sendings[message] == nil { sendings[message] = index }
            case .arrived(let message, _):
                if !arrived.insert(message).inserted { repetitions.insert(index) }
            case .believes(let group, _, _):
                if !groups.contains(group) { groups.append(group) }
                let belief = Belief(lane: event.lane, group: group)
                predecessors[index] = latest[belief]
                latest[belief] = index
            default: break
            }
        }
        self.groups = groups
        self.sendings = sendings
        self.repetitions = repetitions
        self.predecessors = predecessors
    }

    /// Whose belief, and about what.
    private struct Belief: Hashable {
        let lane: Int
        let group: String
    }

    /// The trace's events, and an event after the last one of its time for each violation that is not among them.
    private static func events(of trace: Trace, with violations: [Violation]) -> [TraceEvent] {
        var events = trace.events
        var unclaimed = trace.events
        for violation in violations {
            let event = TraceEvent(
                at: violation.at, lane: violation.lane,
                .violated(oracle: violation.oracle.rawValue, violation.message))
            if let found = unclaimed.firstIndex(of: event) {
                unclaimed.remove(at: found)
            } else {
                events.insert(event, at: events.firstIndex { $0.at > event.at } ?? events.endIndex)
            }
        }
        return events
    }

    /// The lane's name, or what to say of a lane that the trace does not have.
    func name(of lane: Int) -> String {
        lanes.indices.contains(lane) ? lanes[lane].name : "lane \(lane)"
    }

    /// Whether a belief says something other than the one before it.
    func isChange(_ index: Int) -> Bool {
        guard let previous = predecessors[index] else { return true }
        return events[previous].kind != events[index].kind
    }

    /// What an event shares with the events that belong to it: the same message, the same step, or nothing but itself.
    func key(of index: Int) -> String {
        switch events[index].kind {
        case .begun(let step, _), .ended(let step, _, _): "s\(step)"
        case .sent(let message, _, _), .arrived(let message, _), .lost(let message, _): "m\(message)"
        default: "e\(index)"
        }
    }
}
