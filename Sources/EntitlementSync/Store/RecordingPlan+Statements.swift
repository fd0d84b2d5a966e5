import Entitlements

extension RecordingPlan {
    /// What is recorded besides purchases and requests.
    struct Statement: Sendable {
        enum Content: Sendable {
            case revocation(Revocation, isDated: Bool)
            case renewalState(RenewalState)
            case assertion(AssertedExpiry)
        }
        let content: Content
        var target = LocalLedgers.Target.account

        /// When a store signed it, in production.
        var signedAt: Timestamp? {
            switch content {
            case .revocation(let revocation, _) where revocation.transaction.environment == .production:
                revocation.stamp.signedDate
            case .renewalState(let state) where state.line.environment == .production: state.stamp.signedDate
            default: nil
            }
        }
    }

    mutating func add(statement content: Evidence.Content) throws(EntitlementError) {
        switch content {
        case .revocation(let transaction, let date, let isReinstated, let reason, let signedAt):
            try Self.check(transaction)
            guard reason.utf8.count <= 1_000 else {
                throw EntitlementError(.invalid, "a reason has at most 1000 bytes, this one has \(reason.utf8.count)")
            }
            // An undated revocation is as of the moment of recording, which comes later.
            let revocation = Revocation(
                transaction: transaction, revokedAt: isReinstated ? nil : date ?? .latest, reason: reason,
                stamp: Stamp(signedDate: signedAt, logicalTime: .zero))
            statements.append(Statement(content: .revocation(revocation, isDated: isReinstated || date != nil)))
        case .renewalState(let state):
            try Self.check(state.line)
            if let product = state.pendingProduct {
                do { try product.validate() } catch { throw EntitlementError(.invalid, "product: \(error)") }
            }
            statements.append(Statement(content: .renewalState(state)))
        case .assertion(let asserted):
            guard catalog.groups.contains(asserted.group) else {
                throw EntitlementError(
                    .unknownProduct, "the catalogue has no group \"\(asserted.group.rawValue.singleLine)\"")
            }
            do { try asserted.source.validate() } catch { throw EntitlementError(.invalid, "source: \(error)") }
            statements.append(Statement(content: .assertion(asserted)))
        case .reported, .deferred, .withdrawn:
            preconditionFailure("purchases and requests are no statements")
        }
    }

    /// Decides which ledger each statement goes to: one about units that stay on this device stays with them. Once, so
    /// that a purchase which arrives meanwhile cannot make a statement fall between the two.
    mutating func settle(in facts: Facts) {
        for index in statements.indices {
            guard case .revocation(let revocation, _) = statements[index].content else { continue }
            let staysHere =
                facts[revocation.transaction].map(facts.isOnDevice)
                ?? (target(ofSale: revocation.transaction) == .device)
            statements[index].target = staysHere ? .device : .account
        }
    }

    /// The fact that `statement` adds to what is known; `nil` when it says nothing new.
    func fact(
        for statement: Statement, in state: LocalLedgers.State, replica: ReplicaID, time: inout LogicalTime,
        now: Timestamp
    ) throws(EntitlementError) -> Fact? {
        switch statement.content {
        case .revocation(var revocation, let isDated):
            if !isDated { revocation.revokedAt = now }
            guard try saysMore(revocation, isDated: isDated, than: state.facts, now: now) else { return nil }
            time = time.next(at: now)
            revocation.stamp.logicalTime = time
            return .revocation(revocation)
        case .renewalState(var renewal):
            try checkRenews(renewal.line, in: state.facts)
            if let known = state.facts.renewalStates[renewal.line] {
                var again = renewal
                again.stamp = known.stamp
                guard again != known || renewal.stamp.isSignedLater(than: known.stamp) else { return nil }
            }
            time = time.next(at: now)
            renewal.stamp.logicalTime = time
            return .renewalState(renewal)
        case .assertion(let asserted):
            return assertion(asserted, in: state, replica: replica, time: &time, now: now)
        }
    }

    /// Throws if the purchase that starts `line` is known to be of a product that never renews.
    private func checkRenews(_ line: TransactionReference, in facts: Facts) throws(EntitlementError) {
        guard let purchase = facts[line], let kind = (purchase.terms ?? catalog.terms(of: purchase.product))?.kind
        else { return }
        if case .autoRenewable = kind { return }
        throw EntitlementError(
            .invalid,
            "transaction \"\(line.id.rawValue.singleLine)\" has no renewal state: \"\(purchase.product)\" is "
                + "\(kind.name), not autoRenewable")
    }

    private func saysMore(_ revocation: Revocation, isDated: Bool, than facts: Facts, now: Timestamp)
        throws(EntitlementError) -> Bool
    {
        let known = facts.revocations[revocation.transaction]
        if revocation.stamp.signedDate == nil {
            guard known?.stamp.signedDate == nil, facts[revocation.transaction]?.stamp.signedDate == nil else {
                throw .signed(revocation.transaction, isReinstated: revocation.revokedAt == nil)
            }
        }
        // Nothing to reverse; but what a store signed is kept, it is stronger than a refund that is yet to arrive.
        guard let known else { return revocation.revokedAt != nil || revocation.stamp.signedDate != nil }
        if known.revokedAt == revocation.revokedAt {
            return revocation.stamp.isSignedLater(than: known.stamp)
        }
        let isRevokedAlready = known.revokedAt.map { $0 <= now } ?? false
        return isDated || !isRevokedAlready
    }

    private func assertion(
        _ asserted: AssertedExpiry, in state: LocalLedgers.State, replica: ReplicaID, time: inout LogicalTime,
        now: Timestamp
    ) -> Fact? {
        let environment = asserted.environment ?? environment
        let latestPurchase = state.facts.purchases.last { $0.transaction.environment == environment }?.date
        let assertedAt = [asserted.assertedAt ?? now, latestPurchase].compactMap { $0 }.max() ?? now
        // The echo of what is covered anyway is no statement of anybody else's: kept, it would stand against a refund.
        if environment == state.replay.environment,
            let chain = state.replay.timelines[asserted.group]?.chain(at: assertedAt), chain.end >= asserted.until,
            asserted.until > assertedAt
        {
            return nil
        }
        time = time.next(at: now)
        return .assertion(
            Assertion(
                Assertion.Reference(
                    group: asserted.group, source: asserted.source, until: asserted.until, environment: environment),
                assertedAt: assertedAt, recordedAt: now, replica: replica, logicalTime: time))
    }
}

extension Stamp {
    /// Whether a store signed this, and the other earlier or not at all. The same words signed later are stronger
    /// than other words, signed in between, that another device may have.
    fileprivate func isSignedLater(than other: Stamp) -> Bool {
        guard let signedDate else { return false }
        return other.signedDate.map { $0 < signedDate } ?? true
    }
}

extension EntitlementError {
    fileprivate static func signed(_ transaction: TransactionReference, isReinstated: Bool) -> EntitlementError {
        let id = transaction.id.rawValue.singleLine
        let deed = isReinstated ? "reverse its refund" : "take it back"
        return EntitlementError(
            .contradiction, "transaction \"\(id)\" is signed by its store: only the store's signed word can \(deed)")
    }
}
