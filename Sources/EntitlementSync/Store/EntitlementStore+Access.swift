public import Entitlements

extension EntitlementStore {
    /// Whether content may be shown now, by what the local store holds. Needs no network.
    ///
    /// - Throws: ``EntitlementError`` of kind `unknownEntitlement`, `storage` or `damaged`.
    public func access(to entitlement: EntitlementID) async throws(EntitlementError) -> Access {
        let session = session
        await refreshClock()
        let state = try await session.ledgers.current()
        let context = try await context(of: session)
        guard let access = state.replay.access(to: entitlement, at: now, context: context) else {
            throw .unknown(entitlement)
        }
        return access
    }

    /// All that holds now, by what the local store holds.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public func snapshot() async throws(EntitlementError) -> Snapshot {
        let session = session
        await refreshClock()
        return try await snapshot(of: try await session.ledgers.current(), in: session)
    }

    /// The facts of the local store under the catalogue's rules, for explanations and tests.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public func replay() async throws(EntitlementError) -> Replay {
        try await session.ledgers.current().replay
    }

    /// The account's ledger as the local store holds it, and the one that stays on this device.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public func localLedgers() async throws(EntitlementError) -> (account: Ledger, device: Ledger) {
        let state = try await session.ledgers.current()
        return (state.account.document.ledger, state.device.document.ledger)
    }

    /// The end of `product`'s group if it were bought now, for a renewal dialogue.
    ///
    /// - Parameters:
    ///   - product: a non-renewing subscription of the catalogue.
    ///   - quantity: how many, 1 to 10,000.
    /// - Throws: ``EntitlementError`` of kind `unknownProduct`, `invalid`, `storage` or `damaged`.
    public func preview(buying product: ProductID, quantity: Int64 = 1) async throws(EntitlementError) -> Timestamp {
        guard let known = catalog[product: product] else { throw .unknown(product) }
        guard case .nonRenewing = known.kind else {
            throw EntitlementError(
                .invalid, "\"\(product)\" is \(known.kind.name), only a nonRenewing has an end to preview")
        }
        guard Purchase.quantityRange.contains(quantity),
            let end = try await session.ledgers.current().replay.end(afterBuying: product, quantity: quantity, at: now)
        else { throw EntitlementError(.invalid, "a quantity is 1 to 10000, not \(quantity)") }
        return end
    }

    /// What ``use(_:id:)`` did.
    public enum UseOutcome: Hashable, Sendable {
        /// A period or an ownership grants it; no unit was spent.
        case granted(Access.Grant)
        /// A unit was spent, and so many are left. The same id again spends nothing more.
        case spent(remaining: Int64, of: ProductID)
        /// It is denied; nothing changed.
        case denied(Access.Denial)
    }

    /// Uses an entitlement once: by a period or ownership where there is one, else by a unit.
    ///
    /// - Parameters:
    ///   - entitlement: what to use.
    ///   - id: an idempotency key: one id spends once, however often the call is repeated. Random when not given.
    /// - Throws: ``EntitlementError`` of kind `unknownEntitlement`, `invalid` (the id), `ledgerFull`, `storage` or
    ///   `damaged`.
    public func use(_ entitlement: EntitlementID, id: SpendID? = nil) async throws(EntitlementError) -> UseOutcome {
        let id = id ?? SpendID(host.randomUUID())
        do { try id.validate() } catch { throw EntitlementError(.invalid, "spend id: \(error)") }
        let session = session
        await refreshClock()
        let now = now
        let before = try await session.ledgers.current()
        let context = try await context(of: session)
        // What spends nothing writes nothing, not even a replica's id.
        guard let product = try before.replay.spends(for: entitlement, id: id, at: now, context: context) else {
            return try outcome(of: entitlement, id: id, in: before.replay, at: now, context: context)
        }
        var target = before.ledger(ofUnits: product, at: now)
        for _ in 0..<LedgerEntries.maximumAttempts {
            var other: LocalLedgers.Target?
            let addition = try await session.ledgers.append(to: target) { (state, replica) throws(EntitlementError) in
                guard let product = try state.replay.spends(for: entitlement, id: id, at: now, context: context) else {
                    return []
                }
                other = nil
                let place = state.ledger(ofUnits: product, at: now)
                guard place == target else {
                    other = place
                    return []
                }
                let time = state.facts.latestTime.next(at: now)
                return [
                    .spend(
                        Spend(
                            id: id, product: product, units: 1, environment: environment, date: now, replica: replica,
                            logicalTime: time))
                ]
            }
            if let other {
                // Meanwhile another process has spent the last unit of that ledger.
                target = other
                continue
            }
            await tell(of: addition.facts, in: session)
            return try outcome(of: entitlement, id: id, in: addition.state.replay, at: now, context: context)
        }
        throw EntitlementError(.storage, "others kept spending units in between, try again")
    }

    /// What a use has done that left things as `replay` has them.
    private func outcome(
        of entitlement: EntitlementID, id: SpendID, in replay: Replay, at instant: Timestamp, context: AccessContext
    ) throws(EntitlementError) -> UseOutcome {
        if let spend = replay.facts.spends.first(where: { $0.id == id }) {
            guard let known = catalog[entitlement: entitlement] else { throw .unknown(entitlement) }
            guard known.grantedBy.contains(.units(spend.product)) else {
                throw EntitlementError(
                    .contradiction,
                    "spend id \"\(id.rawValue.singleLine)\" has already spent a unit of \(spend.product)")
            }
            return .spent(remaining: replay.balance(of: spend.product, at: instant), of: spend.product)
        }
        switch replay.access(to: entitlement, at: instant, context: context) {
        case .granted(let grant): return .granted(grant)
        case .denied(let denial): return .denied(denial)
        case nil: throw .unknown(entitlement)
        }
    }

    func snapshot(of state: LocalLedgers.State, in session: AccountSession) async throws(EntitlementError) -> Snapshot {
        state.replay.snapshot(at: now, context: try await context(of: session))
    }

    func context(of session: AccountSession) async throws(EntitlementError) -> AccessContext {
        AccessContext(isSignedIn: !session.account.isAnonymous, hasRestored: try await hasMetRemote(for: session))
    }
}

extension LocalLedgers.State {
    /// Where a spend of `product` belongs: into the ledger whose units it takes. Under `ConsumableScope.shared` the
    /// device may still hold units that were bought before; those are spent first, and from the device's ledger, so
    /// that they are not taken from what other devices see.
    fileprivate func ledger(ofUnits product: ProductID, at instant: Timestamp) -> LocalLedgers.Target {
        guard replay.rules.consumables == .shared else { return .device }
        guard !device.ledger.isEmpty else { return .account }
        var rules = replay.rules
        rules.consumables = .deviceLocal
        let own = Facts(account: device.ledger, device: device.ledger)
        let units = Replay(own, catalog: replay.catalog, environment: replay.environment, rules: rules)
            .balance(of: product, at: instant)
        return units > 0 ? .device : .account
    }
}

extension Replay {
    /// Whose unit a use spends; `nil` when something better grants the entitlement, nothing does, or the id has spent
    /// already.
    fileprivate func spends(
        for entitlement: EntitlementID, id: SpendID, at instant: Timestamp, context: AccessContext
    ) throws(EntitlementError) -> ProductID? {
        guard let access = access(to: entitlement, at: instant, context: context) else { throw .unknown(entitlement) }
        guard !facts.spends.contains(where: { $0.id == id }),
            case .granted(let grant) = access, case .units(let product) = grant.source
        else { return nil }
        return product
    }
}
