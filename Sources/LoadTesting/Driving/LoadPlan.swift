/// How a server is driven.
package struct LoadPlan: Sendable {
    /// The names of the kinds of requests that works have.
    package var kinds: [String]
    /// One for each connection that makes requests.
    package var works: [any LoadWork]
    /// For how long requests are begun, in seconds.
    package var seconds: Double
    /// So many requests are due in every second, at fixed instants, however slowly they are answered; `nil` for as
    /// many as there are answers.
    package var rate: Double?
    /// How many event loops make them.
    package var loopCount: Int
    /// How long answers may take after the end, and one answer at all, in seconds.
    package var patience: Double = 10
    /// For each of `works`, streams that hear what it writes.
    package var streams: [WatchedStreams] = []
    /// When all streams are closed and opened again at once, in seconds from the beginning; `nil` for never.
    package var reopening: Double?

    package init(kinds: [String], works: [any LoadWork], seconds: Double, rate: Double? = nil, loopCount: Int = 1) {
        (self.kinds, self.works, self.seconds, self.rate, self.loopCount) = (kinds, works, seconds, rate, loopCount)
    }
}

/// Event streams that are told of one connection's writes.
package struct WatchedStreams: Sendable {
    package var request: RequestBytes
    package var count: Int

    package init(_ request: RequestBytes, count: Int) { (self.request, self.count) = (request, count) }
}
