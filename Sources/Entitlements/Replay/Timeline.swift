/// The periods of one group, in ascending order.
///
/// Active means inside a period, never "before the last end": a purchase dated next year unlocks nothing today.
public struct Timeline: Hashable, Sendable {
    /// The periods that hold time, by start, then end.
    public let periods: [Period]
    /// All periods that the facts gave, those of which nothing is left included.
    public let contributions: [Period]
    /// The stretches of time without a gap, ascending.
    public let chains: [Chain]

    /// A timeline of `contributions` in any order.
    public init(_ contributions: [Period] = []) {
        self.contributions = contributions
        periods = contributions.filter { !$0.isEmpty }.sorted { ($0.start, $0.end) < ($1.start, $1.end) }
        chains = Self.chains(of: periods)
    }

    /// Periods that touch or overlap, as one stretch of time.
    public struct Chain: Hashable, Sendable {
        /// The first instant.
        public var start: Timestamp
        /// The first instant after it.
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

    /// Whether `instant` lies in a period.
    public func isActive(at instant: Timestamp) -> Bool {
        chains.contains { $0.start <= instant && instant < $0.end }
    }

    /// The chain that has begun last at `instant`: the current one, or the last one when nothing is active; `nil` when
    /// none has begun.
    public func chain(at instant: Timestamp) -> Chain? {
        chains.last { $0.start <= instant }
    }

    /// The first instant after `instant` at which a chain begins or ends.
    public func nextBoundary(after instant: Timestamp) -> Timestamp? {
        chains.lazy.flatMap { [$0.start, $0.end] }.first { $0 > instant }
    }

    /// The latest revocation at or before `instant`.
    func lastRevocation(at instant: Timestamp) -> Timestamp? {
        contributions.compactMap(\.revokedAt).filter { $0 <= instant }.max()
    }
}
