public import Entitlements

extension EntitlementStore {
    /// Returns the current access to an entitlement, as derived from the local store. Needs no network.
    ///
    /// - Throws: ``EntitlementError`` of kind `unknownEntitlement`, `storage` or `damaged`.
    public func access(to entitlement: EntitlementID) async throws(EntitlementError) -> Access {
        try await entitlementAccess(to: entitlement).access
    }

    /// Returns the current access to an entitlement with the period that grants it.
    ///
    /// - Throws: The errors of ``access(to:)``.
    package func entitlementAccess(
        to entitlement: EntitlementID
    ) async throws(EntitlementError) -> Snapshot.EntitlementAccess {
        let session = session
        let state = try await load(session)
        let context = try context(of: state, in: session)
        guard let access = state.replay.entitlementAccess(to: entitlement, at: now, context: context) else {
            throw .unknown(entitlement)
        }
        return access
    }

    /// Returns the current subscriptions, products, balances and access, as derived from the local store. Needs no
    /// network.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public func snapshot() async throws(EntitlementError) -> Snapshot {
        let session = session
        return try snapshot(of: try await load(session), in: session)
    }

    /// Returns the local facts as replayed under the catalogue's rules, for explanations and tests.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public func replay() async throws(EntitlementError) -> Replay {
        try await session.read().replay
    }

    /// Returns the account's ledger as the local store holds it, and the ledger that stays on this device.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public func localLedgers() async throws(EntitlementError) -> (account: Ledger, device: Ledger) {
        let state = try await session.read()
        return (state.account.document.ledger, state.device.document.ledger)
    }

    /// Returns the server ledger: this device's copy, or the server's own one for a store that was opened over a
    /// server's store. Empty if there is none.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    package func serverLedger() async throws(EntitlementError) -> Ledger {
        try await session.read().serverLedger.ledger
    }

    /// Returns the date on which `product`'s group would end if the product were bought now. Useful in a renewal
    /// dialogue.
    ///
    /// - Parameters:
    ///   - product: A non-renewing subscription of the catalogue.
    ///   - quantity: The number of items to buy, 1 to 10,000.
    /// - Returns: The end; `Timestamp.latest` if the group would never end.
    /// - Throws: ``EntitlementError`` of kind `unknownProduct`, `invalid`, `storage` or `damaged`.
    public func preview(buying product: ProductID, quantity: Int64 = 1) async throws(EntitlementError) -> Timestamp {
        guard let known = catalog[product: product] else { throw .unknown(product) }
        guard case .nonRenewing = known.kind else {
            throw EntitlementError(
                .invalid, "\"\(product)\" is \(known.kind.name); only a nonRenewing product has an end to preview")
        }
        guard Purchase.quantityRange.contains(quantity),
            let end = try await session.read().replay.end(afterBuying: product, quantity: quantity, at: now)
        else { throw EntitlementError(.invalid, "quantity must be 1 to 10,000, not \(quantity)") }
        return end
    }

    /// The result of ``EntitlementStore/use(_:id:)``.
    public enum UseOutcome: Hashable, Sendable {
        /// A period or an ownership grants access; no unit was spent.
        case granted(Access.Grant)
        /// A unit of the product was spent. Repeating the call with the same id spends nothing more.
        case spent(remaining: Int64, of: ProductID)
        /// Access is denied; nothing changed.
        case denied(Access.Denial)
    }

    /// Uses an entitlement once. A period or an ownership covers the use if there is one; otherwise the use spends a
    /// unit.
    ///
    /// - Parameters:
    ///   - entitlement: The entitlement to use.
    ///   - id: An idempotency key. One id spends at most one unit, however often the call is repeated. The default is a
    ///     random id.
    /// - Returns: The source that covered the use, or the reason for denying it.
    /// - Throws: ``EntitlementError`` of kind `unknownEntitlement`, `invalid` (the id), `contradiction` (the id has
    ///   spent a unit of a product that does not grant this entitlement), `ledgerFull`, `storage` or `damaged`.
    public func use(_ entitlement: EntitlementID, id: SpendID? = nil) async throws(EntitlementError) -> UseOutcome {
        let id = id ?? SpendID(host.randomUUID())
        let session = session
        let before = try await load(session)
        let now = now
        let context = try context(of: before, in: session)
        func use(in state: LocalState) throws(EntitlementError) -> Replay.Use {
            do { return try state.replay.use(entitlement, id: id, at: now, context: context) } catch {
                throw EntitlementError(error)
            }
        }
        // A use that spends no unit writes nothing, not even a replica id.
        let first = try use(in: before)
        guard case .spends(let product, _) = first else { return UseOutcome(first) }
        var target = before.ledger(ofUnits: product, at: now)
        var state = before
        for _ in 0..<LedgerEntries.maximumAttempts {
            var other: DeviceLedgers.Target?
            let addition = try await session.append(to: target, startingWith: state) {
                (state, replica) throws(EntitlementError) in
                guard case .spends(let product, _) = try use(in: state) else { return [] }
                other = nil
                let place = state.ledger(ofUnits: product, at: now)
                guard place == target else {
                    other = place
                    return []
                }
                return [state.replay.spend(product, id: id, by: replica, at: now)]
            }
            if let other {
                // Another process has spent the last unit of that ledger in the meantime.
                (target, state) = (other, addition.state)
                continue
            }
            await publish(addition.facts, in: session, addition.state)
            return UseOutcome(try use(in: addition.state))
        }
        throw EntitlementError(.storage, "other processes kept spending units at the same time; try again")
    }

    func snapshot(of state: LocalState, in session: AccountSession) throws(EntitlementError) -> Snapshot {
        state.replay.snapshot(at: now, context: try context(of: state, in: session))
    }

    private func context(
        of state: LocalState, in session: AccountSession
    ) throws(EntitlementError) -> AccessContext {
        var context = AccessContext(
            isSignedIn: !session.account.isAnonymous && !session.account.isGuest,
            hasRestored: try state.hasSynced.get(), limit: try limit(of: state, at: now))
        context.isGuest = session.account.isGuest
        return context
    }
}

extension LocalState {
    /// Returns the ledger that a spend of `product` belongs to: the one whose units it takes.
    ///
    /// Under `ConsumableScope.shared` the device ledger may still hold units that were bought under `deviceLocal`. They
    /// are spent first, and from the device ledger, so that other devices do not lose shared units for them.
    fileprivate func ledger(ofUnits product: ProductID, at instant: Timestamp) -> DeviceLedgers.Target {
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

extension EntitlementStore.UseOutcome {
    fileprivate init(_ use: Replay.Use) {
        self =
            switch use {
            case .spends(_, let grant), .granted(let grant): .granted(grant)
            case .isSpent(let product, let remaining): .spent(remaining: remaining, of: product)
            case .denied(let denial): .denied(denial)
            }
    }
}
