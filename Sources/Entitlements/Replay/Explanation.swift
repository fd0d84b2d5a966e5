/// The reasons for an access decision: for each source, every relevant fact and its effect.
public struct Explanation: Hashable, Sendable {
    /// The effect of one fact.
    public enum Effect: Hashable, Sendable {
        /// The fact gives this period, which may be empty.
        case period(Period)
        /// The fact gives ownership for this period, which ends at ``Timestamp/latest`` if ownership is permanent.
        case ownership(Period)
        /// The fact grants a number of units and leads to the given balance.
        case units(Int64, balance: Int64)
        /// The fact spends a number of units and leads to the given balance. Units that no grant covered are written
        /// off.
        case spent(Int64, writtenOff: Int64, balance: Int64)
        /// The fact revokes a purchase or clears a flag.
        case revokes
        /// The fact reinstates a revoked purchase.
        case reinstates
        /// The fact states how a subscription continues, and gives no time of its own.
        case informs
        /// The fact makes a purchase count as of this date.
        case redates(Timestamp)
        /// The fact confirms a purchase as it stands.
        case accepts
        /// The fact makes a product owned.
        case flagCounts
        /// The requested purchase awaits approval.
        case waits
        /// The fact is dated after the requested instant.
        case notYet
        /// The fact has no effect, for this reason.
        case setAside(SetAside)
    }

    /// One fact and its effect.
    public struct Line: Hashable, Sendable {
        /// The fact.
        public var fact: Fact
        /// The effect of the fact.
        public var effect: Effect
    }

    /// One source of the entitlement and its facts, in the order of replay.
    public struct Section: Hashable, Sendable {
        /// The source.
        public var source: Entitlement.Source
        /// The facts that concern the source.
        public var lines: [Line]
    }

    /// The entitlement.
    public var entitlement: EntitlementID
    /// The instant for which access was decided.
    public var at: Timestamp
    /// The access decision.
    public var access: Access
    /// One section for each source, in the order of the catalogue.
    public var sections: [Section]
}

