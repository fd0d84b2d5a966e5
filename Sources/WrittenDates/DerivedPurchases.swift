package import Entitlements

/// The purchases that a façade has derived from dates, because the client stated no transaction, and the transactions
/// of stores that they turn out to be.
///
/// Such a purchase counts until the store's own transaction is known. It is then refused, so that the purchase does not
/// count twice. A transaction is the derived purchase if it
///
/// - precedes it by at most an hour,
/// - has its duration, or a shorter one and became known later: then the client has added two purchases at once, and
/// - is not part of the end that the client has extended.
///
/// Any other transaction is a further purchase. Those that are known when the date is written are stored as recordings
/// of the transaction by the installation that wrote it, up to a limit.
package enum DerivedPurchases {
    /// The store of derived purchases, and the source of assertions about them.
    package static let store: StoreID = "parse"
    /// The largest time between a derived purchase and the transaction that it is, in milliseconds.
    package static let window: Int64 = 3_600_000
    /// The largest time by which that transaction may be the later one, in milliseconds. An app writes its date after
    /// the store has sold the purchase, so only the clocks of the two servers can differ.
    package static let clockTolerance: Int64 = 30_000

    /// The largest number of transactions that are recorded as other purchases than a derived one: the nearest ones.
    private static let distinctionLimit = 64

    /// A derived purchase that is a transaction of a store.
    fileprivate struct Match {
        /// The derived purchase.
        var purchase: TransactionReference
        /// The transaction.
        var transaction: TransactionReference
        /// The assertion that replaces the derived purchase if its duration is another one: the client added several
        /// purchases at once.
        var assertion: Assertion?

        /// The reason of the refusal. It names the transaction, so that no other purchase is matched with it.
        var reason: String { "is \(transaction)" }
    }

    /// The derived purchases of two ledgers that are transactions of stores and are not refused yet, one to one.
    ///
    /// - Parameters:
    ///   - account: The account's ledger.
    ///   - server: The ledger that only the server writes.
    ///   - catalog: The catalogue of the server.
    ///   - now: The server's time.
    fileprivate static func matches(account: Ledger, server: Ledger, catalog: Catalog, now: Timestamp) -> [Match] {
        let facts = Facts(account: account, server: server)
        let (derived, sold) = candidates(facts, catalog)
        guard !derived.isEmpty, !sold.isEmpty else { return [] }
        var taken = Set(facts.acceptances.values.compactMap(\.refusalReason))
        var matches: [Match] = []
        // The same duration is preferred, so pairs of another one are only made of what is left.
        for isSame in [true, false] {
            for purchase in derived where !matches.contains(where: { $0.purchase == purchase.transaction }) {
                let possible = sold.filter { isPossible($0, purchase, catalog) && !facts.areDistinct(purchase, $0) }
                let near = possible.filter { other in
                    (isSame ? other.isAsLong(as: purchase, catalog) : other.isShorter(than: purchase, catalog))
                        && !facts.transactions(of: other).contains { taken.contains("is \($0)") }
                }
                let nearest = near.min {
                    (distance(purchase, $0), $0.transaction) < (distance(purchase, $1), $1.transaction)
                }
                guard let nearest else { continue }
                var match = Match(purchase: purchase.transaction, transaction: nearest.transaction)
                taken.insert(match.reason)
                if !isSame {
                    let others = Set(possible.flatMap { facts.transactions(of: $0) })
                    match.assertion = assertion(of: purchase, account, server, without: others, catalog, facts, now)
                }
                matches.append(match)
            }
        }
        return matches
    }

    /// The known transactions of stores near a derived purchase that are other purchases. Each is a recording of the
    /// transaction by the installation that wrote the date.
    ///
    /// - Parameter isContained: Returns `true` if the written end contains the period of the transaction, beside the
    ///   derived purchase.
    static func distinctions(
        of purchase: Purchase, _ facts: Facts, _ replay: Replay, isContained: (Purchase, Period) -> Bool
    ) -> [Recording] {
        let catalog = replay.catalog
        guard let replica = purchase.recorder, let group = purchase.group(catalog) else { return [] }
        let contributions = replay.timelines[group]?.contributions ?? []
        let periods = Dictionary(contributions.map { ($0.transaction, $0) }) { first, _ in first }
        let near = candidates(facts, catalog).sold.filter { isPossible($0, purchase, catalog) }
            .sorted { (distance(purchase, $0), $0.transaction) < (distance(purchase, $1), $1.transaction) }
        return near.prefix(distinctionLimit).compactMap { other in
            let period = periods[other.transaction]
            guard !other.isAsLong(as: purchase, catalog) || period.map({ isContained(other, $0) }) == true else {
                return nil
            }
            // The end that was known before the transaction, so that all rules give it the same period as before.
            return Recording(
                transaction: other.transaction, replica: replica, recordedAt: purchase.date, knownEnd: period?.start,
                logicalTime: purchase.stamp.logicalTime)
        }
    }

    /// Returns `true` if the dates and the groups let the transaction `other` be `purchase`, or a part of it.
    private static func isPossible(_ other: Purchase, _ purchase: Purchase, _ catalog: Catalog) -> Bool {
        let delay = purchase.date.milliseconds - other.date.milliseconds
        return (-clockTolerance...window).contains(delay) && other.isOfGroup(of: purchase, catalog)
    }

    /// The purchases of time that count: the derived ones, and those of stores.
    private static func candidates(_ facts: Facts, _ catalog: Catalog) -> (derived: [Purchase], sold: [Purchase]) {
        let counting = facts.purchases.filter { purchase in
            purchase.duration(catalog) != nil && facts.acceptance(of: purchase)?.refusalReason == nil
        }
        return (
            counting.filter { $0.transaction.store == store }, counting.filter { $0.transaction.store != store }
        )
    }

    private static func distance(_ left: Purchase, _ right: Purchase) -> Int64 {
        abs(left.date.milliseconds - right.date.milliseconds)
    }

    /// The assertion until the end that `purchase` has without the transactions `others`.
    private static func assertion(
        of purchase: Purchase, _ account: Ledger, _ server: Ledger, without others: Set<TransactionReference>,
        _ catalog: Catalog, _ facts: Facts, _ now: Timestamp
    ) -> Assertion? {
        guard let group = purchase.group(catalog) else { return nil }
        let (account, server) = (account.removing(others), server.removing(others))
        let replay = Replay(
            Facts(account: account, server: server), catalog: catalog, environment: purchase.transaction.environment)
        let periods = replay.snapshot(at: now)[group: group]?.periods ?? []
        guard let end = periods.first(where: { $0.transaction == purchase.transaction })?.end else { return nil }
        // After all transactions that may be part of the sum, so that none of them comes on top of it.
        let assertedAt = Timestamp(milliseconds: purchase.date.milliseconds + clockTolerance)
        guard let replica = ReplicaID(bytes: [UInt8](repeating: 0, count: 16)) else { return nil }
        return Assertion(
            Assertion.Reference(
                group: group, source: SourceID(store.rawValue), until: end,
                environment: purchase.transaction.environment),
            assertedAt: assertedAt, recordedAt: now, replica: replica, logicalTime: facts.latestTime.next(at: now))
    }
}

