import Synchronization

/// Limits the guessing of secrets: a number of wrong ones in five minutes per address and account, and a larger number
/// per address over all accounts. An IPv6 address counts with its /64.
///
/// Correct secrets do not count. While a secret is being checked it counts as a wrong one, so that concurrent guesses
/// have no advantage over consecutive ones.
///
/// Each process counts by itself. ``AccountGuesses`` counts for all servers over the store.
final class GuessLimiter: Sendable {
    /// The number of wrong secrets that an address may send for one account.
    static let guessesForAccount = 10
    /// The number of wrong secrets that an address may send over all accounts.
    static let guessesForPeer = 50
    /// The time for which a wrong secret counts, in milliseconds.
    static let period: Int64 = 300_000

    /// The target of a guess.
    enum Subject: Hashable {
        /// The password or a recovery code of an account.
        case account(String)
        /// The codes of devices, guessed with the token of an account.
        case deviceCodes(String)
    }

    private struct Guesses: Expiring {
        var wrong = 0
        /// The number of secrets that are being checked.
        var pending = 0
        /// The time of the first of them.
        var since: Int64 = 0

        /// A count must not be lost while a secret is being checked.
        var expires: Int64 { pending > 0 ? .max : wrong > 0 ? since + GuessLimiter.period : 0 }

        /// Starts again if the count is over. A count that begins after the current time means that the clock was set
        /// back. It must not block any client.
        mutating func refresh(_ now: Int64) {
            if now < since || now - since >= GuessLimiter.period { (wrong, since) = (0, now) }
        }

        /// The time to wait before another guess, in milliseconds.
        func wait(atMost most: Int, _ now: Int64) -> Int64? {
            if wrong >= most { return GuessLimiter.period - (now - since) }
            // The pending secrets may turn out to be correct.
            return wrong + pending >= most ? 1 : nil
        }
    }

    private struct Holder: Hashable {
        var address: ClientAddress?
        /// A peer whose text is not an address.
        var name: String?
        /// `nil` for all subjects together.
        var subject: Subject?
    }

    private let table = Mutex(BoundedTable<Guesses>(capacity: 16_384))

    /// The number of counts that are remembered.
    var count: Int { table.withLock { $0.count } }

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
        let address = ClientAddress(peer)?.network
        var holder = Holder(address: address, name: address == nil ? peer : nil)
        let all = HolderID.of(holder)
        holder.subject = subject
        let limits = [(HolderID.of(holder), most), (all, Self.guessesForPeer)]
        let wait = table.withLock { table in
            let waits = limits.compactMap { id, most in
                table.update(id) { guesses in
                    guesses.refresh(now)
                    return guesses.wait(atMost: most, now)
                }
            }
            if waits.isEmpty { for (id, _) in limits { table.update(id) { $0.pending += 1 } } }
            return waits.max()
        }
        if let wait { throw RequestError.wait(wait * 1_000, "too many wrong guesses") }
        var isWrong = false
        defer {
            table.withLock { table in
                for (id, _) in limits {
                    table.update(id) { guesses in
                        guesses.pending = max(0, guesses.pending - 1)
                        if isWrong { guesses.wrong += 1 }
                    }
                }
            }
        }
        let value = try await check()
        isWrong = value == nil
        return value
    }
}