extension Replay {
    /// Explains the access to `entitlement` at `instant`; `nil` if the catalogue does not contain it.
    ///
    /// Use it in support tools and debug screens. ``access(to:at:context:)`` is faster when only the decision is
    /// needed.
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
        case .group(let group), .level(let group, _):
            return time(of: group, for: source, at: instant) + unverified(about: source) + requests(for: source)
        case .product(let product):
            return holdings(of: product, at: instant) + flags(of: product) + unverified(about: source)
                + requests(for: source)
        case .units(let product):
            return units(of: product, at: instant) + unverified(about: source) + requests(for: source)
        }
    }

    /// The statements of clients about `source` that have no effect because the server has not verified them.
    private func unverified(about source: Entitlement.Source) -> [Explanation.Line] {
        facts.unverified.filter { fact in
            switch (fact, source) {
            case (.flag(let flag), .product(let product)): flag.product == product
            case (.assertion(let assertion), .group(let group)), (.assertion(let assertion), .level(let group, _)):
                assertion.reference.group == group
            case (.renewalState(let state), _): timeline(of: source) != nil && isAbout(source, state.line)
            case (.revocation(let revocation), _): isAbout(source, revocation.transaction)
            default: false
            }
        }.map { Explanation.Line(fact: $0, effect: .setAside(.unverified)) }
    }

    private func isAbout(_ source: Entitlement.Source, _ transaction: TransactionReference) -> Bool {
        guard let purchase = facts.index(of: transaction).map({ facts.purchases[$0] }) else { return false }
        return switch source {
        case .group(let group), .level(let group, _):
            (purchase.terms ?? catalog.terms(of: purchase.product))?.kind.group == group
        case .product(let product), .units(let product): purchase.product == product
        }
    }

    private func time(of group: GroupID, for source: Entitlement.Source, at instant: Timestamp) -> [Explanation.Line] {
        let periods = Dictionary(grouping: timelines[group]?.contributions ?? [], by: \.origin)
        let purchases = facts.purchases.filter { purchase in
            (purchase.terms ?? catalog.terms(of: purchase.product))?.kind.group == group
        }
        var lines = withStatements(purchases, at: instant) { purchase in
            periods[purchase.origin, default: []].map { period in
                guard source.counts(period) else { return source.objection(to: period) }
                guard period.isEmpty, period.revokedAt == nil, period.level == nil else { return .period(period) }
                // A purchase that never ends precedes it.
                return .setAside(period.start == .latest ? .covered : .overruled(rules.expiry.name))
            }
        }
        for assertion in facts.assertions where assertion.reference.group == group {
            let period = periods[.assertion(assertion.reference)]?.first { !$0.isEmpty }
            lines.append(
                Explanation.Line(fact: .assertion(assertion), effect: effect(of: assertion, period, for: source)))
        }
        return lines + renewals(of: purchases, periods, for: source)
    }

    /// The purchases of `product` with the ownership or, if it is auto-renewable, the periods that they give.
    private func holdings(of product: ProductID, at instant: Timestamp) -> [Explanation.Line] {
        let source = Entitlement.Source.product(product)
        let holdings = Dictionary(grouping: ownerships[product]?.holdings ?? [], by: \.origin)
        let periods = Dictionary(grouping: timeline(of: source)?.contributions ?? [], by: \.origin)
        let purchases = facts.purchases(of: product)
        let lines = withStatements(purchases, at: instant) { purchase in
            let effects =
                holdings[purchase.origin, default: []].map(Explanation.Effect.ownership)
                + periods[purchase.origin, default: []].map(Explanation.Effect.period)
            guard effects.isEmpty, case .counts(let kind) = verdict(on: purchase.transaction) else { return effects }
            return [.setAside(.otherKind(kind.name))]
        }
        return timeline(of: source) == nil ? lines : lines + renewals(of: purchases, periods, for: source)
    }

    private func effect(of assertion: Assertion, _ period: Period?, for source: Entitlement.Source)
        -> Explanation.Effect
    {
        if let reason = objection(to: assertion.logicalTime, in: assertion.reference.environment) {
            return .setAside(reason)
        }
        if case .level = source { return .setAside(.withoutLevel) }
        if let period { return .period(period) }
        return .setAside(facts.isConfirmed(.assertion(assertion)) ? .covered : .overruled(rules.expiry.name))
    }

    /// The renewal states of the subscriptions that `purchases` belong to, by their first transaction.
    private func renewals(
        of purchases: [Purchase], _ periods: [Period.Origin: [Period]], for source: Entitlement.Source
    ) -> [Explanation.Line] {
        let members = Dictionary(grouping: purchases, by: \.line)
        return members.keys.sorted().compactMap { line -> Explanation.Line? in
            guard let state = facts.renewalStates[line], let members = members[line] else { return nil }
            let fact = Fact.renewalState(state)
            if let reason = objection(to: state.stamp.logicalTime, in: line.environment) {
                return Explanation.Line(fact: fact, effect: .setAside(reason))
            }
            if members.allSatisfy({ facts.renewalState(of: $0) == nil }) {
                return Explanation.Line(fact: fact, effect: .setAside(.unsigned))
            }
            let grace = members.lazy.compactMap { periods[.grace($0.transaction, $0.product)]?.first }.first
            guard let grace else { return Explanation.Line(fact: fact, effect: .informs) }
            let effect: Explanation.Effect = source.counts(grace) ? .period(grace) : source.objection(to: grace)
            return Explanation.Line(fact: fact, effect: effect)
        }
    }

    /// Each purchase with its effects, followed by the statements of stores and the account's server about it.
    private func withStatements(
        _ purchases: [Purchase], at instant: Timestamp, _ effects: (Purchase) -> [Explanation.Effect]
    ) -> [Explanation.Line] {
        purchases.flatMap { purchase -> [Explanation.Line] in
            var effects = effects(purchase)
            switch verdict(on: purchase.transaction) {
            case .setAside(let reason): effects = [.setAside(reason)]
            // The source does not count purchases of this kind, or the rule gave no period.
            case .counts(let kind) where effects.isEmpty:
                effects = [.setAside(kind.group == nil ? .otherKind(kind.name) : .overruled(rules.expiry.name))]
            case .counts, nil: break
            }
            return effects.map { Explanation.Line(fact: .purchase(purchase), effect: $0) }
                + statements(about: purchase, at: instant)
        }
    }

    private func statements(about purchase: Purchase, at instant: Timestamp) -> [Explanation.Line] {
        var lines: [Explanation.Line] = []
        let environment = purchase.transaction.environment
        if let acceptance = facts.acceptance(of: purchase) {
            let objection = objection(to: nil, in: environment)
            lines.append(
                Explanation.Line(
                    fact: .acceptance(acceptance),
                    effect: objection.map(Explanation.Effect.setAside) ?? acceptance.effect))
        }
        if let misplaced = facts.misplacedAcceptances[purchase.transaction] {
            lines.append(Explanation.Line(fact: .acceptance(misplaced), effect: .setAside(.notFromServer)))
        }
        if let revocation = facts.status(of: purchase) {
            lines.append(Explanation.Line(fact: .revocation(revocation), effect: effect(of: revocation, instant)))
        }
        return lines
    }

    private func effect(of revocation: Revocation, _ instant: Timestamp) -> Explanation.Effect {
        if let reason = objection(to: revocation.stamp.logicalTime, in: revocation.transaction.environment) {
            return .setAside(reason)
        }
        if facts.isOverruled(revocation) { return .setAside(.unsigned) }
        guard let revokedAt = revocation.revokedAt else {
            return revocation.upgradedAt == nil ? .reinstates : .informs
        }
        return revokedAt <= instant ? .revokes : .notYet
    }

    /// The reason to set aside a fact of another environment or one that precedes a reset; otherwise `nil`.
    private func objection(to time: LogicalTime?, in other: EnvironmentID) -> SetAside? {
        guard other == environment else { return .otherEnvironment(other) }
        return time.map { facts.precedesReset($0, in: other) } ?? false ? .precedesReset : nil
    }

    private func flags(of product: ProductID) -> [Explanation.Line] {
        let isFlagged = ownerships[product]?.isFlagged ?? false
        return facts.flags.keys.filter { $0.product == product }.sorted().flatMap { reference in
            [facts.flags[reference]?.set, facts.flags[reference]?.cleared].compactMap { $0 }.map { flag in
                Explanation.Line(fact: .flag(flag), effect: effect(of: flag, isFlagged))
            }
        }
    }

    private func effect(of flag: Flag, _ isFlagged: Bool) -> Explanation.Effect {
        if let reason = objection(to: flag.logicalTime, in: flag.environment) { return .setAside(reason) }
        if flag.isSet { return isFlagged ? .flagCounts : .setAside(.overruled(rules.flags.name)) }
        let isSetToo = facts.flags[FlagMarks.Reference(flag.product, flag.environment)]?.set != nil
        return isFlagged || !isSetToo ? .setAside(.overruled(rules.flags.name)) : .revokes
    }

    private func requests(for source: Entitlement.Source) -> [Explanation.Line] {
        products(granting: source).map(\.id).sorted().filter(isPending).compactMap { facts.pending[$0] }.map {
            Explanation.Line(fact: .pending($0), effect: .waits)
        }
    }

    private func units(of product: ProductID, at instant: Timestamp) -> [Explanation.Line] {
        var granting: Set<TransactionReference> = []
        var counted: Set<SpendID> = []
        let steps = balanceSteps(of: product, at: instant).flatMap { step -> [Explanation.Line] in
            switch step.cause {
            case .grant(let purchase):
                granting.insert(purchase.transaction)
                let effect = Explanation.Effect.units(step.units, balance: step.balance)
                return [Explanation.Line(fact: .purchase(purchase), effect: effect)]
                    + statements(about: purchase, at: instant)
            case .spend(let spend):
                counted.insert(spend.id)
                let effect = Explanation.Effect.spent(
                    step.units, writtenOff: step.writtenOff, balance: step.balance)
                return [Explanation.Line(fact: .spend(spend), effect: effect)]
            }
        }
        let others = facts.purchases(of: product).filter { !granting.contains($0.transaction) }
        let strays = facts.spends(of: product).filter { !counted.contains($0.id) }
        return steps
            + withStatements(others, at: instant) { purchase in
                guard case .counts(.consumable) = verdict(on: purchase.transaction) else { return [] }
                guard purchase.date <= instant else { return [.notYet] }
                return facts.revocationDate(of: purchase).map { [.setAside(.revoked($0))] } ?? []
            } + strays.map { Explanation.Line(fact: .spend($0), effect: .setAside(reason(against: $0))) }
    }

    private func reason(against spend: Spend) -> SetAside {
        objection(to: spend.logicalTime, in: spend.environment) ?? .otherDevice
    }
}

extension Purchase {
    /// The origin of the periods that the purchase gives.
    fileprivate var origin: Period.Origin { .purchase(transaction, product) }
}

extension Acceptance {
    fileprivate var effect: Explanation.Effect {
        switch decision {
        case .accepted: .accepts
        case .countsAsOf(let date): .redates(date)
        case .refused(let reason): .setAside(.refused(reason))
        case .transferred(let account): .setAside(.transferred(to: account))
        }
    }
}

extension Entitlement.Source {
    /// The effect of a period whose level the source does not count.
    fileprivate func objection(to period: Period) -> Explanation.Effect {
        guard case .level(_, let required) = self, let level = period.level else { return .setAside(.withoutLevel) }
        return .setAside(.lowerLevel(level, required: required))
    }
}
