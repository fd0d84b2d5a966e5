#if Evidence
import Entitlements
import SwiftASN1
import X509

/// The root certificates that may issue the certificates of stores.
///
/// They are part of the code or of the configuration, and never taken from a message.
public struct EvidenceRoots: Sendable {
    let certificates: [Certificate]

    /// Apple Root CA - G3 and Apple Root CA.
    public static let pinned = EvidenceRoots(
        certificates: [PinnedRoots.appleG3, PinnedRoots.apple].map { text in
            guard let bytes = Base64.standard.decode(text.utf8), let root = try? Certificate(derEncoded: bytes) else {
                preconditionFailure("a pinned root certificate is damaged")
            }
            return root
        })

    init(certificates: [Certificate]) { self.certificates = certificates }

    /// Reads one or more certificates in PEM, or one in DER. They replace the pinned ones.
    ///
    /// Use it in tests, and when a store changes its root before this package does.
    ///
    /// - Parameter bytes: One or more PEM blocks, or the DER of one certificate. Without `-----BEGIN ` they are read as
    ///   DER.
    /// - Throws: ``EvidenceError`` with the check `certificates`.
    public init(pem bytes: [UInt8]) throws(EvidenceError) {
        let text = String(decoding: bytes, as: UTF8.self)
        do {
            if text.contains("-----BEGIN ") {
                certificates = try PEMDocument.parseMultiple(pemString: text).map { document in
                    try Certificate(pemDocument: document)
                }
            } else {
                certificates = [try Certificate(derEncoded: bytes)]
            }
        } catch {
            throw EvidenceError(
                .certificates, "the evidence root must be certificates in PEM, or one in DER")
        }
        guard !certificates.isEmpty else {
            throw EvidenceError(.certificates, "the evidence root contains no certificate")
        }
    }
}
#endif
