import Entitlements
import SyncCore
import Synchronization

/// Publishes the changes of a store to subscribers: each change once, and never an older state after a newer one.
///
/// A publisher takes a numbered turn, reads the store, and publishes the state that it read. A turn is dropped if a
/// later turn has already been published. This loses nothing: the later turn began after the facts of the earlier one
/// were durable, and included them.
final class ChangeFeed: Sendable {
    private struct Published {
        var turn: UInt64 = 0
        var facts: Facts
        var versions: [EntryVersion?]
        var snapshot: Snapshot
        var conflicts: Set<Conflict>
    }
    private struct State {
        var lastTurn: UInt64 = 0
        var published: Published?
        /// The transactions that this store object recorded itself.
        var own: Set<TransactionReference> = []
        /// The account whose states are published.
        var account: Account
    }
    private let state: Mutex<State>
    private let snapshots = Broadcast<Snapshot>()
    private let events = Broadcast<EntitlementEvent>()

    init(account: Account) {
        state = Mutex(State(account: account))
    }

    func takeTurn() -> UInt64 {
        state.withLock { state in
            state.lastTurn += 1
            return state.lastTurn
        }
    }

    /// Marks purchases as recorded by this store object: they are reported as purchased, not as restored.
    func claim(_ transactions: [TransactionReference], for account: Account) {
        state.withLock { state in
            if state.account == account { state.own.formUnion(transactions) }
        }
    }

    /// Publishes only states of `account` from now on. `current` is the new baseline, so its facts are not reported as
    /// new.
    func switchAccount(to account: Account, _ current: LocalLedgers.State, _ snapshot: Snapshot, turn: UInt64) {
        state.withLock { state in
            let old = state.account
            let before = state.published?.snapshot
            state.account = account
            state.own = []
            state.published = Published(
                turn: turn, facts: current.facts, versions: current.versions,
                snapshot: snapshot, conflicts: Set(current.replay.conflicts(at: snapshot.at)))
            events.send(.accountChanged(from: old, to: account))
            let changes = before.map { AccessChange.between($0, snapshot) } ?? []
            if !changes.isEmpty { events.send(.accessChanged(changes)) }
            snapshots.send(snapshot)
        }
    }

    /// Publishes the changes since the last published state. The first state is the baseline and publishes nothing.
    func publish(_ current: LocalLedgers.State, _ snapshot: Snapshot, of account: Account, turn: UInt64) {
        state.withLock { state in
            // Drop the state of a call that started under another account.
            if state.account == account { publish(current, snapshot, turn: turn, &state) }
        }
    }

    func publish(_ event: EntitlementEvent) {
        events.send(event)
    }

    func subscribeToEvents() -> AsyncStream<EntitlementEvent> {
        events.subscribe(keeping: 1_000)
    }

    /// Returns a stream of the latest snapshot and of all snapshots that follow.
    func subscribe(
        startingWith current: LocalLedgers.State, _ snapshot: Snapshot, of account: Account, turn: UInt64
    ) -> AsyncStream<Snapshot> {
        state.withLock { state in
            if state.account == account { publish(current, snapshot, turn: turn, &state) }
            return snapshots.subscribe(startingWith: state.published?.snapshot ?? snapshot, keeping: 1)
        }
    }

    private func publish(_ current: LocalLedgers.State, _ snapshot: Snapshot, turn: UInt64, _ state: inout State) {
        let versions = current.versions
        let news = Published(
            turn: turn, facts: current.facts, versions: versions, snapshot: snapshot,
            conflicts: versions == state.published?.versions
                ? state.published?.conflicts ?? [] : Set(current.replay.conflicts(at: snapshot.at)))
        guard let published = state.published else {
            state.published = news
            return
        }
        guard turn > published.turn else { return }
        state.published = news
        if versions != published.versions {
            publishFacts(since: published.facts, now: current.facts, own: state.own)
            let conflicts = Self.new(in: current.replay.conflicts(at: snapshot.at), since: published.conflicts)
            if !conflicts.isEmpty { events.send(.conflicts(conflicts)) }
        }
        let changes = AccessChange.between(published.snapshot, snapshot)
        if !changes.isEmpty { events.send(.accessChanged(changes)) }
        if !snapshot.holdsSame(as: published.snapshot) { snapshots.send(snapshot) }
    }

    private static func new(in conflicts: [Conflict], since known: Set<Conflict>) -> [Conflict] {
        conflicts.filter { !known.contains($0) }
    }

    private func publishFacts(since old: Facts, now new: Facts, own: Set<TransactionReference>) {
        let known = Set(old.purchases.map(\.transaction))
        let arrived = new.purchases.map(\.transaction).filter { !known.contains($0) }
        let bought = arrived.filter(own.contains)
        if !bought.isEmpty { events.send(.purchased(bought)) }
        let restored = arrived.filter { !own.contains($0) }
        if !restored.isEmpty { events.send(.restored(restored)) }
        let revoked = new.revocations.keys.filter { new.isRevoked($0) && !old.isRevoked($0) }
        if !revoked.isEmpty { events.send(.revoked(revoked.sorted())) }
        let reinstated = old.revocations.keys.filter { old.isRevoked($0) && !new.isRevoked($0) }
        if !reinstated.isEmpty { events.send(.reinstated(reinstated.sorted())) }
    }
}

extension LocalLedgers.State {
    /// The versions that identify a state.
    fileprivate var versions: [EntryVersion?] { [account.version, device.version, decisions.version] }
}

extension Facts {
    fileprivate func isRevoked(_ transaction: TransactionReference) -> Bool {
        revocations[transaction]?.revokedAt != nil
    }
}

extension Snapshot {
    /// True if both snapshots are equal apart from their instants.
    fileprivate func holdsSame(as other: Snapshot) -> Bool {
        var copy = self
        copy.at = other.at
        return copy == other
    }
}
