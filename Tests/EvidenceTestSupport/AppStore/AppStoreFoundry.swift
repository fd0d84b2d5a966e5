package import Crypto
import CryptoExtras
package import Foundation
import SwiftASN1
package import X509

/// Certificates with Apple's markers, and test keys, that sign what the App Store signs.
///
/// ```swift
/// let foundry = try AppStoreFoundry.valid.get()
/// let verifier = AppStoreVerifier(bundleIDs: ["com.example"], roots: try EvidenceRoots(pem: foundry.roots))
/// let jws = try foundry.transaction(["transactionId": "1", "productId": "owl"])
/// ```
///
/// The defaults of everything that it signs are those of a monthly subscription in the sandbox that was bought at
/// 2025-06-01T12:00:00Z.
package struct AppStoreFoundry: Sendable {
    /// A key that signs.
    package enum Key: Sendable {
        case p256(P256.Signing.PrivateKey)
        case p384(P384.Signing.PrivateKey)

        package var certificateKey: Certificate.PrivateKey {
            switch self {
            case .p256(let key): Certificate.PrivateKey(key)
            case .p384(let key): Certificate.PrivateKey(key)
            }
        }

        /// The two numbers of the signature, as JSON web signatures have them.
        func signature(of bytes: [UInt8]) throws -> [UInt8] {
            switch self {
            case .p256(let key): Array(try key.signature(for: bytes).rawRepresentation)
            case .p384(let key): Array(try key.signature(for: bytes).rawRepresentation)
            }
        }
    }

    /// Deviations from a valid chain.
    package struct Flaws: Sendable {
        package var intermediateMarker = true
        package var intermediateIsAuthority = true
        package var intermediateMaySign = true
        /// False if the certificates below the root have no extension for key usage.
        package var statesKeyUsage = true
        package var intermediateNotBefore = ReceiptAuthority.date(2010)
        package var intermediateNotAfter = ReceiptAuthority.date(2045)
        package var leafMarker = true
        package var leafIsAuthority = false
        package var leafIsP384 = false
        package var leafNotBefore = ReceiptAuthority.date(2020)
        package var leafNotAfter = ReceiptAuthority.date(2045)
        /// The certificate with an extension that is critical and unknown.
        package var criticalExtension: Link?
        /// The certificate that its issuer, which then has an RSA key, signs with SHA-1.
        package var sha1: Link?
        /// True if another root with the same name signs the intermediate certificate.
        package var foreignRoot = false
        /// True if another intermediate certificate with the same name signs the leaf.
        package var foreignIntermediate = false

        package init(_ change: (inout Flaws) -> Void = { _ in }) { change(&self) }
    }

    /// A certificate of the chain below the root.
    package enum Link: Sendable {
        case intermediate, leaf
    }

    package let root: Certificate
    package let intermediate: Certificate
    package let leaf: Certificate
    package let intermediateKey: Key
    package let leafKey: Key

    /// A valid chain, made once for each process.
    package static let valid = Result { try AppStoreFoundry() }

    /// Makes a chain with new keys.
    package init(_ flaws: Flaws = Flaws()) throws {
        let foreignKey = Certificate.PrivateKey(P384.Signing.PrivateKey())
        let rootKey = try Self.authorityKey(isRSA: flaws.sha1 == .intermediate)
        let leafKey: Key = flaws.leafIsP384 ? .p384(P384.Signing.PrivateKey()) : .p256(P256.Signing.PrivateKey())
        let ellipticKey = P384.Signing.PrivateKey()
        let intermediateKey = try flaws.sha1 == .leaf ? Self.authorityKey(isRSA: true) : .init(ellipticKey)
        let rootName = try ReceiptAuthority.name("Apple Root CA - G3")
        let intermediateName = try ReceiptAuthority.name("Apple Worldwide Developer Relations Certification Authority")
        root = try Certificate(
            version: .v3, serialNumber: .init(2), publicKey: rootKey.publicKey,
            notValidBefore: ReceiptAuthority.date(2006), notValidAfter: ReceiptAuthority.date(2050),
            issuer: rootName, subject: rootName,
            signatureAlgorithm: flaws.sha1 == .intermediate ? .sha256WithRSAEncryption : .ecdsaWithSHA384,
            extensions: try Self.extensions(isAuthority: true, maySign: true, marker: nil, isCritical: false),
            issuerPrivateKey: rootKey)
        intermediate = try Certificate(
            version: .v3, serialNumber: .init(0x7001), publicKey: intermediateKey.publicKey,
            notValidBefore: flaws.intermediateNotBefore, notValidAfter: flaws.intermediateNotAfter,
            issuer: rootName, subject: intermediateName,
            signatureAlgorithm: flaws.sha1 == .intermediate ? .sha1WithRSAEncryption : .ecdsaWithSHA384,
            extensions: try Self.extensions(
                isAuthority: flaws.intermediateIsAuthority, maySign: flaws.intermediateMaySign,
                marker: flaws.intermediateMarker ? [1, 2, 840, 113_635, 100, 6, 2, 1] : nil,
                isCritical: flaws.criticalExtension == .intermediate, statesKeyUsage: flaws.statesKeyUsage),
            issuerPrivateKey: flaws.foreignRoot ? foreignKey : rootKey)
        leaf = try Certificate(
            version: .v3, serialNumber: .init(0x7D39_2009), publicKey: leafKey.certificateKey.publicKey,
            notValidBefore: flaws.leafNotBefore, notValidAfter: flaws.leafNotAfter, issuer: intermediateName,
            subject: try ReceiptAuthority.name("Prod ECC Mac App Store and iTunes Store Receipt Signing"),
            signatureAlgorithm: flaws.sha1 == .leaf ? .sha1WithRSAEncryption : .ecdsaWithSHA384,
            extensions: try Self.extensions(
                isAuthority: flaws.leafIsAuthority, maySign: flaws.leafIsAuthority,
                marker: flaws.leafMarker ? [1, 2, 840, 113_635, 100, 6, 11, 1] : nil,
                isCritical: flaws.criticalExtension == .leaf, statesKeyUsage: flaws.statesKeyUsage),
            issuerPrivateKey: flaws.foreignIntermediate ? foreignKey : intermediateKey)
        self.leafKey = leafKey
        self.intermediateKey = .p384(ellipticKey)
    }

    private static func authorityKey(isRSA: Bool) throws -> Certificate.PrivateKey {
        isRSA ? .init(try _RSA.Signing.PrivateKey(keySize: .bits2048)) : .init(P384.Signing.PrivateKey())
    }

    private static func extensions(
        isAuthority: Bool, maySign: Bool, marker: ASN1ObjectIdentifier?, isCritical: Bool, statesKeyUsage: Bool = true
    ) throws -> Certificate.Extensions {
        var extensions = try Certificate.Extensions {
            Critical(
                isAuthority
                    ? BasicConstraints.isCertificateAuthority(maxPathLength: nil)
                    : BasicConstraints.notCertificateAuthority)
        }
        if statesKeyUsage {
            let usage = KeyUsage(digitalSignature: !maySign, keyCertSign: maySign)
            try extensions.append(Certificate.Extension(usage, critical: true))
        }
        if let marker { try extensions.append(ReceiptAuthority.marker(marker)) }
        if isCritical { try extensions.append(.init(oid: [1, 2, 3, 4], critical: true, value: [5, 0])) }
        return extensions
    }

    /// The root certificate in PEM, for `EvidenceRoots(pem:)` and the option `--evidence-root`.
    package var roots: [UInt8] {
        get throws { Array(try root.serializeAsPEM().pemString.utf8) }
    }

    /// The certificates of a header in DER: leaf, intermediate, root.
    package var certificates: [[UInt8]] {
        get throws { try [leaf, intermediate, root].map(Self.der) }
    }

    /// The bytes of a certificate.
    package static func der(_ certificate: Certificate) throws -> [UInt8] {
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        return serializer.serializedBytes
    }
}
