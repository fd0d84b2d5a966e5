extension Replay {
    /// The effect of one use of an entitlement.
    package enum Use: Sendable {
        /// A unit of the product must be spent.
        case spends(ProductID, Access.Grant)
        /// The id has already spent a unit of the product.
        case isSpent(of: ProductID, remaining: Int64)
        /// A period or an ownership grants access; no unit is needed.
        case granted(Access.Grant)
        /// Access is denied.
        case denied(Access.Denial)
    }

    /// Decides the effect of one use of `entitlement`.
    ///
    /// - Parameter id: The idempotency key: one id spends at most one unit.
    /// - Throws: ``RecordingError`` of kind `unknownEntitlement`, `invalid` (the id), or `contradiction` (the id has
    ///   spent a unit of a product that does not grant this entitlement).
    package func use(
        _ entitlement: EntitlementID, id: SpendID, at instant: Timestamp, context: AccessContext = AccessContext()
    ) throws(RecordingError) -> Use {
        do { try id.validate() } catch { throw RecordingError(.invalid, "spend id: \(error)") }
        guard let known = catalog[entitlement: entitlement] else { throw .unknown(entitlement) }
        if let spend = facts.spends.first(where: { $0.id == id }) {
            guard known.grantedBy.contains(.units(spend.product)) else {
                throw RecordingError(
                    .contradiction,
                    "spend id \"\(id.rawValue.singleLine)\" has already spent a unit of \(spend.product)")
            }
            return .isSpent(of: spend.product, remaining: balance(of: spend.product, at: instant))
        }
        switch access(to: known, at: instant, context: context) {
        case .granted(let grant):
            if case .units(let product) = grant.source { return .spends(product, grant) }
            return .granted(grant)
        case .denied(let denial): return .denied(denial)
        }
    }

    /// The fact that spends one unit of `product`.
    package func spend(_ product: ProductID, id: SpendID, by replica: ReplicaID, at now: Timestamp) -> Fact {
        .spend(
            Spend(
                id: id, product: product, units: 1, environment: environment, date: now, replica: replica,
                logicalTime: facts.latestTime.next(at: now)))
    }
}
