import Entitlements
import Foundation

@testable import StoreEvidence
@testable import SyncService

/// Writes evidence that ``PlainStoreVerifier`` accepts: the members of a signed transaction as plain JSON.
enum StoreMint {
    static func jws(_ sale: Sale) throws -> String { try text(members(of: sale)) }

    static func notification(_ sale: Sale) throws -> String { try jws(sale) }

    static func renewal(of original: String, at date: Int64) throws -> String {
        try text(["originalTransactionId": original, "signedDate": date])
    }

    /// A receipt of one sale, in base64.
    static func receipt(_ sale: Sale, at date: Int64) throws -> String {
        Data(try jws(sale.signed(at: date)).utf8).base64EncodedString()
    }

    private static func text(_ members: [String: Any]) throws -> String {
        String(decoding: try JSONSerialization.data(withJSONObject: members), as: UTF8.self)
    }

    private static func members(of sale: Sale) -> [String: Any] {
        var members: [String: Any] = [
            "transactionId": sale.id, "originalTransactionId": sale.original ?? sale.id, "productId": sale.product,
            "purchaseDate": sale.purchased, "signedDate": sale.signed, "environment": sale.environment.lowercased(),
            "store": sale.store,
        ]
        if let expires = sale.expires { members["expiresDate"] = expires }
        if let revoked = sale.revoked { members["revocationDate"] = revoked }
        if let lineItem = sale.lineItem { members["webOrderLineItemId"] = lineItem }
        if let token = sale.token { members["appAccountToken"] = token }
        return members
    }
}

/// A replacement for the verification of stores, for tests of the code above it. It checks dates and protects nothing.
struct PlainStoreVerifier: AppStoreVerification, StripeVerification, GooglePlayVerification {
    private struct Statement: Decodable {
        var transactionId: String
        var originalTransactionId: String
        var productId: String
        var purchaseDate: Int64
        var signedDate: Int64
        var environment: String
        var store: String
        var expiresDate: Int64?
        var revocationDate: Int64?
        var appAccountToken: String?
        var webOrderLineItemId: String?
    }

    private struct Renewal: Decodable {
        var originalTransactionId: String
        var signedDate: Int64
    }

    private func decode<Value: Decodable>(_ text: some StringProtocol) throws(EvidenceError) -> Value {
        do { return try JSONDecoder().decode(Value.self, from: Data(text.utf8)) } catch {
            throw EvidenceError(.signature, "it is not plain evidence")
        }
    }

    private func evidence(
        _ kind: EvidenceKind, _ text: some StringProtocol, _ now: Timestamp
    ) throws(EvidenceError) -> VerifiedEvidence {
        let statement: Statement = try decode(text)
        let signed = Timestamp(milliseconds: statement.signedDate)
        guard statement.signedDate - now.milliseconds <= EvidenceLimits.clockTolerance else {
            throw EvidenceError(.signedDate, "it is signed in the future", isTransient: true)
        }
        let reference = TransactionReference(
            store: StoreID(statement.store), environment: EnvironmentID(statement.environment),
            id: TransactionID(statement.transactionId))
        let isFirst = statement.originalTransactionId == statement.transactionId
        let purchase = Purchase(
            transaction: reference, product: ProductID(statement.productId), terms: nil,
            date: Timestamp(milliseconds: statement.purchaseDate),
            originalID: isFirst ? nil : TransactionID(statement.originalTransactionId),
            storeExpiry: statement.expiresDate.map { Timestamp(milliseconds: $0) },
            lineItemID: statement.webOrderLineItemId.map { TransactionID($0) }, stamp: .signed(at: signed))
        let revocation = Revocation(
            transaction: reference, revokedAt: statement.revocationDate.map { Timestamp(milliseconds: $0) },
            stamp: .signed(at: signed))
        return VerifiedEvidence(
            kind: kind, facts: [.purchase(purchase), .revocation(revocation)], signedDate: signed,
            accountToken: statement.appAccountToken?.lowercased())
    }

