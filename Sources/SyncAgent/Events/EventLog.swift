import Checksums
package import EntitlementSync
package import Entitlements

/// The events of a store that local programs follow, the latest of which are kept, and the state that they led to.
///
/// Each event has a number, so that a reader can resume after the last one that it has seen. Events are derived from
/// the difference between the state that was seen last and the current one. Both are stored together, so no change is
/// missed or reported twice, also after a crash.
package struct EventLog: Hashable, Sendable {
    /// The kinds of events.
    package enum Kind: String, CaseIterable, Sendable {
        /// This device recorded purchases.
        case purchased
        /// Purchases arrived from elsewhere.
        case restored
        /// Purchases were revoked.
        case revoked
        /// Revoked purchases count again.
        case reinstated
        /// A subscription ends soon.
        case expiring
        /// A subscription has ended, by its time or by a refund.
        case expired
        /// Another account is logged in, or none.
        case accountChanged = "account-changed"
        /// A sync failed. Reported once until a sync succeeds.
        case syncFailed = "sync-failed"
    }

    /// An event: its number, its kind, and one line of JSON.
    package struct Event: Hashable, Sendable {
        package var number: UInt64
        package var kind: String
        package var json: String
    }

    /// The parts of a state that events depend on.
    struct Seen: Hashable {
        var account: String
        /// Digests of the purchases' transactions, ascending.
        var purchases: [String] = []
        var revoked: [String] = []
        /// The groups with an active period.
        var active: [String] = []
        /// The ends that were announced, by group.
        var announced: [String: String] = [:]
    }

    /// The events that are kept, oldest first.
    package internal(set) var events: [Event] = []
    /// The number of the last event, 0 before the first.
    package internal(set) var last: UInt64 = 0
    /// The number of the last event that the program of `--on-event` has taken.
    package internal(set) var delivered: UInt64 = 0
    /// The number of events that were discarded before the program could take them.
    package internal(set) var lostCount: UInt64 = 0
    var isFailing = false
    var seen: Seen?

    package static let maximumEventCount = 256
    package static let maximumByteCount = 256 << 10

    package init() {}

    /// The events after the one with `number`. Earlier ones may be missing if they are no longer kept.
    package func events(after number: UInt64) -> ArraySlice<Event> {
        events.drop { $0.number <= number }
    }

    /// The oldest event that the program has not taken.
    package var nextUndelivered: Event? { events.first { $0.number > delivered } }

    /// Records that the program has taken, or finally failed to take, the event with `number`.
    package mutating func deliver(_ number: UInt64) { delivered = max(delivered, min(number, last)) }

    /// Records that no program takes the events so far.
    package mutating func deliverAll() { delivered = last }

    /// Discards all events and what was seen, because the account was erased. Numbers go on.
    package mutating func forgetAll() {
        (events, seen) = ([], seen.map { _ in Seen(account: "") })
        deliverAll()
    }

    /// Adds the events that lead from the state that was seen last to `state`. The first state adds none.
    ///
    /// - Parameter notice: The time before the end of a subscription at which it is announced.
    package mutating func observe(_ state: CurrentState, noticeBeforeExpiry notice: Duration) {
        let account = "\(state.account)"
        let old = seen?.account == account ? seen : nil
        let new = Seen(state, account, noticeBeforeExpiry: notice)
        defer { seen = new }
        if let before = seen, old == nil {
            let from: [(String, JSON)] = before.account.isEmpty ? [] : [("from", .string(before.account))]
            add(.accountChanged, state, from + [("to", .string(account))])
        }
        guard let old else { return }
        addPurchases(state, since: old)
        for group in old.active where !new.active.contains(group) {
            let end = state.snapshot[group: GroupID(group)]?.expires
            add(.expired, state, [("group", .string(group)), ("expires", JSON(end?.description))])
        }
        for (group, end) in new.announced.sorted(by: { $0.key < $1.key }) where old.announced[group] != end {
            add(.expiring, state, [("group", .string(group)), ("expires", .string(end))])
        }
    }

    /// Adds the failure of a sync, unless the one before has failed too.
    package mutating func add(_ failure: EntitlementError?, at time: Timestamp, account: Account) {
        defer { isFailing = failure != nil }
        guard let failure, !isFailing else { return }
        append(
            .syncFailed,
            [
                ("at", .string("\(time)")), ("account", .string("\(account)")), ("reason", .string(failure.message)),
                ("isTransient", .bool(failure.isTransient)),
            ])
    }

    private mutating func addPurchases(_ state: CurrentState, since old: Seen) {
        let facts = state.replay.facts
        let (known, revoked) = (Set(old.purchases), Set(old.revoked))
        let changes = PurchaseChanges(
            in: facts, wasKnown: { known.contains(Seen.digest($0)) }, wasRevoked: { revoked.contains(Seen.digest($0)) },
            isOwn: { facts.recordings(of: $0).contains { $0.replica == state.replica } })
        add(.purchased, state, changes.bought)
        add(.restored, state, changes.restored)
        add(.revoked, state, facts.purchases.filter { changes.revoked.contains($0.transaction) })
        add(.reinstated, state, facts.purchases.filter { changes.reinstated.contains($0.transaction) })
    }

    private mutating func add(_ kind: Kind, _ state: CurrentState, _ purchases: [Purchase]) {
        guard !purchases.isEmpty else { return }
        let list = purchases.prefix(100).map { purchase in
            JSON.object(
                purchase.transaction.members + [
                    ("productID", .string(purchase.product.rawValue)), ("date", .string("\(purchase.date)")),
                ])
        }
        add(kind, state, [("count", .number(Int64(purchases.count))), ("purchases", .array(list))])
    }

    private mutating func add(_ kind: Kind, _ state: CurrentState, _ members: [(String, JSON)]) {
        let access = state.snapshot.access.map { ($0.entitlement.rawValue, JSON.bool($0.access.isGranted)) }
        append(
            kind,
            [("at", .string("\(state.snapshot.at)")), ("account", .string("\(state.account)"))] + members
                + [("granted", .object(access))])
    }

    private mutating func append(_ kind: Kind, _ members: [(String, JSON)]) {
        last += 1
        let head: [(String, JSON)] = [("number", .number(Int64(last))), ("type", .string(kind.rawValue))]
        events.append(Event(number: last, kind: kind.rawValue, json: JSON.object(head + members).line))
        discardOldest()
    }

    private mutating func discardOldest() {
        var byteCount = events.reduce(0) { $0 + $1.json.utf8.count }
        while events.count > Self.maximumEventCount || (byteCount > Self.maximumByteCount && events.count > 1) {
            let oldest = events.removeFirst()
            byteCount -= oldest.json.utf8.count
            if oldest.number > delivered { lostCount += 1 }
        }
    }
}

extension EventLog.Seen {
    fileprivate init(_ state: CurrentState, _ account: String, noticeBeforeExpiry notice: Duration) {
        let facts = state.replay.facts
        self.init(
            account: account, purchases: facts.purchases.map { Self.digest($0.transaction) }.sorted(),
            revoked: facts.revokedTransactions.map(Self.digest).sorted(),
            active: state.snapshot.subscriptions.filter(\.isActive).map(\.group.rawValue),
            announced: Dictionary(
                uniqueKeysWithValues: state.snapshot.ends(within: notice).map {
                    ($0.key.rawValue, $0.value.description)
                }
            ))
    }

    static func digest(_ transaction: TransactionReference) -> String {
        String(
            XXHash64.digest(
                of: Array("\(transaction.store)\n\(transaction.environment)\n\(transaction.id)".utf8)), radix: 36)
    }
}
