import HTTPTypes
import Synchronization

/// Slows down whoever guesses secrets: so many wrong ones in five minutes for each account and address, and for each
/// address over all accounts; of IPv6, for each /64. A right one costs nothing, but has its place among the wrong ones
/// while it is looked at: many that come at once are no more than one after the other. What is not known is forgotten
/// with the process.
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
        var wrong = 0
        /// How many are looked at now.
        var pending = 0
        var since: Int64

        mutating func begin(_ now: Int64) {
            // A clock that was set back must not keep anybody out.
            if isOver(now) { (wrong, since) = (0, now) }
        }

        func isOver(_ now: Int64) -> Bool { now < since || now - since >= GuessLimiter.period }
    }

    private struct Name: Hashable {
        var peer: String
        /// `nil` for all accounts.
        var account: String?

        init(peer: String, account: String? = nil) { (self.peer, self.account) = (peer, account) }
    }

    private let counts = Mutex<[Name: Count]>([:])

    /// Looks at a secret that `peer` sent for `account`, unless it has to wait.
    ///
    /// - Parameters:
    ///   - now: the time, in milliseconds since 1970 UTC.
    ///   - isRight: looks, and answers `nil` for a wrong one.
    /// - Throws: ``RequestError`` with status 429 where it has to wait, and whatever `isRight` throws, which counts as
    ///   no guess.
    func attempt<Value>(
        _ peer: String, _ account: String, now: Int64, _ isRight: () async throws -> Value?
    ) async throws -> Value? {
        let peer = ClientAddress.guesser(peer)
        let names = [Name(peer: peer, account: account), Name(peer: peer)]
        if let delay = reserve(names, now: now) {
            throw RequestError(.tooManyRequests, "too many wrong guesses; wait \(delay) s", retryAfter: delay)
        }
        var isWrong = false
        defer { release(names, isWrong: isWrong, now: now) }
        let value = try await isRight()
        isWrong = value == nil
        return value
    }

    /// Takes a place in each of the counts.
    ///
    /// - Returns: how long to wait where there is none, in seconds.
    private func reserve(_ names: [Name], now: Int64) -> Int64? {
        counts.withLock { counts in
            if counts.count >= Self.capacity { Self.trim(&counts, now: now) }
            var waits: [Int64] = []
            for (name, most) in zip(names, [Self.guessesForAccount, Self.guessesForPeer]) {
                guard var count = counts[name] else { continue }
                count.begin(now)
                if count.wrong >= most {
                    waits.append((Self.period - (now - count.since) + 999) / 1_000)
                } else if count.wrong + count.pending >= most {
                    // Those before may be right.
                    waits.append(1)
                }
            }
            guard waits.isEmpty else { return waits.max() }
            for name in names {
                var count = counts[name] ?? Count(since: now)
                count.begin(now)
                count.pending += 1
                counts[name] = count
            }
            return nil
        }
    }

    private func release(_ names: [Name], isWrong: Bool, now: Int64) {
        counts.withLock { counts in
            for name in names {
                guard var count = counts[name] else { continue }
                count.pending -= 1
                if isWrong { count.wrong += 1 }
                counts[name] = count.pending == 0 && count.wrong == 0 ? nil : count
            }
        }
    }

    private static func trim(_ counts: inout [Name: Count], now: Int64) {
        counts = counts.filter { $0.value.pending > 0 || !$0.value.isOver(now) }
        guard counts.count >= capacity else { return }
        let oldest = counts.values.map(\.since).sorted()[capacity / 2]
        counts = counts.filter { $0.value.pending > 0 || $0.value.since > oldest }
    }
}
