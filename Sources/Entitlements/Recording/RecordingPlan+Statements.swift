extension RecordingPlan {
    /// Evidence other than purchases and approval requests.
    struct Statement: Sendable {
        enum Content: Sendable {
            case revocation(Revocation, isDated: Bool)
            case renewalState(RenewalState)
            case assertion(AssertedExpiry)
            case flag(ProductID, isSet: Bool)
        }
        let content: Content
        var target = DeviceLedgers.Target.account

        /// The date of the store's signature, in production only.
        var signedAt: Timestamp? {
            switch content {
            case .revocation(let revocation, _) where revocation.transaction.environment == .production:
                revocation.stamp.signedDate
            case .renewalState(let state) where state.line.environment == .production: state.stamp.signedDate
            default: nil
            }
        }
    }

    mutating func add(statement content: Evidence.Content) throws(RecordingError) {
        switch content {
        case .revocation(let transaction, let date, let isReinstated, let reason, let signedAt):
            try Self.check(transaction)
            guard reason.utf8.count <= 1_000 else {
                throw RecordingError(.invalid, "reason must be at most 1,000 bytes, not \(reason.utf8.count)")
            }
            // A revocation without a date takes the time of recording, which is not known yet.
            let revocation = Revocation(
                transaction: transaction, revokedAt: isReinstated ? nil : date ?? .latest, reason: reason,
                stamp: Stamp(signedDate: signedAt, logicalTime: .zero))
            statements.append(Statement(content: .revocation(revocation, isDated: isReinstated || date != nil)))
        case .renewalState(let state):
            try Self.check(state.line)
            if let product = state.pendingProduct {
                do { try product.validate() } catch { throw RecordingError(.invalid, "product: \(error)") }
            }
            statements.append(Statement(content: .renewalState(state)))
        case .assertion(let asserted):
            try catalog.checkHasGroup(asserted.group, for: asserted.source)
            statements.append(Statement(content: .assertion(asserted)))
        case .flag(let product, let isSet):
            try catalog.checkHasFlag(product)
            statements.append(Statement(content: .flag(product, isSet: isSet)))
        case .reported, .deferred, .withdrawn, .verified:
            preconditionFailure("purchases and requests are handled elsewhere")
        }
    }

    /// Decides which ledger each statement goes to. A statement about units that stay on this device goes to the device
    /// ledger.
    ///
    /// The choice is made once, so that a purchase that arrives concurrently cannot make both ledgers skip a statement.
    package mutating func settle(in facts: Facts) {
        for index in statements.indices {
            guard case .revocation(let revocation, _) = statements[index].content else { continue }
            let staysHere =
                facts[revocation.transaction].map(facts.isOnDevice)
                ?? (target(ofSale: revocation.transaction) == .device)
            statements[index].target = staysHere ? .device : .account
        }
    }

    /// Returns the fact that `statement` adds to the ledgers; `nil` if it says nothing new.
    func fact(
        for statement: Statement, in ledgers: DeviceLedgers, replica: ReplicaID, time: inout LogicalTime,
        now: Timestamp
    ) throws(RecordingError) -> Fact? {
        switch statement.content {
        case .revocation(var revocation, let isDated):
            if !isDated { revocation.revokedAt = now }
            guard try saysMore(revocation, isDated: isDated, than: ledgers.facts, now: now) else { return nil }
            time = time.next(at: now)
            revocation.stamp.logicalTime = time
            return .revocation(revocation)
        case .renewalState(var renewal):
            try checkRenews(renewal.line, in: ledgers.facts)
            if let known = ledgers.facts.renewalStates[renewal.line] {
                var again = renewal
                again.stamp = known.stamp
                guard again != known || renewal.stamp.isSignedLater(than: known.stamp) else { return nil }
            }
            time = time.next(at: now)
            renewal.stamp.logicalTime = time
            return .renewalState(renewal)
        case .assertion(let asserted):
            return assertion(asserted, in: ledgers, replica: replica, time: &time, now: now)
        case .flag(let product, let isSet):
            let marks = ledgers.facts.flags[FlagMarks.Reference(product, environment)]
            guard marks?.latest?.isSet ?? false != isSet else { return nil }
            time = time.next(at: now)
            return .flag(
                Flag(
                    product: product, environment: environment, isSet: isSet, date: now, replica: replica,
                    logicalTime: time))
        }
    }

    /// Throws if the purchase that starts `line` is known to be of a product that never renews.
    private func checkRenews(_ line: TransactionReference, in facts: Facts) throws(RecordingError) {
        let stored = facts[line].map { ($0.product, $0.terms ?? catalog.terms(of: $0.product)) }
        guard let (product, terms) = stored ?? sale(of: line), let kind = terms?.kind else { return }
        if case .autoRenewable = kind { return }
        throw RecordingError(
            .invalid,
            "transaction \"\(line.id.rawValue.singleLine)\" has no renewal state: \"\(product)\" is "
                + "\(kind.name), not autoRenewable")
    }

    private func saysMore(_ revocation: Revocation, isDated: Bool, than facts: Facts, now: Timestamp)
        throws(RecordingError) -> Bool
    {
        let known = facts.revocations[revocation.transaction]
        if revocation.stamp.signedDate == nil {
            guard known?.stamp.signedDate == nil, facts[revocation.transaction]?.stamp.signedDate == nil else {
                throw .signed(revocation.transaction, isReinstated: revocation.revokedAt == nil)
            }
        }
        // There is no refund to reverse. A signed reinstatement is recorded anyway: it overrides a refund that arrives
        // later.
        guard let known else { return revocation.revokedAt != nil || revocation.stamp.signedDate != nil }
        if known.revokedAt == revocation.revokedAt {
            return revocation.stamp.isSignedLater(than: known.stamp)
        }
        let isRevokedAlready = known.revokedAt.map { $0 <= now } ?? false
        return isDated || !isRevokedAlready
    }

    private func assertion(
        _ asserted: AssertedExpiry, in ledgers: DeviceLedgers, replica: ReplicaID, time: inout LogicalTime,
        now: Timestamp
    ) -> Fact? {
        let environment = asserted.environment ?? environment
        let assertedAt = ledgers.facts.assertionDate(asserted.assertedAt ?? now, in: environment)
        // A date that the group covers anyway adds nothing. If it were kept, it would outlive a refund of the purchase
        // that covers it.
        if environment == ledgers.replay.environment,
            let chain = ledgers.replay.timelines[asserted.group]?.chain(at: assertedAt), chain.end >= asserted.until,
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

extension Catalog {
    /// Throws unless `product` is a non-consumable.
    package func checkHasFlag(_ product: ProductID) throws(RecordingError) {
        guard let known = self[product: product] else { throw .unknown(product) }
        guard known.kind == .nonConsumable else {
            throw RecordingError(.invalid, "\"\(product)\" is \(known.kind.name); only a nonConsumable has a flag")
        }
    }

    /// Throws unless `source` can state paid time for `group`.
    package func checkHasGroup(_ group: GroupID, for source: SourceID) throws(RecordingError) {
        guard groups.contains(group) else {
            throw RecordingError(.unknownProduct, "the catalogue has no group \"\(group.rawValue.singleLine)\"")
        }
        do { try source.validate() } catch { throw RecordingError(.invalid, "source: \(error)") }
    }
}

extension Facts {
    /// The date of an assertion that is made at `date`: no earlier than the latest purchase.
    package func assertionDate(_ date: Timestamp, in environment: EnvironmentID) -> Timestamp {
        max(date, purchases.last { $0.transaction.environment == environment }?.date ?? .earliest)
    }
}

extension Stamp {
    /// True if this statement is signed, and `other` is unsigned or signed earlier. Equal contents with a later
    /// signature still count as later: another device may hold different contents that were signed in between.
    fileprivate func isSignedLater(than other: Stamp) -> Bool {
        guard let signedDate else { return false }
        return other.signedDate.map { $0 < signedDate } ?? true
    }
}

extension RecordingError {
    fileprivate static func signed(_ transaction: TransactionReference, isReinstated: Bool) -> RecordingError {
        let id = transaction.id.rawValue.singleLine
        let action = isReinstated ? "reinstate it" : "revoke it"
        return RecordingError(
            .contradiction, "transaction \"\(id)\" is signed by its store: only a signed statement can \(action)")
    }
}
