import Entitlements
import SyncCore
import Synchronization

/// Tells subscribers what changed in a store: each change once, and never an older state after a newer one.
///
/// Whoever tells takes a turn, then reads what the store holds, then tells it. A turn that comes after a later one is
/// dropped: the later one began to read when the earlier one's facts were durable, and has told them.
final class ChangeFeed: Sendable {
    private struct Told {
        var turn: UInt64 = 0
        var facts: Facts
        var versions: [EntryVersion?]
        var snapshot: Snapshot
    }
    private struct State {
        var lastTurn: UInt64 = 0
        var told: Told?
        /// What this store object recorded itself.
        var own: Set<TransactionReference> = []
    }
    private let state = Mutex(State())
    private let snapshots = Broadcast<Snapshot>()
    private let events = Broadcast<EntitlementEvent>()

    func takeTurn() -> UInt64 {
        state.withLock { state in
            state.lastTurn += 1
            return state.lastTurn
        }
    }

    /// These purchases are this store object's: when they appear they were bought here, not restored.
    func claim(_ transactions: [TransactionReference]) {
        state.withLock { $0.own.formUnion(transactions) }
    }

    /// Tells what is new. The first state that is told is where changes begin.
    func tell(_ current: LocalLedgers.State, _ snapshot: Snapshot, turn: UInt64) {
        state.withLock { state in tell(current, snapshot, turn: turn, &state) }
    }

    func tell(_ event: EntitlementEvent) {
        events.send(event)
    }

    func subscribeToEvents() -> AsyncStream<EntitlementEvent> {
        events.subscribe(keeping: 1_000)
    }

    /// A stream of the newest state and of all that follow.
    func subscribe(startingWith current: LocalLedgers.State, _ snapshot: Snapshot, turn: UInt64)
        -> AsyncStream<Snapshot>
    {
        state.withLock { state in
            tell(current, snapshot, turn: turn, &state)
            return snapshots.subscribe(startingWith: state.told?.snapshot ?? snapshot, keeping: 1)
        }
    }

    private func tell(_ current: LocalLedgers.State, _ snapshot: Snapshot, turn: UInt64, _ state: inout State) {
        let versions = [current.account.version, current.device.version]
        let news = Told(turn: turn, facts: current.facts, versions: versions, snapshot: snapshot)
        guard let told = state.told else {
            state.told = news
            return
        }
        guard turn > told.turn else { return }
        state.told = news
        if versions != told.versions { tellFacts(since: told.facts, now: current.facts, own: state.own) }
        let changes = AccessChange.between(told.snapshot, snapshot)
        if !changes.isEmpty { events.send(.accessChanged(changes)) }
        if !snapshot.holdsSame(as: told.snapshot) { snapshots.send(snapshot) }
    }

    private func tellFacts(since old: Facts, now new: Facts, own: Set<TransactionReference>) {
        let known = Set(old.purchases.map(\.transaction))
        let arrived = new.purchases.map(\.transaction).filter { !known.contains($0) }
        let bought = arrived.filter(own.contains)
        if !bought.isEmpty { events.send(.purchased(bought)) }
        let restored = arrived.filter { !own.contains($0) }
        if !restored.isEmpty { events.send(.restored(restored)) }
        let revoked = new.revocations.keys.filter { old.revocations[$0] == nil }
        if !revoked.isEmpty { events.send(.revoked(revoked.sorted())) }
    }
}

extension Snapshot {
    /// Whether both say the same but for the instant they are of.
    fileprivate func holdsSame(as other: Snapshot) -> Bool {
        var copy = self
        copy.at = other.at
        return copy == other
    }
}
