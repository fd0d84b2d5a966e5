/// The database cluster that keeps the remote's data: a primary with a synchronous standby, as PostgreSQL runs it.
public struct ClusterSetup: Codable, Hashable, Sendable {
    /// The writes that take long to commit, in thousandths.
    public var slowCommits: Int
    /// The longest time that such a write takes, in milliseconds, 1 to 60,000.
    public var longestCommit: Int
    /// The longest time from the arrival of a write on the standby until the standby has applied it, in milliseconds,
    /// up to 60,000.
    public var longestLag: Int

    /// A cluster. By default, no write is slow.
    public init(slowCommits: Int = 0, longestCommit: Int = 1_000, longestLag: Int = 1_000) {
        self.slowCommits = slowCommits
        self.longestCommit = longestCommit
        self.longestLag = longestLag
    }
}
