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
            versions = [current.account.version, current.device.version, current.decisions.version]
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

    /// Publishes only states of `account` from now on. `current` is the new baseline, so its facts are not reported as
    /// new.
    func switchAccount(to account: Account, _ current: LocalState, _ snapshot: Snapshot) {
        state.withLock { state in
            let old = state.account
            let before = state.published?.snapshot
            state.account = account
            state.own = []
            state.published = Published(current, snapshot)
            events.send(.accountChanged(from: old, to: account))
            let changes = before.map { AccessChange.between($0, snapshot) } ?? []
            if !changes.isEmpty { events.send(.accessChanged(changes)) }
            snapshots.send(snapshot)
        }
    }

    /// Publishes the changes since the last published state. The first state is the baseline and publishes nothing.
    ///
    /// - Returns: `false` if the store must be read again: a state was published meanwhile, and this one may lack its
    ///   changes, but has changes or a later time that it lacks.
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
            publishFacts(since: published.facts, now: current.facts, own: state.own)
            let conflicts = Self.new(in: current.replay.conflicts(at: snapshot.at), since: published.conflicts)
            if !conflicts.isEmpty { events.send(.conflicts(conflicts)) }
        }
        let changes = AccessChange.between(published.snapshot, snapshot)
        if !changes.isEmpty { events.send(.accessChanged(changes)) }
        if !snapshot.holdsSame(as: published.snapshot) { snapshots.send(snapshot) }
        return true
    }

    private static func new(in conflicts: [Conflict], since known: Set<Conflict>) -> [Conflict] {
        conflicts.filter { !known.contains($0) }
    }

    private func publishFacts(since old: Facts, now new: Facts, own: Set<TransactionReference>) {
        let arrived = new.purchases.filter { purchase in
            new.transactions(of: purchase).allSatisfy { old[$0] == nil }
        }
        let isBought = { (purchase: Purchase) in new.transactions(of: purchase).contains(where: own.contains) }
        let bought = arrived.filter(isBought).map(\.transaction)
        if !bought.isEmpty { events.send(.purchased(bought)) }
        let restored = arrived.filter { !isBought($0) }.map(\.transaction)
        if !restored.isEmpty { events.send(.restored(restored)) }
        // A purchase is named once, however many transactions it has.
        let before = Set(old.revokedTransactions.map(new.listed))
        let now = Set(new.revokedTransactions.map(new.listed))
        let revoked = now.subtracting(before)
        if !revoked.isEmpty { events.send(.revoked(revoked.sorted())) }
        let reinstated = before.subtracting(now)
        if !reinstated.isEmpty { events.send(.reinstated(reinstated.sorted())) }
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
