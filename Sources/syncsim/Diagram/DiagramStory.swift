import SyncSimulation

/// A trace prepared for drawing: violations are merged into the events, and related events are linked.
struct DiagramStory: Sendable {
    let lanes: [Trace.Lane]
    let events: [TraceEvent]
    let calendar: DiagramCalendar
    /// The indices of the violation events.
    let violations: [Int]
    /// The groups with at least one believed expiry, in the order of their first appearance.
    let groups: [String]
    /// The index in `events` of each message's sending.
    let sendings: [Int: Int]
    /// The indices of repeated arrivals of a message.
    let repetitions: Set<Int>
    /// For each belief event, the one that it replaces.
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

    /// The replica and the group that a belief is about.
    private struct Belief: Hashable {
        let lane: Int
        let group: String
    }

    /// The trace's events, with an event for each violation that is not among them, after the last event of the same
    /// time.
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

    /// The lane's name, or a placeholder for a lane that is not in the trace.
    func name(of lane: Int) -> String {
        lanes.indices.contains(lane) ? lanes[lane].name : "lane \(lane)"
    }

    /// Returns `true` if a belief differs from the one before it.
    func isChange(_ index: Int) -> Bool {
        guard let previous = predecessors[index] else { return true }
        return events[previous].kind != events[index].kind
    }

    /// The key shared by related events: those of one message or of one step. Other events have a key of their own.
    func key(of index: Int) -> String {
        switch events[index].kind {
        case .begun(let step, _), .ended(let step, _, _): "s\(step)"
        case .sent(let message, _, _), .arrived(let message, _), .lost(let message, _): "m\(message)"
        default: "e\(index)"
        }
    }
}
