import Entitlements
import Foundation
import SwiftASN1
import X509

/// The chain of a receipt's certificates: a pinned root, one intermediate, and the certificate that signs receipts.
///
/// The links are checked from the root down, so that no key is used before it is known to be Apple's. Lengths other
/// than three are refused. `X509.Verifier` is not used: it is asynchronous, and it traps on dates far in the future.
struct ReceiptChain {
    let leaf: Certificate
    let intermediate: Certificate
    let roots: [Certificate]

    /// Marks Apple's intermediate certificates for developer relations.
    static let intermediateMarker: ASN1ObjectIdentifier = [1, 2, 840, 113_635, 100, 6, 2, 1]
    /// Marks the certificates that sign receipts and transactions.
    static let leafMarker: ASN1ObjectIdentifier = [1, 2, 840, 113_635, 100, 6, 11, 1]

    /// Checks the chain at `date`.
    func check(at date: Timestamp) throws(EvidenceError) {
        let issued = roots.contains { root in
            root.subject == intermediate.issuer
                && root.publicKey.isValidSignature(intermediate.signature, for: intermediate)
        }
        guard issued else { throw failure("the intermediate certificate was not issued by a pinned root") }
        guard intermediate.isAuthority else {
            throw failure("the intermediate certificate is no authority that may sign certificates")
        }
        try check(intermediate, "intermediate", marker: Self.intermediateMarker, at: date)
        guard leaf.issuer == intermediate.subject,
            intermediate.publicKey.isValidSignature(leaf.signature, for: leaf)
        else { throw failure("the signer's certificate was not issued by the intermediate one") }
        guard !leaf.isAuthority else { throw failure("the signer's certificate is an authority") }
        try check(leaf, "signer's", marker: Self.leafMarker, at: date)
    }

    private func check(
        _ certificate: Certificate, _ name: String, marker: ASN1ObjectIdentifier, at date: Timestamp
    ) throws(EvidenceError) {
        guard certificate.extensions[oid: marker] != nil else {
            throw failure("the \(name) certificate lacks Apple's marker \(marker)")
        }
        if let unknown = certificate.extensions.first(where: { $0.critical && !Self.understood.contains($0.oid) }) {
            throw failure("the \(name) certificate has the unknown critical extension \(unknown.oid)")
        }
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

extension Certificate {
    /// True if the certificate may sign certificates. Unreadable constraints count as none.
    fileprivate var isAuthority: Bool {
        guard let constraints = try? extensions.basicConstraints, let usage = try? extensions.keyUsage,
            case .isCertificateAuthority = constraints
        else { return false }
        return usage.keyCertSign
    }
}
