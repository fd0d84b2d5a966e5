#if Evidence
package import Entitlements

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Evidence that a device has verified, in the form in which it is kept and sent.
package struct EvidenceItem: Sendable {
    /// The result of the verification.
    package let evidence: VerifiedEvidence
    /// The purchase, or for a receipt its purchases. Later evidence of the same kind and subject replaces earlier
    /// evidence.
    package let subject: String
    /// The JSON object that `POST /v1/transactions` takes.
    package let json: [UInt8]

    /// Verifies a transaction of StoreKit 2.
    package init(jws: String, _ verifier: AppStoreVerifier, now: Timestamp) throws(EvidenceError) {
        let evidence = try verifier.transaction(jws, now: now)
        let environment = evidence.line.map { "\($0.environment)/" } ?? ""
        self.init(evidence, environment + (evidence.firstTransaction?.id.rawValue ?? ""), [("jws", jws)])
    }

    /// Verifies an app receipt. It must not have expired at `expiryTime`, the clock of this machine.
    package init(
        receipt: [UInt8], _ verifier: AppStoreVerifier, now: Timestamp, expiryTime: Timestamp,
        deviceID: [UInt8]? = nil
    ) throws(EvidenceError) {
        let evidence = try verifier.receipt(receipt, now: now, expiryTime: expiryTime, deviceID: deviceID)
        // Apple removes finished consumables from later receipts, so only a receipt with the same purchases replaces
        // one that was not sent yet.
        let purchases = evidence.facts.compactMap(\.purchase?.transaction)
        let names = purchases.sorted().map { "\($0.environment)/\($0.id)" }.joined(separator: "\n")
        self.init(evidence, hexadecimalDigest(of: names), [("data", Data(receipt).base64EncodedString())])
    }

    /// Verifies a purchase of Google Play.
    package init(
        data: String, signature: String, _ verifier: GooglePlayVerifier, now: Timestamp
    ) throws(EvidenceError) {
        let evidence = try verifier.purchase(data: data, signature: signature, now: now)
        self.init(
            evidence, evidence.firstTransaction?.id.rawValue ?? "", [("data", data), ("signature", signature)])
    }

    private init(_ evidence: VerifiedEvidence, _ subject: String, _ members: [(String, String)]) {
        (self.evidence, self.subject) = (evidence, subject)
        let texts = [("kind", evidence.kind.rawValue)] + members
        json = Array(JSON.object(texts.map { ($0.0, .string($0.1)) }).text().utf8)
    }
}

extension VerifiedEvidence {
    /// The transaction of the first purchase.
    fileprivate var firstTransaction: TransactionReference? {
        facts.lazy.compactMap(\.purchase?.transaction).first
    }
}

extension VerifiedEvidence {
    /// Throws if a purchase or a renewal state is of another environment than `environment`.
    package func check(_ environment: EnvironmentID) throws(EvidenceError) {
        for fact in facts {
            let stated: EnvironmentID
            switch fact {
            case .purchase(let purchase): stated = purchase.transaction.environment
            case .renewalState(let state): stated = state.line.environment
            default: continue
            }
            guard stated != environment else { continue }
            throw EvidenceError(
                .environment, "the purchases are of the environment \(stated), not \(environment.rawValue.singleLine)")
        }
    }
}
#endif