    func transaction(_ jws: String, now: Timestamp) throws(EvidenceError) -> VerifiedEvidence {
        try evidence(.appStoreTransaction, jws, now)
    }

    func renewal(_ jws: String, now: Timestamp) throws(EvidenceError) -> VerifiedEvidence {
        let renewal: Renewal = try decode(jws)
        let line = TransactionReference(store: .appStore, id: TransactionID(renewal.originalTransactionId))
        let signed = Timestamp(milliseconds: renewal.signedDate)
        let state = RenewalState(line: line, willRenew: true, stamp: .signed(at: signed))
        return VerifiedEvidence(kind: .appStoreRenewal, facts: [.renewalState(state)], signedDate: signed, line: line)
    }

    func notification(_ body: [UInt8], now: Timestamp) throws(EvidenceError) -> VerifiedEvidence {
        let members: [String: String] = try decode(String(decoding: body, as: UTF8.self))
        let payload = members["signedPayload"] ?? ""
        guard payload != "TEST" else {
            return VerifiedEvidence(kind: .appStoreNotification, facts: [], signedDate: now, event: "TEST")
        }
        return try evidence(.appStoreNotification, payload, now)
    }

    func receipt(_ bytes: [UInt8], now: Timestamp, deviceID: [UInt8]?) throws(EvidenceError) -> VerifiedEvidence {
        try evidence(.appStoreReceipt, String(decoding: bytes, as: UTF8.self), now)
    }

    /// The body names the evidence; the signature is the word `signed`.
    func event(_ body: [UInt8], signature: String, now: Timestamp) throws(EvidenceError) -> VerifiedEvidence {
        guard signature == "signed" else { throw EvidenceError(.signature, "it is not signed") }
        let members: [String: String] = try decode(String(decoding: body, as: UTF8.self))
        if let reason = members["refused"] {
            var error = EvidenceError(.content, reason)
            error.isAuthenticated = true
            throw error
        }
        func reference(_ name: String) -> TransactionReference? {
            members[name].map { TransactionReference(store: "stripe", id: TransactionID($0)) }
        }
        var evidence = VerifiedEvidence(
            kind: .stripe, facts: [], signedDate: now, accountToken: members["token"], line: reference("line"))
        if let refunded = reference("refund") {
            evidence.facts = [.revocation(Revocation(transaction: refunded, revokedAt: now, stamp: .signed(at: now)))]
        }
        if let alias = reference("intent"), let invoice = reference("invoice") { evidence.aliases = [alias: [invoice]] }
        if let sale = members["sale"] {
            let paid = try self.evidence(.stripe, sale, now)
            (evidence.facts, evidence.accountToken) = (paid.facts, paid.accountToken)
        }
        return evidence
    }

    func purchase(data: String, signature: String, now: Timestamp) throws(EvidenceError) -> VerifiedEvidence {
        guard signature == "signed" else { throw EvidenceError(.signature, "it is not signed") }
        return try evidence(.googlePlay, data, now)
    }

    func notification(_ body: [UInt8], now: Timestamp) throws(EvidenceError) -> PlayNotification {
        let members: [String: String] = try decode(String(decoding: body, as: UTF8.self))
        let evidence = VerifiedEvidence(kind: .googlePlayNotification, facts: [], signedDate: now)
        var notification = PlayNotification(
            evidence: evidence, subject: members["token"] == nil ? .test : .subscription, packageName: "owl", date: now)
        notification.purchaseToken = members["token"]
        return notification
    }

    func subscription(
        _ json: [UInt8], purchaseToken: String, statedAt: Timestamp?
    ) throws(EvidenceError) -> VerifiedEvidence {
        try evidence(.googlePlaySubscription, String(decoding: json, as: UTF8.self), statedAt ?? .latest)
    }

    func product(
        _ json: [UInt8], purchaseToken: String, statedAt: Timestamp?
    ) throws(EvidenceError) -> VerifiedEvidence {
        try evidence(.googlePlayProduct, String(decoding: json, as: UTF8.self), statedAt ?? .latest)
    }
}
