/// What a run has seen.
package struct LoadReport: Sendable {
    /// The answers to one kind of request.
    package struct Kind: Sendable {
        package var name: String
        /// From the instant at which a request was due to the end of its answer.
        package var latencies = LatencyHistogram()
    }

    /// Why a request has no answer, and how often.
    package enum Trouble: String, CaseIterable, Sendable {
        case notConnected = "no connection"
        case closed = "connection closed before the answer"
        case malformed = "an answer that is not HTTP/1.1"
        case unanswered = "no answer in time"
        case streamEnded = "event stream ended"
        case notReopened = "event stream not open again in time"
        case unheard = "event not received in time"
    }

    package var kinds: [Kind]
    /// The length of the time in which requests were begun, in seconds.
    package var seconds: Double
    /// How many answers came within that time.
    package var answeredInTime = 0
    /// How many requests were sent.
    package var sent = 0
    /// How many were due and never sent: nobody was free for them. They are in the latencies with the time that they
    /// had waited for.
    package var unsent = 0
    /// How many were sent more than a millisecond after they were due.
    package var late = 0
    /// How many answers had which status.
    package var statuses: [Int: Int] = [:]
    /// How many answers had a status that was not to be expected.
    package var unexpected: [Int: Int] = [:]
    /// How many requests had no answer, and why.
    package var troubles: [Trouble: Int] = [:]
    /// From a write's due instant until a watcher has the event; from the beginning until a stream is open again.
    package var heard = LatencyHistogram()
    package var reopened = LatencyHistogram()
    /// The answers, of whatever kind, while streams were being opened again.
    package var meanwhile = LatencyHistogram()

    init(kinds: [String], seconds: Double = 0) {
        self.kinds = kinds.map { Kind(name: $0) }
        self.seconds = seconds
    }

    /// Answers a second.
    package var rate: Double { seconds > 0 ? Double(answeredInTime) / seconds : 0 }

    /// Whether every request had the answer that was to be expected.
    package var isSound: Bool { unexpected.isEmpty && troubles.isEmpty }

    mutating func note(_ trouble: Trouble, count: Int = 1) {
        if count > 0 { troubles[trouble, default: 0] += count }
    }

    /// Counts what another event loop has seen.
    mutating func add(_ other: LoadReport) {
        for index in kinds.indices { kinds[index].latencies.add(other.kinds[index].latencies) }
        answeredInTime += other.answeredInTime
        (sent, unsent, late) = (sent + other.sent, unsent + other.unsent, late + other.late)
        statuses.merge(other.statuses, uniquingKeysWith: +)
        unexpected.merge(other.unexpected, uniquingKeysWith: +)
        troubles.merge(other.troubles, uniquingKeysWith: +)
        heard.add(other.heard)
        reopened.add(other.reopened)
        meanwhile.add(other.meanwhile)
    }
}

extension LoadReport: CustomStringConvertible {
    package var description: String {
        let statuses = statuses.sorted { $0.key < $1.key }.map { "\($0.value) × \($0.key)" }
        let troubles = Trouble.allCases.compactMap { trouble in
            self.troubles[trouble].map { "\($0) × \(trouble.rawValue)" }
        }
        return "\(sent) sent, \(unsent) not sent, \((statuses + troubles).joined(separator: ", "))"
    }
}
