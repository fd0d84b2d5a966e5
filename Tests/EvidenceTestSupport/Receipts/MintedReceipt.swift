import Crypto
import CryptoExtras
import SwiftASN1
package import X509

/// A purchase in a minted receipt. `nil` and empty texts are written as Apple writes absent values.
package struct MintedPurchase: Sendable {
    package var transaction: String
    package var product: String
    package var date: String
    package var original: String
    package var expiry: String
    package var cancelledAt = ""
    package var quantity = 1
    package var isTrial = false
    package var isIntroductory = false
    /// More attributes: a type and the DER of the value.
    package var extra: [(Int, [UInt8])] = []

    /// Creates a purchase. Dates are in RFC 3339.
    package init(
        _ transaction: String, _ product: String, at date: String, original: String? = nil, expiry: String = "",
        _ change: (inout MintedPurchase) -> Void = { _ in }
    ) {
        self.transaction = transaction
        self.product = product
        self.date = date
        self.original = original ?? transaction
        self.expiry = expiry
        change(&self)
    }

    /// The set of attributes, in Apple's order, which is not that of DER.
    package var bytes: [UInt8] {
        let attributes: [(Int, [UInt8])] = [
            (1708, DERBytes.ascii(expiry)), (1712, DERBytes.ascii(cancelledAt)), (1701, DERBytes.integer(quantity)),
            (1713, DERBytes.integer(isTrial ? 1 : 0)), (1719, DERBytes.integer(isIntroductory ? 1 : 0)),
            (1703, DERBytes.utf8(transaction)), (1705, DERBytes.utf8(original)), (1704, DERBytes.ascii(date)),
            (1706, DERBytes.ascii(date)), (1702, DERBytes.utf8(product)),
        ]
        return MintedReceipt.set(attributes + extra)
    }
}

/// A receipt that tests sign, valid unless a property says otherwise.
package struct MintedReceipt: Sendable {
    /// Digests that the signer may name.
    package enum Digest: Sendable {
        case sha256, sha1, md5
    }

    package var bundleID = "com.example.owl"
    package var environment: String? = "Production"
    package var created: String? = "2025-06-01T12:00:00Z"
    package var purchases: [MintedPurchase]
    package var deviceID: [UInt8] = Array(repeating: 7, count: 16)
    /// More attributes: a type and the DER of the value.
    package var extra: [(Int, [UInt8])] = []
    package var digest = Digest.sha256
    package var namesPlainRSA = true
    package var signerCount = 1
    package var signedAttributes: [UInt8] = []
    package var isStripped = false
    package var version = 1
    package var contentType: [UInt8] = signedDataType
    /// True for a container whose outer elements have indefinite lengths, as StoreKit Testing in Xcode writes it.
    package var hasIndefiniteLengths = false
    /// Overrides the certificates; by default leaf, intermediate and root.
    package var certificates: [Certificate]?

    /// Creates a receipt.
    package init(_ purchases: [MintedPurchase] = [], _ change: (inout MintedReceipt) -> Void = { _ in }) {
        self.purchases = purchases
        change(&self)
    }

    private static let opaqueValue: [UInt8] = Array(0..<16)
    private static let signedDataType: [UInt8] = [0x06, 9, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 7, 2]
    private static let dataType: [UInt8] = [0x06, 9, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 7, 1]

    static func set(_ attributes: [(Int, [UInt8])]) -> [UInt8] {
        DERBytes.set(
            attributes.map { type, value in
                DERBytes.sequence(DERBytes.integer(type), DERBytes.integer(1), DERBytes.octets(value))
            })
    }

    /// The signed content.
    package var content: [UInt8] {
        let bundle = DERBytes.utf8(bundleID)
        let hash = Array(Insecure.SHA1.hash(data: deviceID + Self.opaqueValue + bundle))
        var attributes: [(Int, [UInt8])] = [
            (8, DERBytes.ascii("")), (3, DERBytes.utf8("2")), (19, DERBytes.utf8("1.0")), (4, Self.opaqueValue),
            (5, hash), (2, bundle),
        ]
        if let environment { attributes.append((0, DERBytes.utf8(environment))) }
        if let created { attributes.append((12, DERBytes.ascii(created))) }
        attributes += extra
        attributes += purchases.map { (17, $0.bytes) }
        return Self.set(attributes)
    }

    /// Signs the receipt.
    package func bytes(by authority: ReceiptAuthority) throws -> [UInt8] {
        let content = content
        let signers = try (0..<signerCount).map { _ in try signer(of: content, by: authority) }
        let certificates = try (certificates ?? [authority.leaf, authority.intermediate, authority.root]).flatMap {
            try Self.serialized($0)
        }
        let element = hasIndefiniteLengths ? DERBytes.indefinite : DERBytes.element
        // An octet string of indefinite length consists of octet strings.
        let octets = DERBytes.octets(content)
        let signed = element(0xA0, hasIndefiniteLengths ? DERBytes.indefinite(0x24, octets) : octets)
        let signedData = element(
            0x30,
            DERBytes.integer(version) + DERBytes.set([digestAlgorithm]) + element(0x30, Self.dataType + signed)
                + DERBytes.context(0, certificates) + DERBytes.set(signers))
        return element(0x30, contentType + element(0xA0, signedData))
    }

    private func signer(of content: [UInt8], by authority: ReceiptAuthority) throws -> [UInt8] {
        let padding = _RSA.Signing.Padding.insecurePKCS1v1_5
        let signature =
            switch digest {
            case .sha256: try authority.leafKey.signature(for: SHA256.hash(data: content), padding: padding)
            // The digest MD5 is only named: its receipts are refused before the signature is verified.
            case .sha1, .md5: try authority.leafKey.signature(for: Insecure.SHA1.hash(data: content), padding: padding)
            }
        return DERBytes.sequence(
            DERBytes.integer(1),
            DERBytes.sequence(
                try Self.serialized(authority.leaf.issuer),
                DERBytes.element(0x02, Array(authority.leaf.serialNumber.bytes))),
            digestAlgorithm, signedAttributes, signatureAlgorithm,
            DERBytes.octets(isStripped ? [] : Array(signature.rawRepresentation)))
    }

    private var digestAlgorithm: [UInt8] {
        switch digest {
        case .sha256: Self.algorithm([0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1])
        case .sha1: Self.algorithm([0x2B, 0x0E, 3, 2, 0x1A])
        case .md5: Self.algorithm([0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 2, 5])
        }
    }

    private var signatureAlgorithm: [UInt8] {
        let last: UInt8 =
            switch digest {
            case _ where namesPlainRSA: 1
            case .sha256: 11
            case .sha1: 5
            case .md5: 4
            }
        return Self.algorithm([0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, last])
    }

    private static func algorithm(_ identifier: [UInt8]) -> [UInt8] {
        DERBytes.sequence(DERBytes.element(0x06, identifier), [5, 0])
    }

    private static func serialized(_ value: some DERSerializable) throws -> [UInt8] {
        var serializer = DER.Serializer()
        try serializer.serialize(value)
        return serializer.serializedBytes
    }
}
