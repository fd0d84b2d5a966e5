import Entitlements

/// Converts RevenueCat's transactions into facts about the transactions of the stores. Pure.
struct RevenueCatConversion {
    let catalog: Catalog
    /// True to leave sandbox purchases out.
    let skipsSandbox: Bool

    /// The result for one transaction.
    enum Result {
        /// Its facts, the order that stands for it, and what is lost of it.
        case facts([Fact], order: TransactionReference?, losses: [String])
        /// The reason for which nothing of it is carried over.
        case leftOut(String)
    }

    /// Converts a transaction.
    func result(_ row: RevenueCatTransaction) -> Result {
        if skipsSandbox, row.isSandbox { return .leftOut("sandbox purchases (--skip-sandbox)") }
        switch row.store {
        case "app_store", "mac_app_store", "play_store", "stripe": break
        case "promotional": return .leftOut("promotional grants: give the time again, with record credit")
        default: return .leftOut("purchases of the store \"\(row.store.singleLine)\"")
        }
        if row.isFamilyShared { return .leftOut("purchases that a family shares: the device sends them again") }
        guard let id = row.transaction else { return .leftOut("purchases without the store's transaction id") }
        // At Google Play, a base plan may follow the product.
        let parts = row.product.split(separator: ":", maxSplits: 1).map(String.init)
        let product = ProductID(row.store == "play_store" ? parts.first ?? "" : row.product)
        guard (try? product.validate()) != nil, let terms = catalog.terms(of: product) else {
            return .leftOut("the catalogue has no product \"\(product.rawValue.singleLine)\"")
        }
        if case .consumable = terms.kind {
            return .leftOut("units of consumables: the export does not say which were used")
        }
        var end: Timestamp?
        if case .autoRenewable = terms.kind {
            guard let stated = row.end else { return .leftOut("subscriptions without an end") }
            guard stated > row.start else { return .leftOut("periods that end before they begin: they were not paid") }
            end = stated
        }
        guard let name = Name(id, row, product) else {
            return .leftOut(
                row.store == "stripe"
                    ? "Stripe's ids that name neither an invoice nor a payment" : "invalid transaction ids")
        }
        let stamp = Stamp(logicalTime: LogicalTime.zero.next(at: row.stated))
        var facts: [Fact] = [
            .purchase(
                Purchase(
                    transaction: name.transaction, product: product, terms: nil, date: row.start,
                    quantity: row.quantity, originalID: name.original, storeExpiry: end,
                    isIntroductory: row.isIntroductory, stamp: stamp))
        ]
        if let refunded = row.refunded {
            facts.append(
                .revocation(
                    Revocation(
                        transaction: name.transaction, revokedAt: refunded, reason: "revenuecat", stamp: stamp)))
        }
        var losses: [String] = []
        if row.resumes != nil { losses.append("pauses: the store states the next period") }
        if row.hasRenewalState { losses.append("cancellations and billing problems: the store states them again") }
        return .facts(facts, order: name.order, losses: losses)
    }

    /// The names by which this server knows a transaction of a store, so that a statement of the store agrees with it.
    private struct Name {
        var transaction: TransactionReference
        var original: TransactionID?
        var order: TransactionReference?

        init?(_ id: String, _ row: RevenueCatTransaction, _ product: ProductID) {
            let isTest = row.isSandbox
            switch row.store {
            case "play_store":
                // As PlayIdentity names it: an order sells products, and renewals are numbered.
                guard id.hasPrefix("GPA.") else { return nil }
                let first = id.firstRange(of: "..").map { String(id[..<$0.lowerBound]) } ?? id
                transaction = TransactionReference(
                    store: .googlePlay, environment: isTest ? .test : .production,
                    id: TransactionID("\(id)/\(product)"))
                original = first == id ? nil : TransactionID("\(first)/\(product)")
                order = TransactionReference(store: .googlePlay, environment: .production, id: TransactionID(id))
            case "stripe":
                guard id.hasPrefix("in_") || id.hasPrefix("pi_") else { return nil }
                transaction = TransactionReference(
                    store: .stripe, environment: isTest ? .test : .production, id: TransactionID(id))
                if let line = row.original, line.hasPrefix("sub_") { original = TransactionID(line) }
            default:
                transaction = TransactionReference(
                    store: .appStore, environment: isTest ? .sandbox : .production, id: TransactionID(id))
                if let line = row.original, line != id { original = TransactionID(line) }
            }
            guard (try? transaction.id.validate()) != nil, original.map({ (try? $0.validate()) != nil }) ?? true else {
                return nil
            }
        }
    }
}
