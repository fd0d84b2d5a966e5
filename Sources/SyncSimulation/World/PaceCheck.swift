/// Counts the syncs of a process that keeps itself up to date.
struct PaceCheck {
    private static let hour: Int64 = 3_600_000
    /// The syncs of an hour without signals: at most 35 at the start of an outage, one for each change of the local
    /// store, and some for outages that begin again.
    private static let limit = 300
    /// The syncs that a signal allows: one, and those at the start of an outage that it ends.
    private static let limitForSignal = 40
    private var start: Int64 = .min
    private var syncCount = 0
    private var signalCount = 0

    /// Notes a change signal of the remote.
    mutating func didSignal() { signalCount += 1 }

    /// Notes a sync at `time`, in milliseconds. Returns the number of syncs in the hour if there were too many.
    mutating func didSync(at time: Int64) -> Int? {
        if time >= start + Self.hour || start == .min { (start, syncCount, signalCount) = (time, 0, 0) }
        syncCount += 1
        return syncCount == Self.limit + Self.limitForSignal * signalCount + 1 ? syncCount : nil
    }
}
