#if Evidence
internal import Entitlements

/// Turns the object of an event into facts.
struct StripeReader {
    let object: StoreObject
    let environment: EnvironmentID
    /// The date of the event.
    let date: Timestamp
    let productsByPrice: [String: ProductID]

    /// Returns the stamp of a statement of the event.
    ///
    /// Stripe dates events by the second. Of two events of one second the greater rank wins, whichever arrives first,
    /// and of equal ranks the greater record.
    func stamp(rank: UInt64 = 0) -> Stamp {
        let time = Stamp.signed(at: date).logicalTime
        return Stamp(signedDate: date, logicalTime: LogicalTime(rawValue: time.rawValue + rank))
    }

    func reference(_ id: String, _ name: String) throws(EvidenceError) -> TransactionReference {
        TransactionReference(store: .stripe, environment: environment, id: try TransactionID(id).checked(name))
    }

    /// The account token of the object or of the subscription that it belongs to.
    func accountToken() throws(EvidenceError) -> String? {
        if let token = try object.string("client_reference_id") { return token.lowercased() }
        for metadata in try metadata() {
            if let token = try metadata.string(StripeVerifier.accountKey) { return token.lowercased() }
        }
        return nil
    }

    /// The metadata of the object, then of the subscription that it belongs to.
    private func metadata() throws(EvidenceError) -> [StoreObject] {
        let details = try object.object("parent")?.object("subscription_details")
        return [
            try object.object("metadata"), try details?.object("metadata"),
            try object.object("subscription_details")?.object("metadata"),
        ].compactMap { $0 }
    }

    /// Returns the product of a line, which may be `nil` to ask for the product of the object only.
    func product(of line: StoreObject?) throws(EvidenceError) -> ProductID? {
        let price = try line?.expanded("price")
        if let name = try price?.object("metadata")?.string(StripeVerifier.productKey) { return try product(name) }
        if let line, let id = try priceID(of: line), let product = productsByPrice[id] {
            return try product.checked("the product of price \(id.singleLine)")
        }
        var candidates = try metadata()
        if let metadata = try line?.object("metadata") { candidates.insert(metadata, at: 0) }
        for metadata in candidates {
            if let name = try metadata.string(StripeVerifier.productKey) { return try product(name) }
        }
        return nil
    }

    /// The id of the price. The API version "Basil" moved it from `price` to `pricing.price_details.price`.
    func priceID(of line: StoreObject) throws(EvidenceError) -> String? {
        if let id = try line.object("pricing")?.object("price_details")?.reference("price") { return id }
        if let id = try line.reference("price") { return id }
        return try line.reference("plan")
    }

    private func product(_ name: String) throws(EvidenceError) -> ProductID {
        try ProductID(name).checked("metadata.\(StripeVerifier.productKey)")
    }

    /// The reason why nothing that has `prices` is known, with the remedy.
    func unknownProduct(prices: [StoreObject]) throws(EvidenceError) -> String {
        var ids: [String] = []
        for line in prices {
            if let id = try priceID(of: line)?.singleLine, !ids.contains(id) { ids.append(id) }
        }
        let of = ids.isEmpty ? "" : " of \(ids.prefix(10).joined(separator: ", "))"
        return
            "the product\(of) is unknown; set metadata \(StripeVerifier.productKey) of the price, or map the price to "
            + "a product (syncd serve --stripe-price \(ids.first ?? "PRICE")=PRODUCT)"
    }

    // MARK: Refunds and disputes

    func readRefund(into evidence: inout VerifiedEvidence) throws(EvidenceError) {
        let payment = try object.reference("payment_intent")
        if let payment, let invoice = try object.reference("invoice") {
            evidence.aliases[try reference(payment, "payment_intent")] = [try reference(invoice, "invoice")]
        }
        // After a part is refunded the purchase stays valid.
        guard try object.bool("refunded"), let payment else { return }
        evidence.facts = [
            .revocation(
                Revocation(
                    transaction: try reference(payment, "payment_intent"), revokedAt: date, reason: "refund",
                    stamp: stamp()))
        ]
    }

    /// Reads a dispute, which revokes the purchase unless it is won.
    ///
    /// A transaction has one status, and a won dispute must not reinstate a charge that was refunded, before or after.
    /// So the statements of disputes rank below those of refunds: they are filed as if signed in 1970, and their
    /// logical time orders them. If a charge has several disputes at once, the latest event decides.
    func readDispute(isClosed: Bool, into evidence: inout VerifiedEvidence) throws(EvidenceError) {
        let status = try object.required("status")
        guard let payment = try object.reference("payment_intent") else { return }
        // An inquiry takes no money. It becomes a dispute when the funds are withdrawn.
        guard !status.hasPrefix("warning_") else { return }
        let isWon = isClosed && status == "won"
        guard isWon || !isClosed || status == "lost" else { return }
        let opened = try object.date("created", unit: 1_000) ?? date
        let reason = try object.string("reason") ?? ""
        evidence.facts = [
            .revocation(
                Revocation(
                    transaction: try reference(payment, "payment_intent"), revokedAt: isWon ? nil : opened,
                    reason: isWon ? "dispute won" : "dispute" + (reason.isEmpty ? "" : ": \(reason.singleLine)"),
                    stamp: Stamp(
                        signedDate: Timestamp(milliseconds: 0), logicalTime: stamp(rank: isWon ? 0 : 1).logicalTime)))
        ]
    }
}
#endif
