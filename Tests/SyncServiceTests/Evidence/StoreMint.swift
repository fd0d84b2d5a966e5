import Foundation
import StoreEvidence

/// Signs sales as the App Store does.
enum StoreMint {
    static let verifier = AppStoreVerifier(bundleIDs: ["com.example.owl"])

    static func jws(_ sale: Sale) throws -> String {
        String(decoding: try JSONSerialization.data(withJSONObject: payload(sale)), as: UTF8.self)
    }

    static func notification(_ sale: Sale) throws -> String { try jws(sale) }

    static func renewal(of original: String, at date: Int64) throws -> String {
        String(
            decoding: try JSONSerialization.data(withJSONObject: ["originalTransactionId": original, "signedDate": date] as [String: Any]),
            as: UTF8.self)
    }

    private static func payload(_ sale: Sale) -> [String: Any] {
        var members: [String: Any] = [
            "transactionId": sale.id, "originalTransactionId": sale.original ?? sale.id, "productId": sale.product,
            "bundleId": "com.example.owl", "purchaseDate": sale.purchased, "signedDate": sale.signed,
            "environment": sale.environment, "quantity": 1, "inAppOwnershipType": "PURCHASED",
            "type": sale.expires == nil ? "Non-Consumable" : "Auto-Renewable Subscription",
        ]
        if let expires = sale.expires { members["expiresDate"] = expires }
        if let revoked = sale.revoked { (members["revocationDate"], members["revocationReason"]) = (revoked, 0) }
        if let token = sale.token { members["appAccountToken"] = token }
        return members
    }
}

extension StoreMint {
    /// A receipt, in base64.
    static func receipt(_ sales: [Sale], at date: Int64) throws -> String {
        Data(try jws(sales[0].signed(at: date)).utf8).base64EncodedString()
    }
}
