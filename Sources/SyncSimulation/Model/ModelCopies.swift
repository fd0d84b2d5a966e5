/// All statements about one purchase, and the one that counts.
///
/// The App Store names a purchase anew each time it is restored on another device.
struct ModelCopies: Equatable {
    /// The statement that counts, with the terms of the others if it has none.
    var counting: ModelPurchase
    var statements: [ModelPurchase]
    /// The verified statements, or all if none is verified.
    var effective: [ModelPurchase]
    /// The start in the counting statement. Its terms give an end from there.
    var ownStart: Int64

    var isOne: Bool { statements.count == 1 }
}

extension ModelFacts {
    /// The purchases, each with all statements about it.
    ///
    /// Statements about one purchase share its line item, or the start of its period, or the first transaction of a
    /// non-consumable. A statement that is not verified cannot unite two purchases with verified ones.
    var copies: [ModelCopies] {
        // Verified statements first.
        let ordered = purchases.filter(isVerified) + purchases.filter { !isVerified($0) }
        var groups: [[ModelPurchase]] = []
        for (index, purchase) in ordered.enumerated() {
            groups.append([purchase])
            for identity in purchase.identities {
                let known = ordered[..<index].first { $0.identities.contains(identity) }
                guard let known, let place = groups.firstIndex(where: { $0.contains(known) }),
                    let own = groups.firstIndex(where: { $0.contains(purchase) }), place != own,
                    isVerified(purchase) || ![place, own].allSatisfy({ groups[$0].contains(where: isVerified) })
                else { continue }
                groups[place] += groups[own]
                groups.remove(at: own)
            }
        }
        return groups.map { group in
            let verified = group.filter(isVerified)
            let effective = verified.isEmpty ? group : verified
            let weakestFirst = effective.sorted { $0.isWeaker(than: $1) }
            var counting = weakestFirst[weakestFirst.count - 1]
            counting.terms = counting.terms ?? weakestFirst.last { $0.terms != nil }?.terms
            // The end stays, so it must be within bounds from the earlier start.
            let ownStart = counting.date
            let starts = effective.map(\.date).filter { start in
                counting.storeExpiry.map { $0 <= ModelCalendar.add(months: 1_200, to: start) } ?? true
            }
            counting.date = min(counting.date, starts.min() ?? counting.date)
            return ModelCopies(counting: counting, statements: group, effective: effective, ownStart: ownStart)
        }
    }

    /// The decision of the account's server on a purchase. If it has verified copies, decisions about the others do not
    /// count.
    func decision(on copies: ModelCopies, _ decisions: [ModelAcceptance]) -> ModelAcceptance.Decision? {
        let about = copies.effective.map(\.transaction)
        return decisions.filter { about.contains($0.transaction) }.max { left, right in
            left.rank != right.rank ? left.rank < right.rank : right.transaction < left.transaction
        }?.decision
    }

    private func isVerified(_ purchase: ModelPurchase) -> Bool { verified.contains(purchase.transaction) }
}

extension ModelAcceptance {
    /// The later decision counts, and decisions about the date only if there is no other. Of those the earliest date
    /// counts.
    fileprivate var rank: (Int, Int64, UInt64, Int) {
        switch decision {
        case .countsAsOf(let date): (0, -date, time, 0)
        case .accepted: (1, 0, time, 0)
        case .refused, .transferred: (1, 0, time, 1)
        }
    }
}

extension ModelPurchase {
    /// The names that statements about this purchase share, the most reliable first.
    fileprivate var identities: [[ModelID]] {
        guard transaction.store == "app-store" else { return [] }
        let sold = [product, transaction.environment]
        var names = lineItem.map { [["line item", $0] + sold] } ?? []
        if storeExpiry != nil || terms?.kind == .autoRenewable {
            let second = date >= 0 ? date / 1_000 : (date - 999) / 1_000
            names.append(["period", line.id, ModelID("\(second)")] + sold)
        } else if isNonConsumable || terms == nil || terms?.kind == .nonConsumable {
            names.append(["ownership", line.id] + sold)
        }
        return names
    }

    /// The later signature counts, then the later end, the earlier start, the later time, and the first transaction.
    fileprivate func isWeaker(than other: ModelPurchase) -> Bool {
        if stamp.signedAt != other.stamp.signedAt {
            guard let mine = stamp.signedAt else { return true }
            guard let theirs = other.stamp.signedAt else { return false }
            return mine < theirs
        }
        let mine = (periodEnd, -date, stamp.time)
        let theirs = (other.periodEnd, -other.date, other.stamp.time)
        return mine != theirs ? mine < theirs : other.transaction < transaction
    }

    /// The end of a period of a subscription, if it is within bounds.
    fileprivate var periodEnd: Int64 {
        if let end = storeExpiry {
            return end <= ModelCalendar.add(months: 1_200, to: date) ? end : ModelCalendar.earliest
        }
        guard let terms, terms.kind == .autoRenewable, (1...10_000).contains(quantity) else {
            return ModelCalendar.earliest
        }
        let duration = isIntroductory ? terms.introductory ?? terms.duration : terms.duration
        guard terms.level >= 1, terms.duration != ModelDuration(), terms.duration.isInBounds, duration.isInBounds,
            terms.bonus.isInBounds
        else { return ModelCalendar.earliest }
        return terms.bonus.added(to: duration.times(quantity).added(to: date))
    }
}
