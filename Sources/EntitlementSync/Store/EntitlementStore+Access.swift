public import Entitlements

extension EntitlementStore {
    /// Whether content may be shown now, by what the local store holds. Needs no network.
    ///
    /// - Throws: ``EntitlementError`` of kind `unknownEntitlement`, `storage` or `damaged`.
    public func access(to entitlement: EntitlementID) async throws(EntitlementError) -> Access {
        let state = try await ledgers.current()
        guard let access = state.replay.access(to: entitlement, at: now, context: try await context(of: state)) else {
            throw .unknown(entitlement)
        }
        return access
    }

    /// All that holds now, by what the local store holds.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public func snapshot() async throws(EntitlementError) -> Snapshot {
        try await snapshot(of: try await ledgers.current())
    }

    /// The facts of the local store under the catalogue's rules, for explanations and tests.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public func replay() async throws(EntitlementError) -> Replay {
        try await ledgers.current().replay
    }

    /// The account's ledger as the local store holds it, and the one that stays on this device.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public func localLedgers() async throws(EntitlementError) -> (account: Ledger, device: Ledger) {
        let state = try await ledgers.current()
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
            let end = try await ledgers.current().replay.end(afterBuying: product, quantity: quantity, at: now)
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
        let before = try await ledgers.current()
        let target: LocalLedgers.Target = catalog.policy.rules.consumables == .deviceLocal ? .device : .account
        let now = now
        let context = try await context(of: before)
        let known = before.facts.spends.first { $0.id == id }
        // A store that has no id of its own yet gets one only when there is a unit to spend.
        guard let access = before.replay.access(to: entitlement, at: now, context: context) else {
            throw .unknown(entitlement)
        }
        guard known != nil || access.isByUnits else { return UseOutcome(access) }
        let replica = try await ledgers.replica()
        let facts = try await ledgers.append(to: target) { state throws(EntitlementError) in
            guard let access = state.replay.access(to: entitlement, at: now, context: context) else {
                throw .unknown(entitlement)
            }
            guard !state.facts.spends.contains(where: { $0.id == id }),
                case .granted(let grant) = access, case .units(let product) = grant.because
            else { return [] }
            let time = state.facts.latestTime.next(at: now)
            return [
                .spend(Spend(id: id, product: product, units: 1, date: now, replica: replica, logicalTime: time))
            ]
        }
        try await publish(changesSince: before, facts: facts)
        let after = try await ledgers.current().replay
        let spent = facts.lazy.compactMap { if case .spend(let spend) = $0 { spend } else { nil } }.first
        if let spend = spent ?? known {
            return .spent(remaining: after.balance(of: spend.product, at: now), of: spend.product)
        }
        guard let access = after.access(to: entitlement, at: now, context: context) else { throw .unknown(entitlement) }
        return UseOutcome(access)
    }

    func snapshot(of state: LocalLedgers.State) async throws(EntitlementError) -> Snapshot {
        state.replay.snapshot(at: now, context: try await context(of: state))
    }

    func context(of state: LocalLedgers.State) async throws(EntitlementError) -> AccessContext {
        AccessContext(isSignedIn: !account.isAnonymous, hasRestored: try await hasMetRemote())
    }
}

extension Access {
    fileprivate var isByUnits: Bool { if case .granted(let grant) = self { grant.units != nil } else { false } }
}

extension EntitlementStore.UseOutcome {
    fileprivate init(_ access: Access) {
        switch access {
        case .granted(let grant): self = .granted(grant)
        case .denied(let denial): self = .denied(denial)
        }
    }
}
