extension Replay {
    /// Whether `entitlement` is granted at `instant`; `nil` when the catalogue does not know it.
    ///
    /// Ownership is preferred to time, time to units, and of several groups the one that lasts longest. Of the reasons
    /// for a denial the first that applies is given: pending approval, sign-in needed, restore needed, then the later
    /// of expiry and revocation, then used up, then not purchased.
    public func access(to entitlement: EntitlementID, at instant: Timestamp, context: AccessContext = AccessContext())
        -> Access?
    {
        guard let known = catalog[entitlement: entitlement] else { return nil }
        return access(to: known, at: instant, context: context)
    }

    func access(to entitlement: Entitlement, at instant: Timestamp, context: AccessContext) -> Access {
        if let grant = grant(of: entitlement, at: instant) { return .granted(grant) }
        let products = products(granting: entitlement)
        if products.contains(where: { isPending($0.id) }) { return .denied(.pendingApproval) }
        if !context.isSignedIn, products.contains(where: \.requiresAccount) { return .denied(.signInNeeded) }
        if !context.hasRestored { return .denied(.restoreNeeded) }
        return .denied(pastDenial(of: entitlement, at: instant))
    }

    private func grant(of entitlement: Entitlement, at instant: Timestamp) -> Access.Grant? {
        for source in entitlement.grantedBy {
            guard case .product(let id) = source, let ownership = ownerships[id], ownership.isOwned(at: instant)
            else { continue }
            return Access.Grant(until: ownership.end(at: instant), source: source)
        }
        var longest: Access.Grant?
        for source in entitlement.grantedBy {
            guard case .group(let id) = source, let timeline = timelines[id], timeline.isActive(at: instant),
                let end = timeline.chain(at: instant)?.end
            else { continue }
            if let until = longest?.until, until >= end { continue }
            longest = Access.Grant(until: end, source: source)
        }
        if let longest { return longest }
        for source in entitlement.grantedBy {
            guard case .units(let id) = source else { continue }
            let units = balance(of: id, at: instant)
            if units > 0 { return Access.Grant(until: nil, source: source, units: units) }
        }
        return nil
    }

    private func pastDenial(of entitlement: Entitlement, at instant: Timestamp) -> Access.Denial {
        var expired: Timestamp?
        var revoked: Timestamp?
        var hadUnits = false
        for source in entitlement.grantedBy {
            switch source {
            case .group(let id):
                guard let timeline = timelines[id] else { continue }
                expired = [expired, timeline.chain(at: instant)?.end].compactMap { $0 }.max()
                revoked = [revoked, timeline.lastRevocation(at: instant)].compactMap { $0 }.max()
            case .product(let id):
                revoked = [revoked, ownerships[id]?.lastRevocation(at: instant)].compactMap { $0 }.max()
            case .units(let id):
                revoked = [revoked, lastRevocation(ofUnits: id, at: instant)].compactMap { $0 }.max()
                hadUnits = hadUnits || hasGrantedUnits(of: id, at: instant)
            }
        }
        switch (expired, revoked) {
        case (let expired?, let revoked?): return revoked >= expired ? .revoked(revoked) : .expired(expired)
        case (let expired?, nil): return .expired(expired)
        case (nil, let revoked?): return .revoked(revoked)
        case (nil, nil): return hadUnits ? .usedUp : .notPurchased
        }
    }

    private func hasGrantedUnits(of product: ProductID, at instant: Timestamp) -> Bool {
        balanceSteps(of: product, at: instant).contains { if case .grant = $0.cause { true } else { false } }
    }

    private func lastRevocation(ofUnits product: ProductID, at instant: Timestamp) -> Timestamp? {
        facts.purchases(of: product).compactMap(facts.revocationDate(of:)).filter { $0 <= instant }.max()
    }

    /// Whether a non-consumable is owned at `instant`.
    public func isOwned(_ product: ProductID, at instant: Timestamp) -> Bool {
        ownerships[product]?.isOwned(at: instant) ?? false
    }

    /// Whether a purchase of `product` was asked for and neither arrived nor was withdrawn since.
    ///
    /// A purchase has arrived once anybody recorded it after the request: the clock of the device that made it may be
    /// behind.
    public func isPending(_ product: ProductID) -> Bool {
        guard let request = facts.pending[product], !request.isWithdrawn else { return false }
        return !facts.purchases(of: product).contains { facts.lastRecorded($0) > request.logicalTime }
    }

    private func products(granting entitlement: Entitlement) -> [Product] {
        entitlement.grantedBy.flatMap { source in
            switch source {
            case .product(let id), .units(let id): catalog[product: id].map { [$0] } ?? []
            case .group(let id): catalog.products.filter { $0.kind.group == id }
            }
        }
    }

    /// The end of the current chain of `product`'s group if it were bought now; `nil` for anything but a non-renewing
    /// subscription that the catalogue knows, and for a quantity other than 1 to 10,000. For a renewal dialogue.
    public func end(afterBuying product: ProductID, quantity: Int64 = 1, at instant: Timestamp) -> Timestamp? {
        guard let terms = catalog.terms(of: product), case .nonRenewing(let group, _) = terms.kind,
            Purchase.quantityRange.contains(quantity), let nobody = ReplicaID(bytes: [UInt8](repeating: 0, count: 16))
        else { return nil }
        // No fact of a ledger can be about this id: ids there have no control characters.
        let transaction = TransactionReference(store: "preview", environment: environment, id: "\u{1}")
        let time = facts.latestTime.next(at: instant)
        let purchase = Purchase(
            transaction: transaction, product: product, terms: terms, date: instant, quantity: quantity,
            stamp: Stamp(logicalTime: time))
        let recording = Recording(
            transaction: transaction, replica: nobody, recordedAt: instant, knownEnd: knownEnd(of: group),
            logicalTime: time)
        let after = Replay(facts.adding(purchase, recording), catalog: catalog, environment: environment)
        return after.timelines[group]?.chain(at: instant)?.end
    }

    /// The end that a replica which is about to record a purchase knows, as the tutorials store it.
    public func knownEnd(of group: GroupID) -> Timestamp? {
        timelines[group]?.periods.map(\.end).max()
    }
}
