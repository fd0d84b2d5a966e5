/// Why access to an entitlement is as it is: for each source every fact that concerns it, and what became of it.
public struct Explanation: Hashable, Sendable {
    /// What one fact contributes.
    public enum Effect: Hashable, Sendable {
        /// It gives this period, possibly an empty one.
        case period(Period)
        /// It gives ownership for this period; the end is ``Timestamp/latest`` when there is none.
        case ownership(Period)
        /// It grants so many units, after which so many are there.
        case units(Int64, balance: Int64)
        /// It spends so many units, after which so many are left; some were not covered and written off.
        case spent(Int64, writtenOff: Int64, balance: Int64)
        /// It takes another fact back.
        case revokes
        /// It makes a product owned.
        case flagCounts
        /// It waits for approval.
        case waits
        /// It is dated after the instant asked about.
        case notYet
        /// It counts nothing, for this reason.
        case setAside(SetAside)
    }

    /// One fact and its effect.
    public struct Line: Hashable, Sendable {
        /// The fact.
        public var fact: Fact
        /// What became of it.
        public var effect: Effect
    }

    /// One source of the entitlement and its facts, in the order of replay.
    public struct Section: Hashable, Sendable {
        /// The source.
        public var source: Entitlement.Source
        /// Its facts.
        public var lines: [Line]
    }

    /// The entitlement.
    public var entitlement: EntitlementID
    /// The instant asked about.
    public var at: Timestamp
    /// The outcome.
    public var access: Access
    /// A section for each source, in the catalogue's order.
    public var sections: [Section]
}

extension Replay {
    /// Why access to `entitlement` is as it is at `instant`; `nil` when the catalogue does not know it.
    public func explanation(
        of entitlement: EntitlementID, at instant: Timestamp, context: AccessContext = AccessContext()
    ) -> Explanation? {
        guard let known = catalog[entitlement: entitlement] else { return nil }
        return Explanation(
            entitlement: entitlement, at: instant, access: access(to: known, at: instant, context: context),
            sections: known.grantedBy.map { source in
                Explanation.Section(source: source, lines: lines(for: source, at: instant))
            })
    }

    private func lines(for source: Entitlement.Source, at instant: Timestamp) -> [Explanation.Line] {
        switch source {
        case .group(let group):
            let periods = timelines[group]?.contributions ?? []
            return withRevocations(
                facts.purchases.filter { purchase in
                    (purchase.terms ?? catalog.terms(of: purchase.product))?.kind.group == group
                }, at: instant
            ) { purchase in
                periods.filter { $0.transaction == purchase.transaction }.map(Explanation.Effect.period)
            } + requests(for: catalog.products.filter { $0.kind.group == group }.map(\.id))
        case .product(let product):
            let holdings = ownerships[product]?.holdings ?? []
            return withRevocations(facts.purchases.filter { $0.product == product }, at: instant) { purchase in
                holdings.filter { $0.transaction == purchase.transaction }.map(Explanation.Effect.ownership)
            } + flags(of: product) + requests(for: [product])
        case .units(let product):
            return units(of: product, at: instant) + requests(for: [product])
        }
    }

    private func withRevocations(
        _ purchases: [Purchase], at instant: Timestamp, _ effects: (Purchase) -> [Explanation.Effect]
    ) -> [Explanation.Line] {
        purchases.flatMap { purchase -> [Explanation.Line] in
            var lines: [Explanation.Line] = []
            if case .setAside(let reason) = verdicts[purchase.transaction] {
                lines.append(Explanation.Line(fact: .purchase(purchase), effect: .setAside(reason)))
            } else {
                lines += effects(purchase).map { Explanation.Line(fact: .purchase(purchase), effect: $0) }
            }
            if let revocation = facts.revocations[purchase.transaction] {
                let effect = revocation.revokedAt <= instant ? Explanation.Effect.revokes : .notYet
                lines.append(Explanation.Line(fact: .revocation(revocation), effect: effect))
            }
            return lines
        }
    }

    private func flags(of product: ProductID) -> [Explanation.Line] {
        let isFlagged = ownerships[product]?.isFlagged ?? false
        return [facts.flagsSet[product], facts.flagsCleared[product]].compactMap { $0 }.map { flag in
            let effect: Explanation.Effect =
                flag.isSet == isFlagged && isFlagged ? .flagCounts : .setAside(.overruled(rules.flags.name))
            return Explanation.Line(fact: .flag(flag), effect: effect)
        }
    }

    private func requests(for products: [ProductID]) -> [Explanation.Line] {
        products.filter(isPending).compactMap { facts.pending[$0] }.map {
            Explanation.Line(fact: .pending($0), effect: .waits)
        }
    }

    private func units(of product: ProductID, at instant: Timestamp) -> [Explanation.Line] {
        let steps = balanceSteps(of: product, at: instant).map { step in
            switch step.cause {
            case .grant(let purchase):
                Explanation.Line(fact: .purchase(purchase), effect: .units(step.units, balance: step.balance))
            case .spend(let spend):
                Explanation.Line(
                    fact: .spend(spend),
                    effect: .spent(step.units, writtenOff: step.writtenOff, balance: step.balance))
            }
        }
        let counted = Set(steps.map(\.fact))
        let others = facts.purchases.filter { $0.product == product && !counted.contains(.purchase($0)) }
        return steps
            + withRevocations(others, at: instant) { purchase in
                facts.revocations[purchase.transaction] == nil ? [.notYet] : []
            }
    }
}
