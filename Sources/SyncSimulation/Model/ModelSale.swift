/// A purchase that counts.
struct ModelSale {
    /// The statement that counts.
    var purchase: ModelPurchase
    /// All statements about the purchase.
    var copies: ModelCopies
    /// The recorded terms, or else those of the catalogue.
    var terms: ModelTerms
    /// The date from which it counts: its own, or the one that the account's server decided on.
    var date: Int64
    /// The date of its revocation, if that counts.
    var revokedAt: Int64?
    /// The date by which an upgrade had replaced it.
    var upgradedAt: Int64?

    /// The end of the purchased time if it begins at `start`.
    func end(from start: Int64) -> Int64 {
        var duration = terms.duration
        if terms.kind == .autoRenewable, purchase.isIntroductory, let introductory = terms.introductory {
            duration = introductory
        }
        return terms.bonus.added(to: duration.times(purchase.quantity).added(to: start))
    }

    /// The start of the first later one of `purchases`, in ascending order of date, whose product does not begin
    /// together with this purchase.
    func successor(in purchases: [ModelSale]) -> Int64? {
        let together = purchases.filter { $0.date == date }.map(\.purchase.product)
        return purchases.first { date < $0.date && !together.contains($0.purchase.product) }?.date
    }
}

extension ModelFacts {
    /// The sale that the statements `copies` count as; `nil` if it does not count: another environment, before a reset,
    /// refused or transferred by the server, not verified although the policy demands it, unknown terms, or out of
    /// bounds.
    func sale(
        of copies: ModelCopies, in environment: ModelID, catalogue: [ModelID: ModelTerms],
        decision: ModelAcceptance.Decision?
    ) -> ModelSale? {
        let purchase = copies.counting
        var date = purchase.date
        switch decision {
        case .refused, .transferred: return nil
        case .countsAsOf(let decided): date = copies.isOne ? decided : min(date, decided)
        case .accepted, nil: break
        }
        guard purchase.transaction.environment == environment,
            !isReset(firstRecorded(copies, dated: date), in: environment),
            policy == .trusted || verified.contains(purchase.transaction),
            let terms = purchase.terms ?? catalogue[purchase.product]
        else { return nil }
        let sale = ModelSale(
            purchase: purchase, copies: copies, terms: terms, date: date,
            revokedAt: effectiveStatus(of: copies)?.revokedAt, upgradedAt: effectiveStatus(of: copies)?.upgradedAt)
        return sale.isInBounds ? sale : nil
    }

    /// Returns `true` if a record made at `time` is void because its test environment was reset then or later.
    /// Production cannot be reset.
    func isReset(_ time: UInt64, in environment: ModelID) -> Bool {
        environment != "production" && resets.contains { $0.environment == environment && time <= $0.time }
    }

    /// The logical time at which `purchase` was first recorded, by its own record or by one of its recordings. For a
    /// verified purchase also its date, from which it counts: 48 bits of milliseconds and 16 bits of a counter.
    func firstRecorded(_ copies: ModelCopies, dated date: Int64) -> UInt64 {
        var first = copies.effective.map(\.stamp.time).min() ?? 0
        if verified.contains(copies.counting.transaction) {
            first = min(first, max(1, UInt64(max(0, date)) % (1 << 48) * (1 << 16)))
        }
        for recording in recordings where copies.statements.contains(where: { $0.transaction == recording.transaction })
        {
            first = min(first, recording.time)
        }
        return first
    }

    /// The statement on whether a purchase was revoked that counts; `nil` if none does. It may be about any copy.
    ///
    /// The store's statements win in two places. Among statements about one purchase, a merge keeps one that a store
    /// signed, so no unsigned one remains. An unsigned statement about a *purchase* that a store signed is ignored by
    /// a rule of the replay. (Recording also refuses it if the device knows about the signature.)
    func effectiveStatus(of copies: ModelCopies) -> ModelRevocation? {
        let about = revocations.filter { status in
            copies.statements.contains { $0.transaction == status.transaction }
        }
        let isSigned = copies.effective.contains(where: \.stamp.isSigned)
        guard let status = about.max(by: isWeaker), status.stamp.isSigned || !isSigned else { return nil }
        return isReset(status.stamp.time, in: status.transaction.environment) ? nil : status
    }

