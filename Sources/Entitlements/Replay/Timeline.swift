/// The periods of one group, in ascending order.
///
/// A group is active only while a period contains the instant. A purchase dated next year does not unlock anything
/// today.
public struct Timeline: Hashable, Sendable {
    /// The periods that are not empty, by start, then end.
    public let periods: [Period]
    /// All periods that the facts gave, including empty ones.
    public let contributions: [Period]
    /// The stretches of time without a gap, in ascending order.
    public let chains: [Chain]
    /// The dates of all revocations.
    private let revocations: [Timestamp]

    /// Creates a timeline of `contributions`, which may be in any order.
    package init(_ contributions: [Period] = []) {
        self.contributions = contributions
        periods = contributions.filter { !$0.isEmpty }.sorted { ($0.start, $0.end) < ($1.start, $1.end) }
        chains = Self.chains(of: periods)
        revocations = contributions.compactMap(\.revokedAt)
    }

    /// A stretch of time covered by periods that touch or overlap.
    public struct Chain: Hashable, Sendable {
        /// The first instant of the chain.
        public var start: Timestamp
        /// The first instant after the chain.
        public var end: Timestamp
    }

    private static func chains(of periods: [Period]) -> [Chain] {
        var chains: [Chain] = []
        for period in periods {
            if let last = chains.last, period.start <= last.end {
                chains[chains.count - 1].end = max(last.end, period.end)
            } else {
                chains.append(Chain(start: period.start, end: period.end))
            }
        }
        return chains
    }

    /// Returns `true` if a period contains `instant`.
    public func isActive(at instant: Timestamp) -> Bool {
        chains.contains { $0.start <= instant && instant < $0.end }
    }

    /// Returns the chain that began last at or before `instant`: the current chain, or the last one when nothing is
    /// active; `nil` if none has begun.
    public func chain(at instant: Timestamp) -> Chain? {
        chains.last { $0.start <= instant }
    }

    /// Returns the start of time that is added at `date`: the end of the chain that began last, or `date` if that is
    /// later.
    package func startOfTime(addedAt date: Timestamp) -> Timestamp { max(date, chain(at: date)?.end ?? .earliest) }

    /// Returns the end of the chain that contains the time just before `instant`; `nil` if there is none.
    package func end(reaching instant: Timestamp) -> Timestamp? {
        chains.first { $0.start < instant && instant <= $0.end }?.end
    }

    /// Returns the first instant after `instant` at which a chain begins or ends; `nil` if there is none.
    package func nextBoundary(after instant: Timestamp) -> Timestamp? {
        chains.lazy.flatMap { [$0.start, $0.end] }.first { $0 > instant }
    }

    /// Returns the latest revocation at or before `instant`.
    func lastRevocation(at instant: Timestamp) -> Timestamp? {
        revocations.filter { $0 <= instant }.max()
    }
}
