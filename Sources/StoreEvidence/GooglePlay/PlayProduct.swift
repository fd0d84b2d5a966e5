#if Evidence
package import Entitlements

extension GooglePlayVerifier {
    /// Decodes the JSON answer of `purchases.productsv2.getproductpurchasev2`, which is unsigned.
    ///
    /// Each product of the order gives a purchase of the quantity that was not refunded. If nothing of it is left, or
    /// the purchase was cancelled after its payment, the purchase is revoked at the date of the answer. Google does not
    /// state the date of the refund, so a notification of the refund takes precedence over this revocation.
    ///
    /// A purchase that awaits its payment, or was cancelled before, gives no facts. One of a licence tester is filed
    /// under the environment `test`. ``VerifiedEvidence/event`` is the state of the purchase.
    ///
    /// - Parameters: As for ``subscription(_:purchaseToken:statedAt:)``.
    /// - Throws: ``EvidenceError`` that names the failed check.
    package func product(
        _ json: [UInt8], purchaseToken: String, statedAt: Timestamp?
    ) throws(EvidenceError) -> VerifiedEvidence {
        try checkSize(json.count, limit: EvidenceLimits.notification, "the purchase")
        let object = try StoreObject(parsing: json)
        guard let context = try object.object("purchaseStateContext") else {
            throw object.missing("purchaseStateContext")
        }
        let state = try context.required("purchaseState")
        guard ["PURCHASED", "CANCELLED", "PENDING"].contains(state) else {
            throw EvidenceError(.state, "the state \"\(state.singleLine)\" is unknown; update this program")
        }
        let environment = try object.object("testPurchaseContext") == nil ? EnvironmentID.production : .test
        var evidence = VerifiedEvidence(kind: .googlePlayProduct, facts: [], signedDate: statedAt, event: state)
        evidence.accountToken = try object.string("obfuscatedExternalAccountId")?.lowercased()
        guard state != "PENDING" else { return evidence }
        guard let date = try object.date("purchaseCompletionTime") else {
            guard state == "CANCELLED" else { throw object.missing("purchaseCompletionTime") }
            return evidence
        }
        let identity = PlayIdentity(order: try object.id("orderId"), purchaseToken: purchaseToken)
        for (product, quantity) in try quantities(of: object).sorted(by: { $0.key < $1.key }) {
            let left = state == "CANCELLED" ? 0 : quantity.left
            var purchase = try identity.purchase(
                of: product, in: environment, date: date,
                stamp: statedAt.map(Stamp.signed) ?? Stamp(logicalTime: .zero), addingAliasesTo: &evidence)
            purchase.quantity = left == 0 ? quantity.sold : left
            evidence.facts.append(.purchase(purchase))
            if left == 0 { evidence.facts.append(Self.refund(of: purchase.transaction, bought: date, statedAt)) }
            guard state == "PURCHASED", evidence.unacknowledged == nil,
                try object.string("acknowledgementState") == PlayIdentity.unacknowledged
            else { continue }
            evidence.unacknowledged = UnacknowledgedPurchase(
                isSubscription: false, product: product, purchaseToken: purchaseToken)
        }
        return evidence
    }

    /// Returns the quantity of each product that was sold, and the part of it that was not refunded.
    private func quantities(
        of object: StoreObject
    ) throws(EvidenceError) -> [ProductID: (sold: Int64, left: Int64)] {
        let items = try object.objects("productLineItem")
        guard !items.isEmpty else { throw object.missing("productLineItem") }
        var quantities: [ProductID: (sold: Int64, left: Int64)] = [:]
        for item in items {
            let product = try ProductID(item.required("productId")).checked("productId")
            let details = try item.object("productOfferDetails")
            let sold = try details?.quantity() ?? 1
            // Google does not say when it leaves out the member. It is assumed that nothing was refunded then.
            let left = try details?.integer("refundableQuantity") ?? sold
            guard (0...sold).contains(left) else {
                throw EvidenceError(.content, "refundableQuantity must be 0 to \(sold), the quantity, not \(left)")
            }
            let known = quantities[product] ?? (0, 0)
            quantities[product] = (known.sold + sold, known.left + left)
            try checkQuantity(known.sold + sold, "the quantity of \(product)")
        }
        return quantities
    }

    /// A revocation that is filed as if signed in 1970, so that it yields to a refund with a known date.
    private static func refund(
        of transaction: TransactionReference, bought date: Timestamp, _ statedAt: Timestamp?
    ) -> Fact {
        let stamp = statedAt.map { statedAt in
            Stamp(signedDate: Timestamp(milliseconds: 0), logicalTime: Stamp.signed(at: statedAt).logicalTime)
        }
        return .revocation(
            Revocation(
                transaction: transaction, revokedAt: statedAt ?? date, reason: "refund",
                stamp: stamp ?? Stamp(logicalTime: .zero)))
    }
}
#endif
