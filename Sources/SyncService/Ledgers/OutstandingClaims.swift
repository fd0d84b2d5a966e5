import Entitlements
import SyncCore
import Synchronization

/// Claims made by this process for ledgers that are not stored yet, by the key of the ledger.
///
/// Their number is bounded by the number of records that a ledger may have, so that an account cannot fill the store
/// with claims of ledgers that it never completes. Claims that were left behind are removed with the account's next
/// attempt.
final class OutstandingClaims: Sendable {
    /// The claims that an attempt has left behind.
    struct Leftover: Sendable {
        var owner: Ownership.Owner
        var transactions: [TransactionReference]
        /// True if the attempt's ledger certainly was not and will not be stored. Otherwise its claims are kept until a
        /// ledger is stored.
        var isOver: Bool
        /// True if no earlier attempt can be stored any more, so that claims that were renewed are removed, too.
        var isComplete = false
        /// The number of the last mark before the claims were left behind.
        fileprivate var mark = 0

        init(owner: Ownership.Owner, transactions: [TransactionReference], isOver: Bool, isComplete: Bool = false) {
            (self.owner, self.transactions) = (owner, transactions)
            (self.isOver, self.isComplete) = (isOver, isComplete)
        }
    }

    /// The number of abandoned claims that are remembered. Any further ones stay in the store until another account
    /// takes them over.
    private static let capacity = 200_000

    private struct State {
        /// The number of claims of running attempts.
        var running: [EntryKey: Int] = [:]
        var leftovers: [EntryKey: [Leftover]] = [:]
        var leftoverCount = 0
        var lastMark = 0

        func count(of ledger: EntryKey) -> Int {
            leftovers[ledger, default: []].reduce(running[ledger, default: 0]) { $0 + $1.transactions.count }
        }

        /// Replaces the leftovers of `ledger`, and marks the new ones. Those beyond the capacity are forgotten.
        mutating func set(_ known: [Leftover], adding new: [Leftover] = [], of ledger: EntryKey) {
            for old in leftovers.removeValue(forKey: ledger) ?? [] { leftoverCount -= old.transactions.count }
            let marked = new.map { leftover in
                var leftover = leftover
                leftover.mark = lastMark
                return leftover
            }
            for leftover in known + marked where !leftover.transactions.isEmpty {
                guard leftoverCount + leftover.transactions.count <= capacity else { continue }
                leftoverCount += leftover.transactions.count
                leftovers[ledger, default: []].append(leftover)
            }
        }
    }

    private let state = Mutex(State())

    /// Marks the moment before an attempt reads its ledger.
    func mark() -> Int {
        state.withLock { state in
            state.lastMark += 1
            return state.lastMark
        }
    }

    /// The number of outstanding claims.
    func count(of ledger: EntryKey) -> Int { state.withLock { $0.count(of: ledger) } }

    /// Begins an attempt with `count` claims.
    ///
    /// - Returns: `false` if the account would have more than `limit` outstanding claims. Nothing has begun then.
    func begin(_ count: Int, of ledger: EntryKey, limit: Int) -> Bool {
        state.withLock { state in
            let others = state.count(of: ledger)
            guard others == 0 || others + count <= limit else { return false }
            state.running[ledger, default: 0] += count
            return true
        }
    }

    /// Ends an attempt that began with `count` claims.
    ///
    /// - Parameters:
    ///   - leftover: The claims that it leaves behind. Attempts that ended before `mark` no longer hold them.
    ///   - mark: The attempt's mark.
    func end(_ count: Int, of ledger: EntryKey, leaving leftover: Leftover? = nil, since mark: Int = 0) {
        let renewed = Set(leftover?.transactions ?? [])
        state.withLock { state in
            let rest = state.running[ledger, default: 0] - count
            state.running[ledger] = rest > 0 ? rest : nil
            var known = state.leftovers[ledger] ?? []
            for index in known.indices where !renewed.isEmpty && known[index].mark < mark {
                known[index].transactions.removeAll(where: renewed.contains)
            }
            state.set(known, adding: leftover.map { [$0] } ?? [], of: ledger)
        }
    }

    /// Takes the claims that may be removed now.
    ///
    /// - Parameter mark: The mark of an attempt whose ledger was just stored; `nil` for none. The ledger of an attempt
    ///   that ended before the mark can no longer be stored. Attempts that ended later may have been stored after this
    ///   ledger.
    func takeRemovable(of ledger: EntryKey, storedSince mark: Int?) -> [Leftover] {
        state.withLock { state in
            guard let known = state.leftovers[ledger] else { return [] }
            var (removable, kept): ([Leftover], [Leftover]) = ([], [])
            for var leftover in known {
                leftover.isComplete = leftover.isComplete || leftover.mark < mark ?? 0
                if leftover.isOver || leftover.isComplete { removable.append(leftover) } else { kept.append(leftover) }
            }
            state.set(kept, of: ledger)
            return removable
        }
    }

    /// Puts back claims that could not be removed.
    func putBack(_ leftovers: [Leftover], of ledger: EntryKey) {
        state.withLock { $0.set($0.leftovers[ledger] ?? [], adding: leftovers, of: ledger) }
    }
}