    /// Verified statements come before others, then the later signature counts, then a revocation. Among unsigned
    /// statements the later one counts.
    private func isWeaker(_ left: ModelRevocation, than right: ModelRevocation) -> Bool {
        let (leftRank, rightRank) = (
            verifiedStatuses.contains(left.transaction) ? 1 : 0, verifiedStatuses.contains(right.transaction) ? 1 : 0
        )
        if leftRank != rightRank { return leftRank < rightRank }
        if left.stamp.isSigned, left.stamp.signedAt == right.stamp.signedAt, left.isReinstated != right.isReinstated {
            return left.isReinstated
        }
        if left.stamp.order != right.stamp.order {
            return left.stamp.order.lexicographicallyPrecedes(right.stamp.order)
        }
        if left.isReinstated != right.isReinstated { return left.isReinstated }
        return right.transaction < left.transaction
    }

    /// The active spans of the purchases `renewals` of one auto-renewable group, each with its purchase. They have
    /// their own ends, so nothing is appended.
    func spans(ofRenewals renewals: [ModelSale]) -> [(sale: ModelSale, span: ModelSpan)] {
        var spans: [(sale: ModelSale, span: ModelSpan)] = []
        for line in Set(renewals.map(\.purchase.line)).sorted() {
            let purchases = renewals.filter { $0.purchase.line == line }
            let ends = purchases.map { sale in
                // A purchase ends when another product of the same subscription starts later.
                let successor = sale.successor(in: purchases)
                // Another statement may give an earlier start; the terms count from the own one.
                let isRedated = sale.copies.isOne || sale.date < sale.purchase.date
                let start = isRedated ? sale.date : sale.copies.ownStart
                var end = sale.purchase.storeExpiry ?? sale.end(from: start)
                // An upgrade whose successor is not known yet ends when the store states it.
                if successor ?? .max >= end { end = min(end, sale.upgradedAt ?? .max) }
                return min(end, successor ?? .max, sale.revokedAt ?? .max)
            }
            for (sale, end) in zip(purchases, ends) { spans.append((sale, ModelSpan(start: sale.date, end: end))) }
            if let grace = grace(of: purchases, line) {
                let sale = purchases[grace.index]
                let start = max(sale.date, ends[grace.index])
                let successor = sale.successor(in: purchases)
                spans.append((sale, ModelSpan(start: start, end: min(grace.end, successor ?? .max))))
            }
        }
        return spans
    }

    /// The purchase in its grace period, and the end of that period: the last purchase by the time the store stated it,
    /// unless it was revoked.
    private func grace(of purchases: [ModelSale], _ line: ModelTransaction) -> (index: Int, end: Int64)? {
        guard let state = renewalStates.first(where: { $0.line == line }), let end = state.graceEnd,
            !isReset(state.stamp.time, in: line.environment),
            let index = purchases.lastIndex(where: { $0.date <= state.stamp.signedAt ?? .max })
        else { return nil }
        let sale = purchases[index]
        guard sale.revokedAt == nil, sale.upgradedAt == nil, state.stamp.isSigned || !sale.purchase.stamp.isSigned,
            sale.allows(end: end)
        else {
            return nil
        }
        return (index, end)
    }
}

extension ModelSale {
    /// Returns `true` if `end` is at most 100 years after the purchase.
    func allows(end: Int64) -> Bool { end <= ModelCalendar.add(months: 1_200, to: date) }

    /// True if the sale is within bounds: quantities 1 to 10,000, units 1 to 1,000,000, durations greater than zero
    /// and at most 100 years, or forever for a non-renewing subscription, levels 1 or more.
    var isInBounds: Bool {
        guard (1...10_000).contains(purchase.quantity), terms.bonus.isInBounds else { return false }
        if let end = purchase.storeExpiry, !allows(end: end) { return false }
        switch terms.kind {
        case .nonConsumable: return true
        case .consumable: return (1...1_000_000).contains(terms.units)
        case .nonRenewing:
            return terms.duration.isForever || terms.duration != ModelDuration() && terms.duration.isInBounds
        case .autoRenewable:
            if purchase.isIntroductory, let introductory = terms.introductory, !introductory.isInBounds { return false }
            return terms.level >= 1 && terms.duration != ModelDuration() && terms.duration.isInBounds
        }
    }
}
