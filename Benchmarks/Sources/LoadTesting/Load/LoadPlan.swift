/// A description of a run.
package struct LoadPlan: Sendable {
    /// The names of the kinds of requests, which works refer to by index.
    package var kinds: [String]
    /// The work of each connection.
    package var works: [any LoadWork]
    /// The length of the run in seconds.
    package var seconds: Double
    /// Requests per second, due at fixed instants however slowly the server answers (open loop); `nil` to send a
    /// request as soon as the one before is answered (closed loop).
    package var rate: Double?
    /// The number of event loops that send requests.
    package var loopCount: Int
    /// The timeout of a request, and of all that is outstanding at the end of the run, in seconds.
    package var patience: Double = 10
    /// For each of ``works``, the streams that receive events of its writes; empty for no streams.
    package var streams: [WatchedStreams] = []
    /// The time at which all streams are closed by this side and reconnect, in seconds from the start.
    package var reopening: Double?

    package init(kinds: [String], works: [any LoadWork], seconds: Double, rate: Double? = nil, loopCount: Int = 1) {
        (self.kinds, self.works, self.seconds, self.rate, self.loopCount) = (kinds, works, seconds, rate, loopCount)
    }
}

/// Event streams that receive the events of one connection's writes.
package struct WatchedStreams: Sendable {
    package var request: RequestBytes
    package var count: Int

    package init(_ request: RequestBytes, count: Int) { (self.request, self.count) = (request, count) }
}
