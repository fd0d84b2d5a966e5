extension Replay {
    /// Decides access to `entitlement` at `instant`.
    ///
    /// Ownership takes precedence over time, and time over units. Among active groups, levels and auto-renewable
    /// products, the one that lasts longest grants access.
    ///
    /// A denial gives the first reason that applies, in this order: pending approval, sign-in needed, restore needed,
    /// the server's objection to a purchase that would grant access now, the later of expiry and revocation, used up,
    /// the server's objection to any other purchase, not purchased.
    ///
    /// - Parameters:
    ///   - entitlement: The entitlement that content asks for.
    ///   - instant: The instant for which to decide, usually the trusted current time.
    ///   - context: The sign-in and restore state. By default nothing is missing.
    /// - Returns: The decision; `nil` if the catalogue does not contain `entitlement`.
    public func access(to entitlement: EntitlementID, at instant: Timestamp, context: AccessContext = AccessContext())
        -> Access?
    {
        guard let known = catalog[entitlement: entitlement] else { return nil }
        return access(to: known, at: instant, context: context)
    }

    func access(to entitlement: Entitlement, at instant: Timestamp, context: AccessContext) -> Access {
        if let grant = grant(of: entitlement, at: instant) {
            guard let limit = context.limit else { return .granted(grant) }
            return limit.limiting(
                grant, of: entitlement.id, at: instant, isSignedIn: context.isSignedIn || context.isGuest)
        }
        let products = entitlement.grantedBy.flatMap(products(granting:))
        if products.contains(where: { isPending($0.id) }) { return .denied(.pendingApproval) }
        if !context.isSignedIn, products.contains(where: \.requiresAccount) { return .denied(.signInNeeded) }
        if !context.hasRestored { return .denied(.restoreNeeded) }
        return .denied(pastDenial(of: entitlement, products, at: instant))
    }

    private func grant(of entitlement: Entitlement, at instant: Timestamp) -> Access.Grant? {
        for source in entitlement.grantedBy {
            guard case .product(let id) = source, let ownership = ownerships[id], ownership.isOwned(at: instant)
            else { continue }
            return Access.Grant(until: ownership.end(at: instant), source: source)
        }
        var longest: Access.Grant?
        for source in entitlement.grantedBy {
            guard let timeline = timeline(of: source), timeline.isActive(at: instant),
                let end = timeline.chain(at: instant)?.end
            else { continue }
            if let longest, longest.until ?? .latest >= end { continue }
            longest = Access.Grant(until: end.asEnd, source: source)
        }
        if let longest { return longest }
        for source in entitlement.grantedBy {
            guard case .units(let id) = source else { continue }
            let units = balance(of: id, at: instant)
            if units > 0 { return Access.Grant(until: nil, source: source, units: units) }
        }
        return nil
    }

    private func pastDenial(
        of entitlement: Entitlement, _ products: [Product], at instant: Timestamp
    ) -> Access.Denial {
        var expired: Timestamp?
        var revoked: Timestamp?
        var hadUnits = false
        for source in entitlement.grantedBy {
            if let timeline = timeline(of: source) {
                expired = [expired, timeline.chain(at: instant)?.end].compactMap { $0 }.max()
                revoked = [revoked, timeline.lastRevocation(at: instant)].compactMap { $0 }.max()
            }
            switch source {
            case .group, .level: break
            case .product(let id):
                revoked = [revoked, ownerships[id]?.lastRevocation(at: instant)].compactMap { $0 }.max()
            case .units(let id):
                revoked = [revoked, lastRevocation(ofUnits: id, at: instant)].compactMap { $0 }.max()
                hadUnits = hadUnits || hasGrantedUnits(of: id, at: instant)
            }
        }
        let overruled = products.flatMap { overruledPurchases(of: $0.id, at: instant, after: expired) }
        if let last = overruled.filter(\.wouldGrant).max(by: { $0.date < $1.date }) { return last.denial }
        switch (expired, revoked) {
        case (let expired?, let revoked?): return revoked >= expired ? .revoked(revoked) : .expired(expired)
        case (let expired?, nil): return .expired(expired)
        case (nil, let revoked?): return .revoked(revoked)
        case (nil, nil) where hadUnits: return .usedUp
        case (nil, nil): return overruled.max { $0.date < $1.date }?.denial ?? .notPurchased
        }
    }

    /// A purchase that the account's server set aside.
    private struct OverruledPurchase {
        let date: Timestamp
        let denial: Access.Denial
        /// True if the purchase would grant access now if it counted.
        let wouldGrant: Bool
    }

    /// Returns the ends of what `purchase` would give if it counted, added to the time that counts at any instant.
    func possibleEnds(of purchase: Purchase) -> [Timestamp] {
        let pass = ReplayPass(facts: facts, catalog: catalog, environment: environment)
        let ends = [nil] + timelines.values.flatMap(\.chains).map { Optional($0.end) }
        return ends.map { pass.end(of: purchase, after: $0) }
    }

    /// Returns the purchases of `product` that the account's server set aside.
    ///
    /// - Parameter end: The end of the time that counts, to which further time would be added.
    private func overruledPurchases(
        of product: ProductID, at instant: Timestamp, after end: Timestamp?
    ) -> [OverruledPurchase] {
        let pass = ReplayPass(facts: facts, catalog: catalog, environment: environment)
        return facts.purchases(of: product).compactMap { purchase in
            guard case .setAside(let reason)? = verdict(on: purchase.transaction),
                let denial = Access.Denial(reason)
            else { return nil }
            if let revokedAt = facts.revocationDate(of: purchase), revokedAt <= instant {
                return OverruledPurchase(date: purchase.date, denial: .revoked(revokedAt), wouldGrant: false)
            }
            let refusal = reason == .unverified ? facts.refusalOfEvidence(about: purchase) : nil
            return OverruledPurchase(
                date: purchase.date, denial: refusal.map(Access.Denial.init(refusal:)) ?? denial,
                wouldGrant: purchase.date <= instant && instant < pass.end(of: purchase, after: end))
        }
    }

    private func hasGrantedUnits(of product: ProductID, at instant: Timestamp) -> Bool {
        balanceSteps(of: product, at: instant).contains { if case .grant = $0.cause { true } else { false } }
    }

    private func lastRevocation(ofUnits product: ProductID, at instant: Timestamp) -> Timestamp? {
        facts.purchases(of: product).compactMap(facts.revocationDate(of:)).filter { $0 <= instant }.max()
    }

    /// Returns `true` if the non-consumable `product` is owned at `instant`.
    public func isOwned(_ product: ProductID, at instant: Timestamp) -> Bool {
        ownerships[product]?.isOwned(at: instant) ?? false
    }

    /// Returns `true` if a purchase of `product` was requested and has neither arrived nor been withdrawn since.
    ///
    /// A purchase has arrived if any replica recorded it after the request. The comparison uses logical times, because
    /// the clock of the purchasing device may be behind.
    public func isPending(_ product: ProductID) -> Bool {
        guard let request = facts.pending[product], !request.isWithdrawn else { return false }
        return !facts.purchases(of: product).contains { facts.lastRecorded($0) > request.logicalTime }
    }

    /// The products of the catalogue whose purchase makes `source` grant.
    func products(granting source: Entitlement.Source) -> [Product] {
        switch source {
        case .product(let id), .units(let id): catalog[product: id].map { [$0] } ?? []
        case .group(let id): catalog.products.filter { $0.kind.group == id }
        case .level(let id, let level):
            catalog.products.filter { $0.kind.group == id && $0.kind.level ?? .max <= level }
        }
    }

    /// Returns the expiry of the product's group if the product were bought at `instant`.
    ///
    /// Use it to preview the new expiry before a purchase.
    ///
    /// - Parameters:
    ///   - product: A non-renewing subscription of the catalogue.
    ///   - quantity: The quantity to buy, 1 to 10,000.
    ///   - instant: The hypothetical purchase date.
    /// - Returns: The end of the current chain of periods, ``Timestamp/latest`` if it never ends; `nil` for any other
    ///   kind of product, for an unknown product, or if the quantity is out of range.
    public func end(afterBuying product: ProductID, quantity: Int64 = 1, at instant: Timestamp) -> Timestamp? {
        guard let terms = catalog.terms(of: product), case .nonRenewing(let group, _) = terms.kind,
            Purchase.quantityRange.contains(quantity), let replica = ReplicaID(bytes: [UInt8](repeating: 0, count: 16))
        else { return nil }
        // No stored fact can have this id, because valid ids contain no control characters.
        let transaction = TransactionReference(store: "preview", environment: environment, id: "\u{1}")
        let time = facts.latestTime.next(at: instant)
        let purchase = Purchase(
            transaction: transaction, product: product, terms: terms, date: instant, quantity: quantity,
            stamp: Stamp(logicalTime: time))
        let recording = Recording(
            transaction: transaction, replica: replica, recordedAt: instant, knownEnd: knownEnd(of: group),
            logicalTime: time)
        let after = Replay(facts.adding(purchase, recording), catalog: catalog, environment: environment)
        return after.timelines[group]?.chain(at: instant)?.end
    }

    /// Returns the latest end of all periods of `group`, as a replica stores it in ``Recording/knownEnd`` when it
    /// records a purchase; `nil` if there is none.
    package func knownEnd(of group: GroupID) -> Timestamp? {
        timelines[group]?.periods.map(\.end).max()?.asEnd
    }
}
