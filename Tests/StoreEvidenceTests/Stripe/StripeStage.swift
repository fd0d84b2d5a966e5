import Crypto
import Entitlements
import Foundation
import StoreEvidence
import Testing

/// Signs events as Stripe does, and verifies them.
enum StripeStage {
    static let secret = "whsec_test"
    static let now = Timestamp(milliseconds: 1_780_000_000_000)
    /// The time of the events, in seconds since 1970.
    static let seconds: Int64 = 1_780_000_000

    static let verifier = StripeVerifier(
        secrets: ["whsec_old", secret], productsByPrice: ["price_month": "month", "price_year": "year"])

    static func code(_ body: String, time: Int64 = seconds, secret: String = secret) -> String {
        HMAC<SHA256>.authenticationCode(
            for: Data("\(time).\(body)".utf8), using: SymmetricKey(data: Data(secret.utf8))
        ).map { String(format: "%02x", $0) }.joined()
    }

    static func signature(_ body: String, time: Int64 = seconds, secret: String = secret) -> String {
        "t=\(time),v1=\(code(body, time: time, secret: secret))"
    }

    /// An event that is created some seconds after the default time.
    static func event(_ type: String, after delay: Int64 = 0, livemode: String? = "true", _ object: String) -> String {
        "{\"id\":\"evt_1\",\"type\":\"\(type)\",\"created\":\(seconds + delay),"
            + (livemode.map { "\"livemode\":\($0)," } ?? "") + "\"data\":{\"object\":\(object)}}"
    }

    static func verify(_ body: String, by verifier: StripeVerifier = verifier) throws -> VerifiedEvidence {
        try verifier.event(Array(body.utf8), signature: signature(body), now: now)
    }

    static func expectRefusal(
        _ check: EvidenceError.Check, because text: String = "", isTransient: Bool = false, _ body: String,
        _ signature: String? = nil, by verifier: StripeVerifier = verifier,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        ReceiptStage.expectRefusal(check, text, isTransient: isTransient, sourceLocation: sourceLocation) {
            try verifier.event(Array(body.utf8), signature: signature ?? self.signature(body), now: now)
        }
    }

    static func reference(_ id: TransactionID, in environment: EnvironmentID = .production) -> TransactionReference {
        TransactionReference(store: .stripe, environment: environment, id: id)
    }

    /// A Checkout session of a one-time purchase, with further or other members.
    static func checkout(_ members: String = "") -> String {
        """
        {"id":"cs_1","mode":"payment","payment_status":"paid","payment_intent":"pi_1","created":1779999999,
         "client_reference_id":"ABC","metadata":{"entitlementsync_product":"owl"}\(members)}
        """
    }
}

extension VerifiedEvidence {
    /// The only purchase of the evidence.
    var purchase: Purchase {
        get throws {
            let purchases = facts.compactMap { if case .purchase(let purchase) = $0 { purchase } else { nil } }
            try #require(purchases.count == 1, "\(facts)")
            return purchases[0]
        }
    }

    var purchases: [Purchase] { facts.compactMap { if case .purchase(let fact) = $0 { fact } else { nil } } }
    var revocations: [Revocation] { facts.compactMap { if case .revocation(let fact) = $0 { fact } else { nil } } }
    var renewals: [RenewalState] { facts.compactMap { if case .renewalState(let fact) = $0 { fact } else { nil } } }
}

/// All orders of `items`.
func permutations<Item>(_ items: [Item]) -> [[Item]] {
    guard items.count > 1 else { return [items] }
    return items.indices.flatMap { index in
        var rest = items
        let item = rest.remove(at: index)
        return permutations(rest).map { [item] + $0 }
    }
}
