public import Entitlements

extension EntitlementStore {
    /// Records that something was bought. Durable in the local store on return; a remote gets it with the next sync.
    ///
    /// Recording the same transaction again, on this device or another, adds nothing.
    ///
    /// - Throws: ``EntitlementError`` of kind `unknownProduct`, `invalid` (a quantity or an id), `contradiction` (the
    ///   transaction is known with another product, date, quantity or end, or signed by a store whose word nobody else
    ///   can take back), `ledgerFull`, `storage` or `damaged`.
    @discardableResult
    public func record(_ evidence: Evidence) async throws(EntitlementError) -> RecordingReceipt {
        try await record([evidence])
    }

    /// Records several statements. All are checked before any is written; a crash half way is mended by recording them
    /// again.
    ///
    /// - Throws: as ``record(_:)-(Evidence)``.
    @discardableResult
    public func record(_ evidence: [Evidence]) async throws(EntitlementError) -> RecordingReceipt {
        var plan = RecordingPlan(catalog: catalog, environment: environment, host: host)
        for item in evidence { try plan.add(item) }
        let session = session
        await refreshClock()
        let now = now
        let before = try await session.ledgers.current()
        // Nothing is written before everything was found sound.
        try plan.checkAgreement(with: before.facts)
        plan.settle(in: before.facts)
        let settled = plan
        let replica = try await session.ledgers.replica()
        let targets = [LocalLedgers.Target.account, .device].filter(settled.concerns)
        for target in targets {
            let facts = try plan.facts(for: target, in: before, replica: replica, now: now)
            _ = try LocalLedgers.union(of: before[target], and: facts)
        }
        feed.claim(plan.transactions, for: session.account)
        var newFacts: [Fact] = []
        for target in targets {
            newFacts += try await session.ledgers.append(to: target) { (state, replica) throws(EntitlementError) in
                try settled.facts(for: target, in: state, replica: replica, now: now)
            }.facts
        }
        await tell(of: newFacts, in: session)
        if environment == .production, let date = settled.latestSignature { clock.vouch(for: date) }
        return RecordingReceipt(transactions: plan.transactions, newFacts: newFacts)
    }

    /// Records that a purchase was taken back: ``record(_:)-(Evidence)`` of `.refunded`.
    ///
    /// - Returns: the fact if it was new, `nil` when the purchase was already revoked at that date.
    @discardableResult
    public func refund(_ transaction: TransactionReference, at date: Timestamp? = nil, reason: String = "")
        async throws(EntitlementError) -> Fact?
    {
        try await record(.refunded(transaction, at: date, reason: reason)).newFacts.first
    }

    /// Records that a refund was reversed: ``record(_:)-(Evidence)`` of `.reinstated`.
    ///
    /// - Returns: the fact if it was new, `nil` when there is nothing to reverse.
    @discardableResult
    public func reinstate(_ transaction: TransactionReference, reason: String = "")
        async throws(EntitlementError) -> Fact?
    {
        try await record(.reinstated(transaction, reason: reason)).newFacts.first
    }

    /// Puts a test environment back: everything that it holds up to now counts nothing any more, on every device of the
    /// account. Facts stay; purchases that are made afterwards count.
    ///
    /// - Returns: the facts that say so, for the account's ledger and this device's.
    /// - Throws: ``EntitlementError`` of kind `invalid` for `production`, `ledgerFull`, `storage` or `damaged`.
    @discardableResult
    public func reset(_ environment: EnvironmentID) async throws(EntitlementError) -> [Fact] {
        guard environment != .production else {
            throw EntitlementError(.invalid, "what was bought in production is never put back; refund it instead")
        }
        do { try environment.validate() } catch { throw EntitlementError(.invalid, "environment: \(error)") }
        let session = session
        await refreshClock()
        let now = now
        var facts: [Fact] = []
        for target in [LocalLedgers.Target.account, .device] {
            facts += try await session.ledgers.append(to: target) { state in
                let time = state.facts.latestTime.next(at: now)
                return [.reset(EnvironmentReset(environment: environment, date: now, logicalTime: time))]
            }.facts
        }
        await tell(of: facts, in: session)
        return facts
    }

    /// Marks a non-consumable as owned, or no longer so, without a transaction.
    ///
    /// Which mark counts is the flag rule's to say: under `purchasedWins` a mark once set counts, whatever was cleared.
    ///
    /// - Returns: the fact if it changed anything.
    /// - Throws: ``EntitlementError`` of kind `unknownProduct`, `invalid` (no non-consumable), `ledgerFull`, `storage`
    ///   or `damaged`.
    @discardableResult
    public func flag(_ product: ProductID, isSet: Bool = true) async throws(EntitlementError) -> Fact? {
        guard let known = catalog[product: product] else { throw .unknown(product) }
        guard known.kind == .nonConsumable else {
            throw EntitlementError(.invalid, "\"\(product)\" is \(known.kind.name), only a nonConsumable has a flag")
        }
        let (session, environment) = (session, environment)
        await refreshClock()
        let now = now
        let facts = try await session.ledgers.append(to: .account) { state, replica in
            let time = state.facts.latestTime.next(at: now)
            let marks = state.facts.flags[FlagMarks.Reference(product, environment)]
            if marks?.latest?.isSet ?? false == isSet { return [] }
            return [
                .flag(
                    Flag(
                        product: product, environment: environment, isSet: isSet, date: now, replica: replica,
                        logicalTime: time))
            ]
        }.facts
        await tell(of: facts, in: session)
        return facts.first
    }
}

extension EntitlementError {
    static func unknown(_ product: ProductID) -> EntitlementError {
        EntitlementError(.unknownProduct, "the catalogue has no product \"\(product.rawValue.singleLine)\"")
    }

    static func unknown(_ entitlement: EntitlementID) -> EntitlementError {
        EntitlementError(
            .unknownEntitlement, "the catalogue has no entitlement \"\(entitlement.rawValue.singleLine)\"")
    }
}
