import Foundation

/// A JSON web signature that tests write, valid unless a property says otherwise.
package struct SignedText: Sendable {
    /// The body, as it is encoded.
    package var body: String
    /// More members of the header, or other values of `alg` and `x5c`.
    package var header: SignedFields = [:]
    /// The header as a whole, if it is not a plain object.
    package var headerText: String?
    /// The DER of the certificates in the header.
    package var certificates: [[UInt8]]
    package var key: AppStoreFoundry.Key
    /// Changes the bytes of the signature.
    package var changeSignature: @Sendable ([UInt8]) throws -> [UInt8] = { $0 }

    /// Signs the text.
    package func compact() throws -> String {
        let chain = certificates.map { "\"\(Data($0).base64EncodedString())\"" }.joined(separator: ",")
        let defaults: SignedFields = ["alg": "ES256", "x5c": .json("[\(chain)]")]
        let headerText = headerText ?? defaults.replacing(with: header).json
        let signed = Self.encoded(Array(headerText.utf8)) + "." + Self.encoded(Array(body.utf8))
        let signature = try changeSignature(try key.signature(of: Array(signed.utf8)))
        return signed + "." + Self.encoded(signature)
    }

    /// Encodes bytes as base64url without padding.
    package static func encoded(_ bytes: [UInt8]) -> String {
        Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
            .replacing("=", with: "")
    }
}

extension AppStoreFoundry {
    /// The purchase date of all defaults, 2025-06-01T12:00:00Z, in milliseconds.
    package static let purchaseDate: Int64 = 1_748_779_200_000

    /// The defaults of a transaction. The original transaction is the transaction itself.
    package static func transactionFields(_ fields: SignedFields = [:]) -> SignedFields {
        let id = fields["transactionId"] ?? "2000000000000001"
        let defaults: SignedFields = [
            "transactionId": id, "originalTransactionId": id, "bundleId": "com.example",
            "productId": "com.example.monthly", "subscriptionGroupIdentifier": "1",
            "type": "Auto-Renewable Subscription", "purchaseDate": .number(purchaseDate),
            "originalPurchaseDate": .number(purchaseDate), "expiresDate": .number(purchaseDate + 30 * 86_400_000),
            "quantity": 1, "inAppOwnershipType": "PURCHASED", "transactionReason": "PURCHASE",
            "environment": "Sandbox", "signedDate": .number(purchaseDate),
        ]
        return defaults.replacing(with: fields)
    }

    /// The defaults of a renewal info.
    package static func renewalFields(_ fields: SignedFields = [:]) -> SignedFields {
        let defaults: SignedFields = [
            "originalTransactionId": "2000000000000001", "productId": "com.example.monthly",
            "autoRenewProductId": "com.example.monthly", "autoRenewStatus": 1, "environment": "Sandbox",
            "signedDate": .number(purchaseDate),
        ]
        return defaults.replacing(with: fields)
    }

    /// Signs any body.
    ///
    /// - Parameters:
    ///   - body: The body as it is encoded, usually JSON.
    ///   - change: Changes what is signed, and how.
    package func sign(_ body: String, _ change: (inout SignedText) -> Void = { _ in }) throws -> String {
        var text = SignedText(body: body, certificates: try certificates, key: leafKey)
        change(&text)
        return try text.compact()
    }

    /// Signs a transaction with the default fields, except for `fields`.
    package func transaction(
        _ fields: SignedFields = [:], _ change: (inout SignedText) -> Void = { _ in }
    ) throws -> String {
        try sign(Self.transactionFields(fields).json, change)
    }

    /// Signs a renewal info with the default fields, except for `fields`.
    package func renewal(
        _ fields: SignedFields = [:], _ change: (inout SignedText) -> Void = { _ in }
    ) throws -> String {
        try sign(Self.renewalFields(fields).json, change)
    }

    /// Signs a notification, and the transaction and renewal info in it.
    ///
    /// - Parameters:
    ///   - type: The type, for example `DID_RENEW`.
    ///   - subtype: The subtype, for example `BILLING_RECOVERY`.
    ///   - transaction: The fields of the transaction that differ from the defaults; `nil` for a notification without
    ///     one.
    ///   - renewal: The fields of the renewal info that differ from the defaults; `nil` for a notification without
    ///     one.
    ///   - data: The members of `data` that differ from the defaults: `bundleId`, `environment`, `appAppleId`, or
    ///     another `signedTransactionInfo`.
    ///   - fields: The members of the notification that differ from the defaults: `signedDate`, `notificationUUID`.
    /// - Returns: The signed payload. ``body(of:)`` wraps it as Apple sends it.
    package func notification(
        _ type: String, _ subtype: String? = nil, transaction: SignedFields? = nil, renewal: SignedFields? = nil,
        data: SignedFields = [:], fields: SignedFields = [:], _ change: (inout SignedText) -> Void = { _ in }
    ) throws -> String {
        var content: SignedFields = ["bundleId": "com.example", "environment": "Sandbox", "appAppleId": 1234]
        if let transaction { content["signedTransactionInfo"] = .text(try self.transaction(transaction)) }
        if let renewal { content["signedRenewalInfo"] = .text(try self.renewal(renewal)) }
        let defaults: SignedFields = [
            "notificationType": .text(type), "subtype": subtype.map { .text($0) }, "version": "2.0",
            "notificationUUID": .text(UUID().uuidString.lowercased()), "signedDate": .number(Self.purchaseDate),
            "data": .object(content.replacing(with: data)),
        ]
        return try sign(defaults.replacing(with: fields).json, change)
    }

    /// The body of a request that brings a notification.
    package static func body(of signedPayload: String) -> [UInt8] {
        Array("{\"signedPayload\":\"\(signedPayload)\"}".utf8)
    }
}