extension ServerLedger {
    /// Refuses the derived purchases of `account` that are transactions of stores.
    package mutating func refuseDerivedPurchases(of account: Ledger, catalog: Catalog, at now: Timestamp) {
        for match in DerivedPurchases.matches(account: account, server: ledger, catalog: catalog, now: now) {
            decide(.refused(match.reason), about: [match.purchase], at: now)
            if let assertion = match.assertion { _ = add([.assertion(assertion)], catalog: catalog, at: now) }
        }
    }
}

extension Ledger {
    fileprivate func removing(_ transactions: Set<TransactionReference>) -> Ledger {
        Ledger(records.filter { record in record.purchase.map { !transactions.contains($0.transaction) } ?? true })
    }
}

extension Acceptance {
    fileprivate var refusalReason: String? { if case .refused(let reason) = decision { reason } else { nil } }
}

extension Facts {
    /// Returns `true` if the installation that wrote `purchase` is known to have bought it beside `other`.
    fileprivate func areDistinct(_ purchase: Purchase, _ other: Purchase) -> Bool {
        recordings(of: other).contains { $0.replica == purchase.recorder }
    }
}

extension Purchase {
    /// The replica that stands for the installation that wrote the date of a derived purchase; `nil` for other
    /// purchases.
    fileprivate var recorder: ReplicaID? { ReplicaID(bytes: Array(transaction.id.rawValue.utf8.prefix(16))) }

    fileprivate func isAsLong(as other: Purchase, _ catalog: Catalog) -> Bool {
        duration(catalog) == other.duration(catalog)
    }

    fileprivate func isShorter(than other: Purchase, _ catalog: Catalog) -> Bool {
        guard let own = duration(catalog), let others = other.duration(catalog) else { return false }
        let start = Timestamp(milliseconds: 0)
        return start.adding(own) < start.adding(others)
    }

    private func kind(_ catalog: Catalog) -> ProductKind? { (terms ?? catalog.terms(of: product))?.kind }

    fileprivate func duration(_ catalog: Catalog) -> CalendarDuration? {
        if case .nonRenewing(_, let duration)? = kind(catalog) { duration.multiplied(by: quantity) } else { nil }
    }

    fileprivate func group(_ catalog: Catalog) -> GroupID? { kind(catalog)?.group }

    fileprivate func isOfGroup(of other: Purchase, _ catalog: Catalog) -> Bool {
        group(catalog) == other.group(catalog) && transaction.environment == other.transaction.environment
    }
}
