import Entitlements
import StoreEvidence
import SyncCore

// Names of the purchases of an invoice at Stripe.
extension EvidenceRecorder {
    /// Returns `evidence` with the names under which the purchases of its invoice are known.
    ///
    /// An invoice with one known product is the transaction `INVOICE`. If it has several, each is `INVOICE/PRODUCT`.
    /// After a change of the map of prices, the same event may state another number of known products. A purchase with
    /// a second name would count twice.
    func withKnownNames(_ evidence: VerifiedEvidence) async throws(BackendError) -> VerifiedEvidence {
        guard evidence.kind == .stripe else { return evidence }
        var evidence = evidence
        for (index, fact) in evidence.facts.enumerated() {
            guard var purchase = fact.purchase else { continue }
            let stated = purchase.transaction
            if let invoice = evidence.aliases.first(where: { $0.value.contains(stated) })?.key,
                try await isKnown(purchase, as: invoice)
            {
                purchase.transaction = invoice
                evidence.aliases[invoice]?.remove(stated)
            } else {
                var named = stated
                named.id = TransactionID("\(stated.id)/\(purchase.product)")
                guard try await names.knownLine(of: named) == purchase.line else { continue }
                purchase.transaction = named
            }
            evidence.facts[index] = .purchase(purchase)
        }
        return evidence
    }

    /// Returns `true` if a purchase of the same product in the same line is known as `name`.
    private func isKnown(_ purchase: Purchase, as name: TransactionReference) async throws(BackendError) -> Bool {
        guard try await names.knownLine(of: name) == purchase.line else { return false }
        let known = try await knownFacts(ofLine: purchase.line).joined().compactMap(\.purchase)
        return known.contains { $0.transaction == name && $0.product == purchase.product }
    }
}
