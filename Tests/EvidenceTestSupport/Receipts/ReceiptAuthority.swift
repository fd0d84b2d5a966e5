package import CryptoExtras
package import Foundation
import SwiftASN1
package import X509

/// Certificates with Apple's names and markers, and test keys, that sign receipts.
package struct ReceiptAuthority: Sendable {
    package let root: Certificate
    package let intermediate: Certificate
    package private(set) var leaf: Certificate
    package private(set) var leafKey: _RSA.Signing.PrivateKey

    /// Deviations from a valid chain.
    package struct Flaws: Sendable {
        package var intermediateMarker = true
        package var leafMarker = true
        package var intermediateIsAuthority = true
        package var intermediateMaySign = true
        package var leafIsAuthority = false
        package var unknownCriticalExtension = false
        /// True if another root with the same name signs the intermediate certificate.
        package var foreignRoot = false
        /// True if another key than that of the intermediate certificate signs the leaf.
        package var foreignIntermediate = false
        package var usesSHA1 = false
        package var leafNotBefore = ReceiptAuthority.date(2020)
        package var leafNotAfter = ReceiptAuthority.date(2035)

        package init(_ change: (inout Flaws) -> Void = { _ in }) { change(&self) }
    }

    /// A valid chain, made once for each process.
    package static let valid = Result { try ReceiptAuthority() }

    /// Makes a chain. The keys are made once for each process.
    package init(_ flaws: Flaws = Flaws()) throws {
        let keys = try Keys.shared.get()
        let algorithm: Certificate.SignatureAlgorithm =
            flaws.usesSHA1 ? .sha1WithRSAEncryption : .sha256WithRSAEncryption
        let rootName = try Self.name("Apple Root CA")
        let intermediateName = try Self.name("Apple Worldwide Developer Relations Certification Authority")
        root = try Certificate(
            version: .v3, serialNumber: .init(2), publicKey: .init(keys.root.publicKey),
            notValidBefore: Self.date(2006),
            notValidAfter: Self.date(2045), issuer: rootName, subject: rootName,
            signatureAlgorithm: .sha256WithRSAEncryption,
            extensions: try Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
                Critical(KeyUsage(keyCertSign: true))
            }, issuerPrivateKey: .init(keys.root))
        var extensions = try Certificate.Extensions {
            Critical(
                flaws.intermediateIsAuthority
                    ? BasicConstraints.isCertificateAuthority(maxPathLength: 0)
                    : BasicConstraints.notCertificateAuthority)
            Critical(KeyUsage(digitalSignature: !flaws.intermediateMaySign, keyCertSign: flaws.intermediateMaySign))
        }
        if flaws.intermediateMarker { try extensions.append(Self.marker([1, 2, 840, 113_635, 100, 6, 2, 1])) }
        intermediate = try Certificate(
            version: .v3, serialNumber: .init(0x7001), publicKey: .init(keys.intermediate.publicKey),
            notValidBefore: Self.date(2010), notValidAfter: Self.date(2040), issuer: rootName,
            subject: intermediateName, signatureAlgorithm: algorithm, extensions: extensions,
            issuerPrivateKey: .init(flaws.foreignRoot ? keys.foreign : keys.root))
        extensions = try Certificate.Extensions {
            Critical(
                flaws.leafIsAuthority
                    ? BasicConstraints.isCertificateAuthority(maxPathLength: nil)
                    : BasicConstraints.notCertificateAuthority)
            Critical(KeyUsage(digitalSignature: true, keyCertSign: flaws.leafIsAuthority))
        }
        if flaws.leafMarker { try extensions.append(Self.marker([1, 2, 840, 113_635, 100, 6, 11, 1])) }
        if flaws.unknownCriticalExtension {
            try extensions.append(.init(oid: [1, 2, 3, 4], critical: true, value: [5, 0]))
        }
        leaf = try Certificate(
            version: .v3, serialNumber: .init(0x7D39_2009), publicKey: .init(keys.leaf.publicKey),
            notValidBefore: flaws.leafNotBefore, notValidAfter: flaws.leafNotAfter, issuer: intermediateName,
            subject: try Self.name("Mac App Store and iTunes Store Receipt Signing"), signatureAlgorithm: algorithm,
            extensions: extensions,
            issuerPrivateKey: .init(flaws.foreignIntermediate ? keys.foreign : keys.intermediate))
        leafKey = keys.leaf
    }

    /// The root certificate in PEM, for the option `--evidence-root`.
    package var roots: [UInt8] {
        get throws { Array(try root.serializeAsPEM().pemString.utf8) }
    }

    /// Returns an authority whose receipts are signed with the intermediate certificate itself.
    package func signingWithIntermediate() throws -> ReceiptAuthority {
        var authority = self
        authority.leaf = intermediate
        authority.leafKey = try Keys.shared.get().intermediate
        return authority
    }

    /// The first instant of a year.
    package static func date(_ year: Int) -> Date {
        let days = (1970..<year).reduce(0) { sum, year in
            sum + (year.isMultiple(of: 4) && (!year.isMultiple(of: 100) || year.isMultiple(of: 400)) ? 366 : 365)
        }
        return Date(timeIntervalSince1970: Double(days) * 86_400)
    }

    static func name(_ commonName: String) throws -> DistinguishedName {
        try DistinguishedName {
            CommonName(commonName)
            OrganizationName("Apple Inc.")
            CountryName("US")
        }
    }

    static func marker(_ identifier: ASN1ObjectIdentifier) -> Certificate.Extension {
        Certificate.Extension(oid: identifier, critical: false, value: [5, 0])
    }

    private struct Keys: Sendable {
        let root: _RSA.Signing.PrivateKey
        let intermediate: _RSA.Signing.PrivateKey
        let leaf: _RSA.Signing.PrivateKey
        let foreign: _RSA.Signing.PrivateKey

        static let shared = Result {
            Keys(
                root: try .init(keySize: .bits2048), intermediate: try .init(keySize: .bits2048),
                leaf: try .init(keySize: .bits2048), foreign: try .init(keySize: .bits2048))
        }
    }
}
