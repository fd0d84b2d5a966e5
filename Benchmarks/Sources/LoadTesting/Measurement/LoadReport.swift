/// The results of a run.
package struct LoadReport: Sendable {
    /// The results of one kind of request.
    package struct Kind: Sendable {
        package var name: String
        /// Times from the instant at which a request was due to the end of its answer.
        package var latencies = LatencyHistogram()
    }

    /// The reasons for which a request has no answer or a stream no event.
    package enum Trouble: String, CaseIterable, Sendable {
        case notConnected = "no connection"
        case closed = "connection closed before the answer"
        case malformed = "answer is not HTTP/1.1"
        case unanswered = "no answer in time"
        case streamEnded = "event stream ended"
        case notReopened = "event stream not open again in time"
        case unheard = "event not received in time"
    }

    package var kinds: [Kind]
    /// The length of the run in seconds, without the wait for the last answers.
    package var seconds: Double
    /// The number of answers that arrived within ``seconds``.
    package var answeredInTime = 0
    package var sent = 0
    /// The number of requests that were due and never sent because no connection was free. Their waiting time is among
    /// the latencies.
    package var unsent = 0
    /// The number of requests that were sent more than a millisecond after they were due.
    package var late = 0
    /// The number of answers by status.
    package var statuses: [Int: Int] = [:]
    /// The number of answers with an unexpected status, by status.
    package var unexpected: [Int: Int] = [:]
    package var troubles: [Trouble: Int] = [:]
    /// Times from the instant at which a write was due until a stream has received its event.
    package var heard = LatencyHistogram()
    /// Times from the loss of streams until one of them is open again.
    package var reopened = LatencyHistogram()
    /// Latencies of requests that were due while streams were being reopened.
    package var meanwhile = LatencyHistogram()

    init(kinds: [String], seconds: Double = 0) {
        self.kinds = kinds.map { Kind(name: $0) }
        self.seconds = seconds
    }

    /// Answers per second.
    package var rate: Double { seconds > 0 ? Double(answeredInTime) / seconds : 0 }

    /// True if every request had an expected answer.
    package var isSound: Bool { unexpected.isEmpty && troubles.isEmpty }

    mutating func note(_ trouble: Trouble, count: Int = 1) {
        if count > 0 { troubles[trouble, default: 0] += count }
    }

    /// Adds the results of another event loop.
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
