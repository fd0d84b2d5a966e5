import Entitlements
import SyncCore
import Synchronization

/// Publishes the changes of a store to subscribers: each change once, and never an older state after a newer one.
///
/// States are ordered by their ``Turn``. A state is dropped if one has been published that was read after it was
/// written: that one has all its changes. If a state was written while another one was published, neither need have
/// the changes of the other, and the publisher reads the store again.
final class ChangeFeed: Sendable {
    private struct Published {
        var turn: Turn
        var facts: Facts
        var versions: [EntryVersion?]
        var snapshot: Snapshot
        var conflicts: Set<Conflict>

        /// Creates the published form of a state. The conflicts of `earlier` are kept if its ledgers are the same.
        init(_ current: LocalState, _ snapshot: Snapshot, after earlier: Published? = nil) {
            (turn, facts, self.snapshot) = (current.turn, current.facts, snapshot)
            versions = [current.account.version, current.device.version, current.serverLedger.version]
            let known = earlier?.versions == versions ? earlier?.conflicts : nil
            conflicts = known ?? Set(current.replay.conflicts(at: snapshot.at))
        }
    }
    private struct State {
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

    /// Marks purchases as recorded by this store object: they are reported as purchased, not as restored.
    ///
    /// - Returns: The purchases that were not marked before.
    func claim(_ transactions: [TransactionReference], for account: Account) -> Set<TransactionReference> {
        state.withLock { state in
            guard state.account == account else { return [] }
            let new = Set(transactions).subtracting(state.own)
            state.own.formUnion(new)
            return new
        }
    }

    /// Removes the marks of purchases that were not recorded after all.
    func withdraw(_ transactions: Set<TransactionReference>, for account: Account) {
        state.withLock { state in
            if state.account == account { state.own.subtract(transactions) }
        }
    }

    /// Publishes only states of `account` from now on, by another catalogue if the account is the same. `current` is
    /// the new baseline, so its facts are not reported as new.
    func switchSession(to account: Account, _ current: LocalState, _ snapshot: Snapshot) {
        state.withLock { state in
            let old = state.account
            let before = state.published?.snapshot
            state.published = Published(current, snapshot)
            if old != account {
                (state.account, state.own) = (account, [])
                events.send(.accountChanged(from: old, to: account))
            }
            let changes = before.map { AccessChange.between($0, snapshot) } ?? []
            if !changes.isEmpty { events.send(.accessChanged(changes)) }
            snapshots.send(snapshot)
        }
    }

    /// Publishes the changes since the last published state. The first state is the baseline and publishes nothing.
    ///
    /// - Returns: `false` if another state was published while this one was read. The caller must read the store again.
    func publish(_ current: LocalState, _ snapshot: Snapshot, of account: Account) -> Bool {
        state.withLock { state in
            // Drop the state of a call that started under another account.
            state.account != account || publish(current, snapshot, &state)
        }
    }

    func publish(_ event: EntitlementEvent) {
        events.send(event)
    }

    func subscribeToEvents() -> AsyncStream<EntitlementEvent> {
        events.subscribe(keeping: 1_000)
    }

    /// Returns a stream of the latest published snapshot, or of `snapshot` if there is none, and of all that follow.
    func subscribe(startingWith snapshot: Snapshot) -> AsyncStream<Snapshot> {
        state.withLock { state in
            snapshots.subscribe(startingWith: state.published?.snapshot ?? snapshot, keeping: 1)
        }
    }

    private func publish(_ current: LocalState, _ snapshot: Snapshot, _ state: inout State) -> Bool {
        guard let published = state.published else {
            state.published = Published(current, snapshot)
            return true
        }
        if published.turn.read >= current.turn.written {
            // The published state has all changes of this one. Time may have passed since.
            return snapshot.at <= published.snapshot.at || snapshot.holdsSame(as: published.snapshot)
        }
        guard published.turn.written <= current.turn.read else { return false }
        let news = Published(current, snapshot, after: published)
        state.published = news
        if news.versions != published.versions {
            let (facts, own) = (current.facts, state.own)
            publish(
                PurchaseChanges(
                    in: facts, wasKnown: { published.facts[$0] != nil },
                    wasRevoked: Set(published.facts.revokedTransactions).contains,
                    isOwn: { facts.transactions(of: $0).contains(where: own.contains) }))
            let conflicts = current.replay.conflicts(at: snapshot.at).filter { !published.conflicts.contains($0) }
            if !conflicts.isEmpty { events.send(.conflicts(conflicts)) }
        }
        let changes = AccessChange.between(published.snapshot, snapshot)
        if !changes.isEmpty { events.send(.accessChanged(changes)) }
        if !snapshot.holdsSame(as: published.snapshot) { snapshots.send(snapshot) }
        return true
    }

    private func publish(_ changes: PurchaseChanges) {
        if !changes.bought.isEmpty { events.send(.purchased(changes.bought.map(\.transaction))) }
        if !changes.restored.isEmpty { events.send(.restored(changes.restored.map(\.transaction))) }
        if !changes.revoked.isEmpty { events.send(.revoked(changes.revoked.sorted())) }
        if !changes.reinstated.isEmpty { events.send(.reinstated(changes.reinstated.sorted())) }
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
