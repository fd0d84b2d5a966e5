#if Evidence
import Crypto
import Entitlements
import Foundation
import SwiftASN1
import Synchronization
import X509

/// The chains of Apple's certificates: a pinned root, one intermediate, and a leaf that signs.
///
/// The links are checked from the root down, so that no key is used before it is known to be Apple's, and cheap checks
/// come before signatures. Lengths other than three are refused. `X509.Verifier` is not used: it is asynchronous, and
/// it traps on dates far in the future.
///
/// Chains that passed are cached together with the dates of their validity, which are compared each time.
final class AppleChains: Sendable {
    /// Marks Apple's intermediate certificates for developer relations.
    static let intermediateMarker: ASN1ObjectIdentifier = [1, 2, 840, 113_635, 100, 6, 2, 1]
    /// Marks the certificates that sign receipts and transactions.
    static let leafMarker: ASN1ObjectIdentifier = [1, 2, 840, 113_635, 100, 6, 11, 1]

    /// The number of cached certificates. Apple uses a handful of them at a time.
    private static let capacity = 128

    private let roots: [Certificate]
    /// The certificates that passed: intermediate ones by their digest, and leaves by the digests of both.
    private let passed = Mutex<[[UInt8]: AppleCertificate]>([:])

    init(_ roots: EvidenceRoots) { self.roots = roots.certificates }

    /// The public key of a leaf that the chain proves at `date`.
    ///
    /// - Parameters:
    ///   - leaf: The DER of the leaf.
    ///   - intermediate: The DER of the intermediate certificate.
    ///   - date: The date at which the certificates must be valid.
    ///   - allowsSHA1: True if certificates may be signed with SHA-1, as those of old receipts are.
    /// - Throws: ``EvidenceError`` with the check `certificates`.
    func publicKey(
        leaf: [UInt8], intermediate: [UInt8], at date: Timestamp, allowsSHA1: Bool = false
    ) throws(EvidenceError) -> Certificate.PublicKey {
        let digest = Array(SHA256.hash(data: intermediate))
        let issuer = try certificate(intermediate, "intermediate", digest, at: date, allowsSHA1: allowsSHA1) {
            (issuer) throws(EvidenceError) in try check(intermediate: issuer, at: date)
        }
        let path = digest + Array(SHA256.hash(data: leaf))
        let signer = try certificate(leaf, "signer's", path, at: date, allowsSHA1: allowsSHA1) {
            (signer) throws(EvidenceError) in try check(leaf: signer, issuer: issuer, at: date)
        }
        return signer.certificate.publicKey
    }

    /// Returns a certificate that has passed `check` before, or passes it now. The dates of its validity are compared
    /// each time.
    private func certificate(
        _ bytes: [UInt8], _ name: String, _ key: [UInt8], at date: Timestamp, allowsSHA1: Bool,
        _ check: (AppleCertificate) throws(EvidenceError) -> Void
    ) throws(EvidenceError) -> AppleCertificate {
        let known = passed.withLock { $0[key] }
        let certificate = if let known { known } else { try AppleCertificate(bytes, name) }
        if !allowsSHA1 { try certificate.checkDigest() }
        guard known == nil else {
            try certificate.checkValidity(at: date)
            return certificate
        }
        try check(certificate)
        passed.withLock { passed in
            if passed.count >= Self.capacity { passed = [:] }
            passed[key] = certificate
        }
        return certificate
    }

    private func check(intermediate: AppleCertificate, at date: Timestamp) throws(EvidenceError) {
        try intermediate.check(marker: Self.intermediateMarker, at: date)
        guard intermediate.isAuthority else {
            throw EvidenceError(
                .certificates, "the intermediate certificate is no authority that may sign certificates")
        }
        let isIssued = roots.contains { root in
            root.subject == intermediate.certificate.issuer
                && root.publicKey.isValidSignature(
                    intermediate.certificate.signature, for: intermediate.certificate)
        }
        guard isIssued else {
            throw EvidenceError(.certificates, "the intermediate certificate was not issued by a pinned root")
        }
    }

    private func check(
        leaf: AppleCertificate, issuer: AppleCertificate, at date: Timestamp
    ) throws(EvidenceError) {
        try leaf.check(marker: Self.leafMarker, at: date)
        guard !leaf.isAuthority else {
            throw EvidenceError(.certificates, "the signer's certificate is an authority")
        }
        guard leaf.certificate.issuer == issuer.certificate.subject,
            issuer.certificate.publicKey.isValidSignature(leaf.certificate.signature, for: leaf.certificate)
        else {
            throw EvidenceError(
                .certificates, "the signer's certificate was not issued by the intermediate one")
        }
    }
}

/// A certificate with its name in messages.
private struct AppleCertificate: Sendable {
    let certificate: Certificate
    private let name: String

    /// Parses exactly one certificate in DER.
    init(_ bytes: [UInt8], _ name: String) throws(EvidenceError) {
        self.name = name
        do { certificate = try Certificate(derEncoded: bytes) } catch {
            throw EvidenceError(.certificates, "the \(name) certificate is not one X.509 certificate in DER")
        }
    }

    /// True if the certificate may sign certificates. Unreadable constraints count as none.
    ///
    /// A certificate without the extension for key usage does not restrict it (RFC 5280, section 6.1.4).
    var isAuthority: Bool {
        guard let constraints = try? certificate.extensions.basicConstraints,
            case .isCertificateAuthority = constraints
        else { return false }
        guard certificate.extensions[oid: .X509ExtensionID.keyUsage] != nil else { return true }
        return (try? certificate.extensions.keyUsage)?.keyCertSign ?? false
    }

    func check(marker: ASN1ObjectIdentifier, at date: Timestamp) throws(EvidenceError) {
        guard certificate.extensions[oid: marker] != nil else {
            throw failure("the \(name) certificate lacks Apple's marker \(marker)")
        }
        if let unknown = certificate.extensions.first(where: { $0.critical && !Self.understood.contains($0.oid) }) {
            throw failure("the \(name) certificate has the unknown critical extension \(unknown.oid)")
        }
        try checkValidity(at: date)
    }

    /// Refuses a certificate that is signed with SHA-1, for which collisions can be made.
    func checkDigest() throws(EvidenceError) {
        guard certificate.signatureAlgorithm != .sha1WithRSAEncryption else {
            throw failure("the \(name) certificate is signed with SHA-1")
        }
    }

    func checkValidity(at date: Timestamp) throws(EvidenceError) {
        let seconds = Double(date.milliseconds) / 1_000
        guard certificate.notValidBefore.timeIntervalSince1970 <= seconds,
            seconds <= certificate.notValidAfter.timeIntervalSince1970
        else { throw failure("the \(name) certificate was not valid at \(date)") }
    }

    private static let understood: [ASN1ObjectIdentifier] = [
        .X509ExtensionID.basicConstraints, .X509ExtensionID.keyUsage,
    ]

    private func failure(_ reason: String) -> EvidenceError { EvidenceError(.certificates, reason) }
}
#endif
