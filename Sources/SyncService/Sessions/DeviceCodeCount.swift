import Synchronization

/// How many devices this process lets wait: strangers ask for codes, and each is kept until it expires. One that was
/// redeemed counts until then, too.
final class DeviceCodeCount: Sendable {
    private let most: Int
    /// When each expires, in milliseconds since 1970 UTC, in the order in which they were asked for.
    private let expiries = Mutex<[Int64]>([])

    init(most: Int) { self.most = most }

    /// Counts one more.
    ///
    /// - Returns: how long to wait where there are too many, in seconds.
    func add(at now: Int64) -> Int64? {
        expiries.withLock { expiries in
            // A clock that was set back must not keep anybody out.
            let isOver = { (time: Int64) in time <= now || time - now > DeviceGrants.lifetime }
            if expiries.count >= most { expiries.removeAll(where: isOver) }
            guard expiries.count >= most, let first = expiries.first else {
                expiries.append(now + DeviceGrants.lifetime)
                return nil
            }
            return (first - now + 999) / 1_000
        }
    }
}
