import Synchronization

/// Slows down whoever guesses secrets: so many wrong ones in five minutes for each account and address, and for each
/// address over all accounts. A right one costs nothing. What is not known is forgotten with the process.
final class GuessLimiter: Sendable {
    /// How many wrong secrets an address may send for one account before it has to wait.
    static let guessesForAccount = 10
    /// How many over all accounts.
    static let guessesForPeer = 50
    /// How long a wrong one counts, in milliseconds.
    static let period: Int64 = 300_000
    /// How many addresses and accounts are remembered; the longest silent ones are forgotten first.
    static let capacity = 20_000

    private struct Count {
        var wrong: Int
        var since: Int64
    }

    private struct Name: Hashable {
        var peer: String
        /// `nil` for all accounts.
        var account: String?

        init(peer: String, account: String? = nil) { (self.peer, self.account) = (peer, account) }
    }

    private let counts = Mutex<[Name: Count]>([:])

    /// How long `peer` has to wait before it may try a secret for `account`, in seconds; `nil` for not at all.
    func delay(_ peer: String, _ account: String, now: Int64) -> Int64? {
        counts.withLock { counts in
            let waits = [
                (Name(peer: peer, account: account), Self.guessesForAccount), (Name(peer: peer), Self.guessesForPeer),
            ].compactMap { name, most -> Int64? in
                guard let count = counts[name], now >= count.since, now - count.since < Self.period,
                    count.wrong >= most
                else { return nil }
                return (Self.period - (now - count.since) + 999) / 1_000
            }
            return waits.max()
        }
    }

    /// Notes a wrong secret.
    func noteWrong(_ peer: String, _ account: String, now: Int64) {
        counts.withLock { counts in
            if counts.count >= Self.capacity { Self.trim(&counts, now: now) }
            for name in [Name(peer: peer, account: account), Name(peer: peer)] {
                var count = counts[name] ?? Count(wrong: 0, since: now)
                // A clock that was set back must not keep anybody out.
                if now < count.since || now - count.since >= Self.period { count = Count(wrong: 0, since: now) }
                count.wrong += 1
                counts[name] = count
            }
        }
    }

    private static func trim(_ counts: inout [Name: Count], now: Int64) {
        counts = counts.filter { now >= $0.value.since && now - $0.value.since < period }
        guard counts.count >= capacity else { return }
        let oldest = counts.values.map(\.since).sorted()[capacity / 2]
        counts = counts.filter { $0.value.since > oldest }
    }
}
