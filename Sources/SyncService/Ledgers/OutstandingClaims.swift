import Entitlements
import SyncCore
import Synchronization

/// The claims of this process whose ledgers are not stored, by the key of the ledger.
///
/// They are bounded by the number of records that a ledger may have, so that an account cannot fill the store with
/// claims of ledgers that it never completes. Claims that were left behind are removed with the account's next attempt.
final class OutstandingClaims: Sendable {
    /// The claims that an attempt has left behind.
    struct Leftover: Sendable {
        var owner: TransactionOwners.Owner
        var transactions: [TransactionReference]
        /// Whether the attempt's ledger certainly was not and will not be stored.
        var isOver: Bool
    }

    private struct Claims {
        /// The number of claims of running attempts.
        var runningCount = 0
        var leftovers: [Leftover] = []

        var count: Int { leftovers.reduce(runningCount) { $0 + $1.transactions.count } }
    }

    /// The number of claims left behind that are remembered. Beyond that they stay in the store until they are met.
    private static let capacity = 200_000

    private struct State {
        var claims: [EntryKey: Claims] = [:]
        var leftoverCount = 0
    }

    private let state = Mutex(State())

    /// Begins an attempt with `count` claims.
    ///
    /// - Returns: `false` when the account would have more than `limit` outstanding claims. Nothing has begun then.
    func begin(_ count: Int, of ledger: EntryKey, limit: Int) -> Bool {
        state.withLock { state in
            let others = state.claims[ledger]?.count ?? 0
            guard others == 0 || others + count <= limit else { return false }
            state.claims[ledger, default: Claims()].runningCount += count
            return true
        }
    }

    /// Ends an attempt that began with `count` claims.
    func end(_ count: Int, of ledger: EntryKey, leaving leftover: Leftover? = nil) {
        state.withLock { state in
            state.claims[ledger]?.runningCount -= count
            if let leftover { Self.add(leftover, of: ledger, to: &state) }
            Self.removeIfEmpty(ledger, in: &state)
        }
    }

    /// Takes the claims that may be removed now.
    ///
    /// - Parameter isStored: Whether the account's ledger was stored a moment ago. Then no earlier attempt can store
    ///   it.
    func takeRemovable(of ledger: EntryKey, isStored: Bool) -> [Leftover] {
        state.withLock { state in
            guard let leftovers = state.claims[ledger]?.leftovers, !leftovers.isEmpty else { return [] }
            let removable = leftovers.filter { $0.isOver || isStored }
            state.claims[ledger]?.leftovers = leftovers.filter { !$0.isOver && !isStored }
            state.leftoverCount -= removable.reduce(0) { $0 + $1.transactions.count }
            Self.removeIfEmpty(ledger, in: &state)
            return removable
        }
    }

    /// Puts back claims that could not be removed.
    func putBack(_ leftovers: some Sequence<Leftover>, of ledger: EntryKey) {
        state.withLock { state in
            for leftover in leftovers { Self.add(leftover, of: ledger, to: &state) }
        }
    }

    private static func add(_ leftover: Leftover, of ledger: EntryKey, to state: inout State) {
        let count = leftover.transactions.count
        guard count > 0, state.leftoverCount + count <= capacity else { return }
        state.leftoverCount += count
        state.claims[ledger, default: Claims()].leftovers.append(leftover)
    }

    private static func removeIfEmpty(_ ledger: EntryKey, in state: inout State) {
        if let claims = state.claims[ledger], claims.runningCount <= 0, claims.leftovers.isEmpty {
            state.claims[ledger] = nil
        }
    }
}
