import Entitlements
import StoreEvidence
import SyncService

/// A store that sells, and what it signs. Its statements are plain texts: only the code above the cryptography is
/// simulated. Single-threaded.
final class StoreDesk: @unchecked Sendable {
    /// The number of products. Each is sold once, so that access shows which accounts have the sale.
    static let saleCount = 8

    /// The catalogue: the product `p3` is sold once, and opens the entitlement `e3`.
    static let catalog: Catalog = {
        do {
            return try Catalog(
                products: (0..<saleCount).map { Product(id: ProductID("p\($0)"), kind: .nonConsumable) },
                entitlements: (0..<saleCount).map {
                    Entitlement(id: EntitlementID("e\($0)"), grantedBy: [.product(ProductID("p\($0)"))])
                })
        } catch {
            preconditionFailure("the catalogue of the simulation is not valid: \(error)")
        }
    }()

    /// The dates of sales and refunds, in milliseconds since 1970 UTC.
    private var sold: [Int: Int64] = [:]
    private var refunded: [Int: Int64] = [:]
    /// The date of the last signature. Dates differ, so that it is clear which statement is the last.
    private var lastSigned: Int64 = 0

    func refund(_ sale: Int, at now: Int64) { refunded[sale] = refunded[sale] ?? now }

    func isRefunded(_ sale: Int) -> Bool { refunded[sale] != nil }

    /// Returns `true` if a server whose clock shows `time` (milliseconds since 1970 UTC) grants the sale to its owner.
    func counts(_ sale: Int, at time: Int64) -> Bool {
        guard let date = sold[sale], date <= time else { return false }
        return refunded[sale].map { time < $0 } ?? true
    }

    /// The store's statement about a sale, signed now: `t3 p3 DATE SIGNED REFUND`.
    func text(of sale: Int, at now: Int64) -> String {
        let date = sold[sale] ?? now
        sold[sale] = date
        lastSigned = max(now, lastSigned + 1)
        return "t\(sale) p\(sale) \(date) \(lastSigned) \(refunded[sale].map(String.init) ?? "-")"
    }

    /// The statement as a device sends it.
    func item(of sale: Int, at now: Int64) -> [UInt8] {
        Self.item(text(of: sale, at: now))
    }

    private static func item(_ text: String) -> [UInt8] {
        Array(#"{"kind":"app-store-transaction","jws":"\#(text)"}"#.utf8)
    }

    /// The statement as a device keeps it.
    func statement(of sale: Int, at now: Int64) throws -> VerifiedStatement {
        let text = text(of: sale, at: now)
        let evidence = try StoreVerifier().transaction(text, now: Timestamp(milliseconds: now))
        return VerifiedStatement(
            kind: "app-store-transaction", subject: "production/t\(sale)", data: Self.item(text), facts: evidence.facts,
            signedDate: evidence.signedDate ?? Timestamp(milliseconds: now))
    }

    /// The sale of a statement's text.
    static func sale(of text: String) -> Int? { text.split(separator: " ").first.flatMap { Int($0.dropFirst()) } }
}

/// Reads the statements of ``StoreDesk``.
struct StoreVerifier: AppStoreVerification {
    private func evidence(
        _ kind: EvidenceKind, _ text: String, _ now: Timestamp
    ) throws(EvidenceError) -> VerifiedEvidence {
        let parts = text.split(separator: " ").map(String.init)
        guard parts.count == 5, let date = Int64(parts[2]), let signed = Int64(parts[3]) else {
            throw EvidenceError(.signature, "the simulated store has not signed this")
        }
        guard signed - now.milliseconds <= EvidenceLimits.clockTolerance else {
            throw EvidenceError(.signedDate, "it is signed in the future", isTransient: true)
        }
        let stamp = Stamp.signed(at: Timestamp(milliseconds: signed))
        let reference = TransactionReference(store: .appStore, id: TransactionID(parts[0]))
        let purchase = Purchase(
            transaction: reference, product: ProductID(parts[1]), terms: nil, date: Timestamp(milliseconds: date),
            stamp: stamp)
        let revocation = Revocation(
            transaction: reference, revokedAt: Int64(parts[4]).map { Timestamp(milliseconds: $0) }, stamp: stamp)
        return VerifiedEvidence(
            kind: kind, facts: [.purchase(purchase), .revocation(revocation)],
            signedDate: Timestamp(milliseconds: signed))
    }

    func transaction(_ jws: String, now: Timestamp) throws(EvidenceError) -> VerifiedEvidence {
        try evidence(.appStoreTransaction, jws, now)
    }

    func renewal(_ jws: String, now: Timestamp) throws(EvidenceError) -> VerifiedEvidence {
        throw EvidenceError(.signature, "the simulated store signs no renewal infos")
    }

    func notification(_ body: [UInt8], now: Timestamp) throws(EvidenceError) -> VerifiedEvidence {
        let payload = (try? JSON(parsing: body))?["signedPayload"]?.string ?? ""
        return try evidence(.appStoreNotification, payload, now)
    }

    func receipt(_ bytes: [UInt8], now: Timestamp, deviceID: [UInt8]?) throws(EvidenceError) -> VerifiedEvidence {
        throw EvidenceError(.signature, "the simulated store signs no receipts")
    }
}
