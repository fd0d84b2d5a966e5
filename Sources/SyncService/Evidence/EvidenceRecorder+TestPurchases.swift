import Entitlements
import StoreEvidence
import SyncCore

// Purchases of licence testers at Google Play. Only an answer of Google's API tells them from others.
extension EvidenceRecorder {
    /// Returns `evidence` with each test purchase in the environment `test` only.
    ///
    /// A purchase that a device sends is filed under `test` if Google has said that it is a test. If Google says so
    /// later, the purchase in `production` is revoked.
    func withTestPurchases(_ evidence: VerifiedEvidence) async throws(BackendError) -> VerifiedEvidence {
        let isFromDevice = evidence.kind == .googlePlay
        guard isFromDevice || evidence.kind == .googlePlaySubscription || evidence.kind == .googlePlayProduct else {
            return evidence
        }
        var evidence = evidence
        for (index, fact) in evidence.facts.enumerated() {
            guard var purchase = fact.purchase else { continue }
            var twin = purchase.transaction
            twin.environment = isFromDevice ? .test : .production
            guard twin != purchase.transaction, try await names.knownLine(of: twin) != nil else { continue }
            guard isFromDevice else {
                evidence.facts.append(
                    .revocation(
                        Revocation(
                            transaction: twin, revokedAt: purchase.date, reason: "test purchase",
                            stamp: evidence.signedDate.map(Stamp.signed) ?? purchase.stamp)))
                continue
            }
            for (name, transactions) in evidence.aliases {
                evidence.aliases[name] = Set(transactions.map { $0 == purchase.transaction ? twin : $0 })
            }
            purchase.transaction = twin
            evidence.facts[index] = .purchase(purchase)
        }
        return evidence
    }

    /// Returns `true` unless all purchases of `evidence` are known, in `production` or in `test`.
    func hasNewPurchase(_ evidence: VerifiedEvidence) async throws(BackendError) -> Bool {
        for purchase in evidence.facts.compactMap(\.purchase) {
            var twin = purchase.transaction
            twin.environment = .test
            if try await names.knownLine(of: purchase.transaction) == nil, try await names.knownLine(of: twin) == nil {
                return true
            }
        }
        return false
    }
}
