public import Entitlements

extension EntitlementStore {
    /// Records that something was bought. Durable in the local store on return; a remote gets it with the next sync.
    ///
    /// Recording the same transaction again, on this device or another, adds nothing.
    ///
    /// - Throws: ``EntitlementError`` of kind `unknownProduct`, `invalid` (a quantity or an id), `contradiction` (the
    ///   transaction is known with another product, date or quantity), `ledgerFull`, `storage` or `damaged`.
    @discardableResult
    public func record(_ evidence: Evidence) async throws(EntitlementError) -> RecordingReceipt {
        try await record([evidence])
    }

    /// Records several purchases. All are checked before any is written; a crash half way is mended by recording them
    /// again.
    ///
    /// - Throws: as ``record(_:)-(Evidence)``.
    @discardableResult
    public func record(_ evidence: [Evidence]) async throws(EntitlementError) -> RecordingReceipt {
        var plan = RecordingPlan(catalog: catalog, environment: environment, host: host)
        for item in evidence { try plan.add(item) }
        let now = now
        let before = try await ledgers.current()
        // Nothing is written before everything was found sound.
        try plan.checkAgreement(with: before.facts)
        let replica = try await ledgers.replica()
        for target in [LocalLedgers.Target.account, .device] where plan.concerns(target) {
            let facts = try plan.facts(for: target, in: before, replica: replica, now: now)
            _ = try LocalLedgers.union(of: before[target], and: facts)
        }
        feed.claim(plan.transactions)
        var newFacts: [Fact] = []
        for target in [LocalLedgers.Target.account, .device] where plan.concerns(target) {
            newFacts += try await ledgers.append(to: target) { state throws(EntitlementError) in
                try plan.facts(for: target, in: state, replica: replica, now: now)
            }.facts
        }
        await tell(of: newFacts)
        return RecordingReceipt(transactions: plan.transactions, newFacts: newFacts)
    }

    /// Records that a purchase was taken back. The purchase need not be known yet.
    ///
    /// - Parameters:
    ///   - transaction: the purchase.
    ///   - date: from when on it counts nothing; now when not given.
    ///   - reason: in the store's words.
    /// - Returns: the fact if it was new, `nil` when the purchase was already revoked at that date.
    /// - Throws: ``EntitlementError`` of kind `invalid`, `ledgerFull`, `storage` or `damaged`.
    @discardableResult
    public func refund(_ transaction: TransactionReference, at date: Timestamp? = nil, reason: String = "")
        async throws(EntitlementError) -> Fact?
    {
        try await refund([(transaction, date)], reason: reason).first
    }

    /// Records that several purchases were taken back, in one write: as ``refund(_:at:reason:)`` for each.
    @discardableResult
    package func refund(_ refunds: [(transaction: TransactionReference, date: Timestamp?)], reason: String = "")
        async throws(EntitlementError) -> [Fact]
    {
        for refund in refunds { try RecordingPlan.check(refund.transaction) }
        guard reason.utf8.count <= 1_000 else {
            throw EntitlementError(.invalid, "a reason has at most 1000 bytes, this one has \(reason.utf8.count)")
        }
        let now = now
        let before = try await ledgers.current()
        let onDevice = refunds.map { before.facts[$0.transaction].map(before.facts.isOnDevice) ?? false }
        var facts: [Fact] = []
        for target in [LocalLedgers.Target.account, .device] {
            let concerned = zip(refunds, onDevice).filter { $1 == (target == .device) }.map { $0.0 }
            guard !concerned.isEmpty else { continue }
            facts += try await ledgers.append(to: target) { state in
                var time = state.facts.latestTime
                return concerned.compactMap { transaction, date in
                    let revokedAt = date ?? now
                    if let known = state.facts.revocations[transaction],
                        known.revokedAt == revokedAt || (date == nil && known.revokedAt <= now)
                    {
                        return nil
                    }
                    time = time.next(at: now)
                    return .revocation(
                        Revocation(
                            transaction: transaction, revokedAt: revokedAt, reason: reason,
                            stamp: Stamp(logicalTime: time)))
                }
            }.facts
        }
        await tell(of: facts)
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
        let replica = try await ledgers.replica()
        let now = now
        let facts = try await ledgers.append(to: .account) { state in
            let time = state.facts.latestTime.next(at: now)
            let set = state.facts.flagsSet[product]
            let cleared = state.facts.flagsCleared[product]
            let latest = [set, cleared].compactMap { $0 }.max { $0.logicalTime < $1.logicalTime }
            if latest?.isSet ?? false == isSet { return [] }
            return [
                .flag(Flag(product: product, isSet: isSet, date: now, replica: replica, logicalTime: time))
            ]
        }.facts
        await tell(of: facts)
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
