import Crypto
import Foundation
import SwiftASN1
import X509

/// A chain of certificates with Apple's markers, new keys, and transactions that they sign.
struct SignedSamples {
    /// The date of all signatures, in milliseconds: 2025-06-01T12:00:00Z.
    static let date: Int64 = 1_748_779_200_000

    /// The DER of the intermediate certificate.
    let intermediate: [UInt8]
    private let root: Certificate
    private let leaf: [UInt8]
    private let leafKey = P256.Signing.PrivateKey()
    private let bareText = [UInt8](repeating: 0x61, count: 3_000)
    private let bareSignature: P256.Signing.ECDSASignature

    init() throws {
        let (rootKey, intermediateKey) = (P384.Signing.PrivateKey(), P384.Signing.PrivateKey())
        let rootName = try DistinguishedName { CommonName("Root") }
        let intermediateName = try DistinguishedName { CommonName("Intermediate") }
        root = try Self.certificate(rootName, .init(rootKey.publicKey), by: rootName, rootKey, marker: nil)
        intermediate = try Self.bytes(
            Self.certificate(
                intermediateName, .init(intermediateKey.publicKey), by: rootName, rootKey,
                marker: [1, 2, 840, 113_635, 100, 6, 2, 1]))
        leaf = try Self.bytes(
            Self.certificate(
                DistinguishedName { CommonName("Leaf") }, .init(leafKey.publicKey), by: intermediateName,
                intermediateKey, marker: [1, 2, 840, 113_635, 100, 6, 11, 1], isAuthority: false))
        bareSignature = try leafKey.signature(for: bareText)
    }

    /// The root certificate in PEM.
    var roots: [UInt8] {
        get throws { Array(try root.serializeAsPEM().pemString.utf8) }
    }

    /// Verifies one signature of about the length of a transaction.
    func verifiesBareSignature() -> Bool { leafKey.publicKey.isValidSignature(bareSignature, for: bareText) }

    /// Signs a transaction, about as long as a real one.
    ///
    /// - Parameter other: Another intermediate certificate for the header.
    func transaction(intermediate other: [UInt8]? = nil) throws -> String {
        try signed(
            """
            {"transactionId":"2000000000000001","originalTransactionId":"2000000000000001",
            "webOrderLineItemId":"2000000000000000","bundleId":"com.example","productId":"com.example.monthly",
            "subscriptionGroupIdentifier":"20000000","purchaseDate":\(Self.date),"originalPurchaseDate":\(Self.date),
            "expiresDate":\(Self.date + 2_592_000_000),"quantity":1,"type":"Auto-Renewable Subscription",
            "inAppOwnershipType":"PURCHASED","signedDate":\(Self.date),"environment":"Production",
            "transactionReason":"PURCHASE","storefront":"USA","storefrontId":"143441","price":4990,"currency":"USD"}
            """, intermediate: other)
    }

    /// Signs the body of a notification about the purchase of a product by the account that `token` names.
    func notification(product: String, token: String) throws -> [UInt8] {
        let transaction = try signed(
            """
            {"transactionId":"\(product)","originalTransactionId":"\(product)","bundleId":"com.example",
            "productId":"\(product)","purchaseDate":\(Self.date),"originalPurchaseDate":\(Self.date),"quantity":1,
            "type":"Non-Consumable","inAppOwnershipType":"PURCHASED","signedDate":\(Self.date),
            "environment":"Production","transactionReason":"PURCHASE","appAccountToken":"\(token)"}
            """)
        let payload = try signed(
            """
            {"notificationType":"ONE_TIME_CHARGE","version":"2.0","notificationUUID":"\(UUID().uuidString)",
            "signedDate":\(Self.date),"data":{"bundleId":"com.example","environment":"Production","appAppleId":1234,
            "signedTransactionInfo":"\(transaction)"}}
            """)
        return Array("{\"signedPayload\":\"\(payload)\"}".utf8)
    }

    /// Signs a body as the App Store does.
    private func signed(_ body: String, intermediate other: [UInt8]? = nil) throws -> String {
        let chain = [leaf, other ?? intermediate, try Self.bytes(root)].map {
            "\"\(Data($0).base64EncodedString())\""
        }
        let header = "{\"alg\":\"ES256\",\"x5c\":[\(chain.joined(separator: ","))]}"
        let text = Self.base64url(Array(header.utf8)) + "." + Self.base64url(Array(body.utf8))
        let signature = try leafKey.signature(for: Array(text.utf8))
        return text + "." + Self.base64url(Array(signature.rawRepresentation))
    }

    private static func base64url(_ bytes: [UInt8]) -> String {
        Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    private static func certificate(
        _ subject: DistinguishedName, _ key: Certificate.PublicKey, by issuer: DistinguishedName,
        _ issuerKey: P384.Signing.PrivateKey, marker: ASN1ObjectIdentifier?, isAuthority: Bool = true
    ) throws -> Certificate {
        var extensions = try Certificate.Extensions {
            Critical(
                isAuthority
                    ? BasicConstraints.isCertificateAuthority(maxPathLength: nil)
                    : BasicConstraints.notCertificateAuthority)
            Critical(KeyUsage(digitalSignature: !isAuthority, keyCertSign: isAuthority))
        }
        if let marker { try extensions.append(.init(oid: marker, critical: false, value: [5, 0])) }
        return try Certificate(
            version: .v3, serialNumber: .init(1), publicKey: key,
            notValidBefore: Date(timeIntervalSince1970: 1_500_000_000),
            notValidAfter: Date(timeIntervalSince1970: 2_500_000_000), issuer: issuer, subject: subject,
            signatureAlgorithm: .ecdsaWithSHA384, extensions: extensions, issuerPrivateKey: .init(issuerKey))
    }

    private static func bytes(_ certificate: Certificate) throws -> [UInt8] {
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        return serializer.serializedBytes
    }
}

extension String {
    /// This signed text with another signature.
    var edited: String {
        var bytes = Array(utf8)
        let place = bytes.count - 40
        bytes[place] = bytes[place] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
        return String(decoding: bytes, as: UTF8.self)
    }
}
