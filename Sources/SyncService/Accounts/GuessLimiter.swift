import HTTPTypes
import Synchronization

/// Limits the guessing of secrets: a number of wrong ones in five minutes per address and account, and a larger number
/// per address over all accounts. An IPv6 address counts with its /64.
///
/// Correct secrets do not count. While a secret is being checked it counts as a wrong one, so that concurrent guesses
/// have no advantage over consecutive ones. The table is kept in memory and has a bounded size in bytes. Its keys are
/// hashes under a random key of the process, so that callers control neither their length nor their collisions.
///
/// Each process counts by itself. ``AccountGuesses`` counts for all servers over the store.
final class GuessLimiter: Sendable {
    /// The number of wrong secrets that an address may send for one account.
    static let guessesForAccount = 10
    /// The number of wrong secrets that an address may send over all accounts.
    static let guessesForPeer = 50
    /// The time for which a wrong secret counts, in milliseconds.
    static let period: Int64 = 300_000
    /// The number of remembered counts. The oldest are dropped first.
    static let capacity = 20_000

    /// The target of a guess.
    enum Subject: Hashable {
        /// The password or a recovery code of an account.
        case account(String)
        /// The codes of devices, guessed with the token of an account.
        case deviceCodes(String)
    }

    private struct Count {
        var wrong = 0
        /// The number of secrets that are being checked.
        var pending = 0
        var since: Int64

        mutating func begin(_ now: Int64) {
            if isOver(now) { (wrong, since) = (0, now) }
        }

        /// A count that begins after the current time means that the clock was set back. It must not block any client.
        func isOver(_ now: Int64) -> Bool { now < since || now - since >= GuessLimiter.period }
    }

    private let counts = Mutex<[Int: Count]>([:])

    /// The size of the table, in bytes.
    var byteCount: Int {
        counts.withLock { $0.capacity * (MemoryLayout<Int>.stride + MemoryLayout<Count>.stride) }
    }

    /// Runs the check of a secret that `peer` sent, unless the address has to wait.
    ///
    /// - Parameters:
    ///   - most: The number of wrong secrets after which the address has to wait.
    ///   - now: The time, in milliseconds since 1970 UTC.
    ///   - check: Checks the secret and returns `nil` for a wrong one.
    /// - Throws: ``RequestError`` with status 429 if the address has to wait. Errors of `check` are passed on and do
    ///   not count as guesses.
    func attempt<Value>(
        _ peer: String, _ subject: Subject, atMost most: Int = guessesForAccount, now: Int64,
        _ check: () async throws -> Value?
    ) async throws -> Value? {
        let peer = ClientAddress.guessKey(peer)
        let keys = [Self.key(peer, subject), Self.key(peer, nil)]
        if let delay = reserve(keys, [most, Self.guessesForPeer], now: now) {
            throw RequestError(.tooManyRequests, "too many wrong guesses; wait \(delay) s", retryAfter: delay)
        }
        var isWrong = false
        defer { release(keys, isWrong: isWrong, now: now) }
        let value = try await check()
        isWrong = value == nil
        return value
    }

    private static func key(_ peer: String, _ subject: Subject?) -> Int {
        var hasher = Hasher()
        hasher.combine(peer)
        hasher.combine(subject)
        return hasher.finalize()
    }

    /// Takes a place in each of the counts.
    ///
    /// - Returns: The time to wait if there is no place, in seconds.
    private func reserve(_ keys: [Int], _ limits: [Int], now: Int64) -> Int64? {
        counts.withLock { counts in
            if counts.count >= Self.capacity { Self.trim(&counts, now: now) }
            var waits: [Int64] = []
            for (key, most) in zip(keys, limits) {
                guard var count = counts[key] else { continue }
                count.begin(now)
                if count.wrong >= most {
                    waits.append((Self.period - (now - count.since) + 999) / 1_000)
                } else if count.wrong + count.pending >= most {
                    // The pending secrets may turn out to be correct.
                    waits.append(1)
                }
            }
            guard waits.isEmpty else { return waits.max() }
            for key in keys {
                var count = counts[key] ?? Count(since: now)
                count.begin(now)
                count.pending += 1
                counts[key] = count
            }
            return nil
        }
    }

    private func release(_ keys: [Int], isWrong: Bool, now: Int64) {
        counts.withLock { counts in
            for key in keys {
                guard var count = counts[key] else { continue }
                count.pending -= 1
                if isWrong { count.wrong += 1 }
                counts[key] = count.pending == 0 && count.wrong == 0 ? nil : count
            }
        }
    }

    private static func trim(_ counts: inout [Int: Count], now: Int64) {
        counts = counts.filter { $0.value.pending > 0 || !$0.value.isOver(now) }
        guard counts.count >= capacity else { return }
        let oldest = counts.values.map(\.since).sorted()[capacity / 2]
        counts = counts.filter { $0.value.pending > 0 || $0.value.since > oldest }
    }
}
