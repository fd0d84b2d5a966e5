extension Replay {
    /// Returns the number of units of a consumable that are left at `instant`, 0 or more.
    ///
    /// Grants and spends are replayed by (logical time, key), and the running balance never falls below 0. Units that
    /// offline devices overspent are written off once and do not reduce later purchases. Purchases that are dated
    /// after `instant`, or revoked by then, grant nothing.
    ///
    /// - Complexity: O(*n* log *n*) in the number of facts about the product.
    public func balance(of product: ProductID, at instant: Timestamp) -> Int64 {
        balanceSteps(of: product, at: instant).last?.balance ?? 0
    }

    /// One change of a balance.
    struct BalanceStep {
        enum Cause {
            case grant(Purchase)
            case spend(Spend)
        }
        let time: LogicalTime
        let key: [UInt8]
        let cause: Cause
        let units: Int64
        var balance: Int64 = 0
        /// Units of a spend that no grant covered.
        var writtenOff: Int64 = 0
    }

    func balanceSteps(of product: ProductID, at instant: Timestamp) -> [BalanceStep] {
        var steps: [BalanceStep] = []
        for purchase in facts.purchases(of: product) where purchase.date <= instant {
            guard case .counts(.consumable(let units)) = verdict(on: purchase.transaction) else { continue }
            if let revokedAt = facts.revocationDate(of: purchase), revokedAt <= instant { continue }
            steps.append(
                BalanceStep(
                    time: facts.firstRecorded(purchase), key: FactKey.purchase(purchase.transaction).bytes,
                    cause: .grant(purchase), units: units * purchase.quantity))
        }
        for spend in facts.spends(of: product) where counts(spend) {
            steps.append(
                BalanceStep(
                    time: spend.logicalTime, key: FactKey.spend(spend.id).bytes, cause: .spend(spend),
                    units: spend.units))
        }
        steps.sort { left, right in
            left.time != right.time ? left.time < right.time : left.key.lexicographicallyPrecedes(right.key)
        }
        var balance: Int64 = 0
        for index in steps.indices {
            switch steps[index].cause {
            case .grant:
                let (sum, overflow) = balance.addingReportingOverflow(steps[index].units)
                balance = overflow ? .max : sum
            case .spend:
                steps[index].writtenOff = max(0, steps[index].units - balance)
                balance = max(0, balance - steps[index].units)
            }
            steps[index].balance = balance
        }
        return steps
    }

    private func counts(_ spend: Spend) -> Bool {
        spend.environment == environment && !facts.precedesReset(spend.logicalTime, in: environment)
            && (rules.consumables == .shared || facts.isOnDevice(spend))
    }

    /// All consumables that the catalogue or a purchase names, in ascending order.
    package var consumables: [ProductID] {
        var ids: Set<ProductID> = []
        for product in catalog.products {
            if case .consumable = product.kind { ids.insert(product.id) }
        }
        for (purchase, verdict) in zip(facts.purchases, verdicts) {
            // A purchase sold as another kind does not count as a consumable.
            if let terms = purchase.terms { guard case .consumable = terms.kind else { continue } }
            if case .counts(.consumable) = verdict { ids.insert(purchase.product) }
        }
        return ids.sorted()
    }
}
