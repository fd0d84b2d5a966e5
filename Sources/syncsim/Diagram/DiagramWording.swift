import SyncSimulation

/// The texts for an event: a sentence for the list, and a short label for the lane.
struct DiagramWording: Sendable {
    let story: DiagramStory

    /// The kind of event in a word or two.
    func kind(of index: Int) -> String {
        switch story.events[index].kind {
        case .begun: "begins"
        case .ended(_, _, let isFailure): isFailure ? "fails" : "done"
        case .sent: "sends"
        case .arrived: "receives"
        case .lost: "lost"
        case .started: "starts"
        case .crashed: "crashes"
        case .disturbed: "disturbed"
        case .believes: "believes"
        case .clockMoved: "clock"
        case .storeChanged: "store"
        case .healed: "healed"
        case .violated: "violated"
        case .note: "note"
        }
    }

    /// The event in full.
    func sentence(for index: Int) -> String {
        let event = story.events[index]
        switch event.kind {
        case .begun(_, let words), .ended(_, let words, _), .storeChanged(let words), .note(let words): return words
        case .sent(_, let target, let words): return "to \(story.name(of: target)): \(words)"
        case .arrived(let message, let words):
            let again = story.repetitions.contains(index) ? "again " : ""
            return "\(again)\(origin(of: message)): \(words)"
        case .lost(let message, let words): return "\(destination(of: message)): \(words)"
        case .started(let process): return "process \(process)"
        case .crashed(let process): return "process \(process)"
        case .disturbed(let disturbance, let end, let words):
            return "\(Self.name(of: disturbance)) until \(story.calendar.minute(end)): \(words)"
        case .believes: return belief(index)
        case .clockMoved(let amount): return "moved by \(DiagramCalendar.shift(amount))"
        case .healed: return "faults are over"
        case .violated(let oracle, let words): return "\(oracle): \(words)"
        }
    }

    /// The label beside the event's mark; `nil` if the drawing needs none.
    func label(for index: Int) -> String? {
        switch story.events[index].kind {
        case .begun(_, let words), .ended(_, let words, _), .storeChanged(let words), .note(let words): words
        case .lost(_, let words): words
        case .started(let process): "starts" + suffix(process)
        case .crashed(let process): "crashes" + suffix(process)
        case .disturbed(let disturbance, _, _): Self.name(of: disturbance)
        case .believes(let group, let expires, let isActive):
            story.isChange(index) ? beliefLabel(index, group, expires, isActive) : nil
        case .clockMoved(let amount): DiagramCalendar.shift(amount)
        case .violated(let oracle, let words): "\(oracle): \(words)"
        case .sent, .arrived, .healed: nil
        }
    }

    /// The name of a disturbance.
    static func name(of disturbance: TraceEvent.Disturbance) -> String {
        switch disturbance {
        case .cutOutgoing: "cut outgoing"
        case .cutIncoming: "cut incoming"
        case .full: "full"
        case .wrongClock: "wrong clock"
        }
    }

    /// An expiry in as few characters as possible.
    static func expiry(_ expires: Int64?, isActive: Bool) -> String {
        guard let expires else { return isActive ? "never ends" : "nothing" }
        return (isActive ? "until " : "ended ") + DiagramCalendar.date(since1970: expires)
    }

    private func suffix(_ process: Int) -> String { process == 0 ? "" : " (\(process))" }

    private func origin(of message: Int) -> String {
        guard let sending = story.sendings[message] else { return "from an unknown sender" }
        return "from \(story.name(of: story.events[sending].lane))"
    }

    private func destination(of message: Int) -> String {
        guard let sending = story.sendings[message], case .sent(_, let target, _) = story.events[sending].kind
        else { return "on its way" }
        return "on its way to \(story.name(of: target))"
    }

    /// The direction in which an active expiry moved: 1 for later, −1 for earlier, 0 if there is nothing to compare.
    func direction(of index: Int) -> Int {
        guard case .believes(_, let new, true) = story.events[index].kind, let previous = story.predecessors[index],
            case .believes(_, let old, true) = story.events[previous].kind
        else { return 0 }
        let (left, right) = (old ?? .max, new ?? .max)
        return left == right ? 0 : (left < right ? 1 : -1)
    }

    /// An expiry on a lane: only the date if it is active. With several groups, an inactive expiry has no room for its
    /// date.
    func shortExpiry(_ expires: Int64?, isActive: Bool, group: String) -> String {
        let full = Self.expiry(expires, isActive: isActive)
        guard isActive else { return story.groups.count > 1 ? Self.short(group) + " ended" : full }
        let date = expires.map { DiagramCalendar.date(since1970: $0) } ?? full
        return story.groups.count > 1 ? "\(Self.short(group)) \(date)" : date
    }

    private func beliefLabel(_ index: Int, _ group: String, _ expires: Int64?, _ isActive: Bool) -> String {
        let arrow = ["\u{25BC}", "", "\u{25B2}"][direction(of: index) + 1]
        return arrow + shortExpiry(expires, isActive: isActive, group: group)
    }

    /// The last component of a group's name, cut to five characters.
    private static func short(_ group: String) -> String {
        DiagramLabel.fit(group.split(separator: ".").last.map(String.init) ?? group, cells: 5).text
    }

    private func belief(_ index: Int) -> String {
        guard case .believes(let group, let expires, let isActive) = story.events[index].kind else { return "" }
        var words = "\(group) " + Self.expiry(expires, isActive: isActive) + (isActive ? ", active" : ", not active")
        guard let previous = story.predecessors[index], case .believes(_, let old, _) = story.events[previous].kind
        else { return words }
        if !story.isChange(index) {
            words += " (as before)"
        } else if let old, let expires, old != expires {
            let change = DiagramCalendar.difference(from: old, to: expires)
            words += " (\(DiagramCalendar.length(change)) \(change < 0 ? "less" : "more") than before)"
        }
        return words
    }
}
