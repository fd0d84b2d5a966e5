/// A purchase that counts.
struct ModelSale {
    var purchase: ModelPurchase
    /// As sold, else as the catalogue at hand has them.
    var terms: ModelTerms
    /// From when on it counts: its own date, or the one that the account's server decided on.
    var date: Int64
    /// When it was taken back, if that counts.
    var revokedAt: Int64?

    /// The end of all that was sold if it begins at `start`.
    func end(from start: Int64) -> Int64 {
        var duration = terms.duration
        if terms.kind == .autoRenewable, purchase.isIntroductory, let introductory = terms.introductory {
            duration = introductory
        }
        return terms.bonus.added(to: duration.times(purchase.quantity).added(to: start))
    }
}

extension ModelFacts {
    /// What `purchase` counts as; `nil` when it counts nothing: sold elsewhere, put behind by a reset, refused or
    /// transferred by the server, of terms that nobody knows, or beyond what may be sold.
    func sale(
        of purchase: ModelPurchase, in environment: ModelID, catalogue: [ModelID: ModelTerms],
        decision: ModelAcceptance.Decision?
    ) -> ModelSale? {
        guard purchase.transaction.environment == environment, !isReset(firstRecorded(purchase), in: environment),
            let terms = purchase.terms ?? catalogue[purchase.product]
        else { return nil }
        var date = purchase.date
        switch decision {
        case .refused, .transferred: return nil
        case .countsAsOf(let decided): date = decided
        case .accepted, nil: break
        }
        let sale = ModelSale(
            purchase: purchase, terms: terms, date: date, revokedAt: revocationDate(of: purchase))
        return sale.isInBounds ? sale : nil
    }

    /// Whether what was entered at `time` was put behind: its test environment was reset then or later. There is no
    /// reset of production.
    func isReset(_ time: UInt64, in environment: ModelID) -> Bool {
        environment != "production" && resets.contains { $0.environment == environment && time <= $0.time }
    }

    /// When anybody first entered `purchase`: by its own record or by one of its recordings.
    func firstRecorded(_ purchase: ModelPurchase) -> UInt64 {
        var first = purchase.stamp.time
        for recording in recordings where recording.transaction == purchase.transaction {
            first = min(first, recording.time)
        }
        return first
    }

    /// When `purchase` was taken back; `nil` when it was not, or was reinstated.
    ///
    /// That the store's word is stronger than anybody else's is seen to in two places. Of statements about one purchase
    /// joining keeps one that a store signed, so no unsigned one is left beside it. Of an unsigned statement about a
    /// *purchase* that a store signed it is a rule of replay: it counts nothing. (Recording refuses it on top, as far
    /// as the device knows better.)
    func revocationDate(of purchase: ModelPurchase) -> Int64? {
        let about = revocations.first { $0.transaction == purchase.transaction }
        guard let revocation = about, revocation.stamp.isSigned || !purchase.stamp.isSigned else { return nil }
        return isReset(revocation.stamp.time, in: purchase.transaction.environment) ? nil : revocation.revokedAt
    }

    /// When the purchases `renewals` of one auto-renewable group are active. They bring their own ends, so that nothing
    /// is appended.
    func spans(ofRenewals renewals: [ModelSale]) -> [ModelSpan] {
        var spans: [ModelSpan] = []
        for line in Set(renewals.map(\.purchase.line)).sorted() {
            let purchases = renewals.filter { $0.purchase.line == line }
            let ends = purchases.indices.map { index in
                let sale = purchases[index]
                // Where another product follows in the same subscription, what came before ends.
                let successor = purchases[index...].first { $0.purchase.product != sale.purchase.product }?.date
                let end = sale.purchase.storeExpiry ?? sale.end(from: sale.date)
                return min(end, successor ?? .max, sale.revokedAt ?? .max)
            }
            for (sale, end) in zip(purchases, ends) { spans.append(ModelSpan(start: sale.date, end: end)) }
            if let grace = grace(of: purchases, line) {
                let sale = purchases[grace.index]
                let start = max(sale.date, ends[grace.index])
                let successor = purchases[grace.index...].first { $0.purchase.product != sale.purchase.product }?.date
                spans.append(ModelSpan(start: start, end: min(grace.end, successor ?? .max)))
            }
        }
        return spans
    }

    /// Which of the purchases of a subscription the store prolongs after a failed payment, and until when: the last one
    /// when the store said so, unless it was taken back.
    private func grace(of purchases: [ModelSale], _ line: ModelTransaction) -> (index: Int, end: Int64)? {
        guard let state = renewalStates.first(where: { $0.line == line }), let end = state.graceEnd,
            !isReset(state.stamp.time, in: line.environment),
            let index = purchases.lastIndex(where: { $0.date <= state.stamp.signedAt ?? .max })
        else { return nil }
        let sale = purchases[index]
        guard sale.revokedAt == nil, state.stamp.isSigned || !sale.purchase.stamp.isSigned, sale.allows(end: end) else {
            return nil
        }
        return (index, end)
    }
}

extension ModelSale {
    /// At most 100 years from the date of purchase.
    func allows(end: Int64) -> Bool { end <= ModelCalendar.add(months: 1_200, to: date) }

    /// Quantities are 1 to 10,000, units 1 to 1,000,000, times not none and at most 100 years, levels 1 or more.
    var isInBounds: Bool {
        guard (1...10_000).contains(purchase.quantity), terms.bonus.isInBounds else { return false }
        if let end = purchase.storeExpiry, !allows(end: end) { return false }
        switch terms.kind {
        case .nonConsumable: return true
        case .consumable: return (1...1_000_000).contains(terms.units)
        case .nonRenewing: return terms.duration != ModelDuration() && terms.duration.isInBounds
        case .autoRenewable:
            if purchase.isIntroductory, let introductory = terms.introductory, !introductory.isInBounds { return false }
            return terms.level >= 1 && terms.duration != ModelDuration() && terms.duration.isInBounds
        }
    }
}
