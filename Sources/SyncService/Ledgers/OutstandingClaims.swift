import Entitlements
import SyncCore
import Synchronization

/// The claims of this process whose ledgers are not stored, by the key of the ledger.
///
/// Their number is bounded by the number of records that a ledger may have, so that an account cannot fill the store
/// with claims of ledgers that it never completes. Claims that were left behind are removed with the account's next
/// attempt.
final class OutstandingClaims: Sendable {
    /// The claims that an attempt has left behind.
    struct Leftover: Sendable {
        var owner: TransactionOwners.Owner
        var transactions: [TransactionReference]
        /// True if the claims may be removed at once: the attempt's ledger certainly was not and will not be stored,
        /// and no other attempt relies on them. Otherwise they are kept until a ledger is stored.
        var isOver: Bool
        /// The number of the last mark before the claims were left behind.
        fileprivate var mark = 0

        init(owner: TransactionOwners.Owner, transactions: [TransactionReference], isOver: Bool) {
            (self.owner, self.transactions, self.isOver) = (owner, transactions, isOver)
        }
    }

    private struct Claims {
        /// The number of claims of running attempts.
        var runningCount = 0
        var leftovers: [Leftover] = []

        var count: Int { leftovers.reduce(runningCount) { $0 + $1.transactions.count } }
    }

    /// The number of abandoned claims that are remembered. Any further ones stay in the store until another account
    /// takes them over.
    private static let capacity = 200_000

    private struct State {
        var claims: [EntryKey: Claims] = [:]
        var leftoverCount = 0
        var lastMark = 0
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
    func count(of ledger: EntryKey) -> Int { state.withLock { $0.claims[ledger]?.count ?? 0 } }

    /// Begins an attempt with `count` claims.
    ///
    /// - Returns: `false` if the account would have more than `limit` outstanding claims. Nothing has begun then.
    func begin(_ count: Int, of ledger: EntryKey, limit: Int) -> Bool {
        state.withLock { state in
            let others = state.claims[ledger]?.count ?? 0
            guard others == 0 || others + count <= limit else { return false }
            state.claims[ledger, default: Claims()].runningCount += count
            return true
        }
    }

    /// Ends an attempt that began with `count` claims.
    ///
    /// - Parameters:
    ///   - leftovers: The claims that it leaves behind.
    ///   - renewed: The claims that it renewed. Attempts that ended before `mark` no longer hold them.
    ///   - mark: The attempt's mark.
    func end(
        _ count: Int, of ledger: EntryKey, leaving leftovers: [Leftover] = [],
        renewing renewed: [TransactionReference] = [], since mark: Int = 0
    ) {
        let renewed = Set(renewed)
        state.withLock { state in
            state.claims[ledger]?.runningCount -= count
            if !renewed.isEmpty { Self.remove(renewed, of: ledger, before: mark, in: &state) }
            for leftover in leftovers { Self.add(leftover, of: ledger, to: &state) }
            Self.removeIfEmpty(ledger, in: &state)
        }
    }

    /// Takes the claims that may be removed now.
    ///
    /// - Parameter mark: The mark of an attempt whose ledger was just stored; `nil` for none. The ledger of an attempt
    ///   that ended before the mark can no longer be stored. Attempts that ended later may have been stored after this
    ///   ledger.
    func takeRemovable(of ledger: EntryKey, storedSince mark: Int?) -> [Leftover] {
        state.withLock { state in
            guard let leftovers = state.claims[ledger]?.leftovers, !leftovers.isEmpty else { return [] }
            let isRemovable = { (leftover: Leftover) in leftover.isOver || leftover.mark < mark ?? 0 }
            let removable = leftovers.filter(isRemovable)
            state.claims[ledger]?.leftovers = leftovers.filter { !isRemovable($0) }
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
        var leftover = leftover
        leftover.mark = state.lastMark
        state.claims[ledger, default: Claims()].leftovers.append(leftover)
    }

    private static func remove(
        _ renewed: Set<TransactionReference>, of ledger: EntryKey, before mark: Int, in state: inout State
    ) {
        guard var leftovers = state.claims[ledger]?.leftovers else { return }
        for index in leftovers.indices where leftovers[index].mark < mark {
            let former = leftovers[index].transactions.count
            leftovers[index].transactions.removeAll(where: renewed.contains)
            state.leftoverCount -= former - leftovers[index].transactions.count
        }
        state.claims[ledger]?.leftovers = leftovers.filter { !$0.transactions.isEmpty }
    }

    private static func removeIfEmpty(_ ledger: EntryKey, in state: inout State) {
        if let claims = state.claims[ledger], claims.runningCount <= 0, claims.leftovers.isEmpty {
            state.claims[ledger] = nil
        }
    }
}
