import Entitlements

extension Trace {
    /// The trace as text, one line for each event: time, lane and description. Equal traces give equal text.
    ///
    /// ```
    /// day   1 01:00:00.000  device 1  step 3: buys quarter as t0001
    /// ```
    public var lines: [String] {
        let width = lanes.map(\.name.count).max() ?? 0
        return events.map { event in
            let name = lanes.indices.contains(event.lane) ? lanes[event.lane].name : "lane \(event.lane)"
            let padding = String(repeating: " ", count: max(0, width - name.count))
            return "\(Self.time(event.at))  \(name)\(padding)  \(words(of: event.kind))"
        }
    }

    /// `day   1 01:00:00.000`: days and time of day since the start of the run.
    package static func time(_ milliseconds: Int64) -> String {
        let (days, rest) = milliseconds.quotientAndRemainder(dividingBy: 86_400_000)
        let clock = [rest / 3_600_000, rest / 60_000 % 60, rest / 1_000 % 60].map { $0.digits(2) }
        let day = "\(days)"
        let padding = String(repeating: " ", count: max(0, 4 - day.count))
        return "day\(padding)\(day) \(clock.joined(separator: ":")).\((rest % 1_000).digits(3))"
    }

    private func words(of kind: TraceEvent.Kind) -> String {
        switch kind {
        case .begun(let step, let words): "step \(step): \(words.visible)"
        case .ended(let step, let words, let isFailure):
            "step \(step) \(isFailure ? "fails" : "ends"): \(words.visible)"
        case .sent(let message, let lane, let words):
            "sends #\(message) to \(lanes.indices.contains(lane) ? lanes[lane].name : "lane \(lane)"): \(words.visible)"
        case .arrived(let message, let words): "receives #\(message): \(words.visible)"
        case .lost(let message, let words): "loses #\(message): \(words.visible)"
        case .started(let process): "process \(process) starts"
        case .crashed(let process): "process \(process) crashes"
        case .disturbed(let what, let until, let words): "\(what.words) until \(Self.time(until)): \(words.visible)"
        case .believes(let group, let expires, let isActive):
            "believes that \(group.visible) is \(isActive ? "active" : "not active"), "
                + (expires.map { "until \(Timestamp(milliseconds: $0))" } ?? "never bought")
        case .clockMoved(let amount): "its clock is moved by \(amount) ms"
        case .storeChanged(let words): words.visible
        case .healed: "faults are over"
        case .violated(let oracle, let words): "VIOLATED \(oracle): \(words.visible)"
        case .note(let words): words.visible
        }
    }
}

extension Violation {
    /// A one-line description: time, lane, oracle and message.
    ///
    /// - Parameter trace: The trace whose lane names are used.
    public func line(in trace: Trace) -> String {
        let name = trace.lanes.indices.contains(lane) ? trace.lanes[lane].name : "lane \(lane)"
        return "\(Trace.time(at))  \(name)  \(oracle.rawValue): \(message.visible)"
    }
}

extension TraceEvent.Disturbance {
    fileprivate var words: String {
        switch self {
        case .cutOutgoing: "cut off outwards"
        case .cutIncoming: "cut off inwards"
        case .full: "full"
        case .wrongClock: "wrong clock"
        }
    }
}

extension String {
    /// The text on one line of a terminal, with line breaks and control characters replaced.
    fileprivate var visible: String { singleLine(atMost: unicodeScalars.count) }
}

extension BinaryInteger {
    /// The number with at least `count` digits.
    func digits(_ count: Int, radix: Int = 10) -> String {
        let text = String(self, radix: radix)
        return String(repeating: "0", count: Swift.max(0, count - text.count)) + text
    }
}
