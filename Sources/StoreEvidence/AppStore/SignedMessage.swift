#if Evidence
import Crypto
import Entitlements
import X509

/// A JSON web signature (RFC 7515) in the form that Apple uses: compact, ES256, with a chain of three certificates.
struct SignedMessage {
    /// The verified body.
    let body: StoreObject
    /// The date of the signature.
    let signedDate: Timestamp

    /// Verifies `text`.
    ///
    /// The size is checked before anything is decoded. The date of the signature is read from the body before the
    /// signature is verified, because certificates are checked at that date; it is bounded before any use.
    ///
    /// - Throws: ``EvidenceError`` with the check `size`, `format`, `header`, `signedDate`, `certificates` or
    ///   `signature`.
    init(
        _ text: String, limit: Int, name: String, chains: AppleChains, now: Timestamp
    ) throws(EvidenceError) {
        try checkSize(text.utf8.count, limit: limit, name)
        let segments = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard segments.count == 3 else {
            throw EvidenceError(.format, "\(name) must have 3 segments, not \(segments.count)")
        }
        var parts: [[UInt8]] = []
        for segment in segments {
            guard let part = Base64.url.decode(segment), !part.isEmpty else {
                throw EvidenceError(.format, "a segment of \(name) is not base64url without padding")
            }
            parts.append(part)
        }
        let header = try StoreObject(parsing: parts[0])
        let certificates = try Self.certificates(in: header, name)
        body = try StoreObject(parsing: parts[1])
        signedDate = try Self.signedDate(of: body, name, now: now)
        guard parts[2].count == 64 else {
            throw EvidenceError(.format, "the signature of \(name) must have 64 bytes, not \(parts[2].count)")
        }
        let key = try chains.publicKey(leaf: certificates[0], intermediate: certificates[1], at: signedDate)
        guard let key = P256.Signing.PublicKey(key) else {
            throw EvidenceError(.certificates, "the key of the signer's certificate is not on the curve P-256")
        }
        let signed = text.utf8[..<segments[1].endIndex]
        guard let signature = try? P256.Signing.ECDSASignature(rawRepresentation: parts[2]),
            key.isValidSignature(signature, for: Array(signed))
        else { throw EvidenceError(.signature, "the signature does not match \(name)") }
    }

    /// The DER of the certificates in the header. The third is the sender's root, which is not used.
    private static func certificates(in header: StoreObject, _ name: String) throws(EvidenceError) -> [[UInt8]] {
        do throws(EvidenceError) {
            guard try header.string("alg") == "ES256" else {
                throw EvidenceError(.header, "the algorithm of \(name) must be ES256")
            }
            guard !header.contains("crit") else {
                throw EvidenceError(.header, "\(name) has critical header parameters, which are not supported")
            }
            let chain = try header.strings("x5c")
            guard chain.count == 3 else {
                throw EvidenceError(.header, "\(name) must have 3 certificates (x5c), not \(chain.count)")
            }
            return try chain.map { (text) throws(EvidenceError) in
                guard let bytes = Base64.standard.decode(text.utf8) else {
                    throw EvidenceError(.header, "a certificate of \(name) is not base64")
                }
                return bytes
            }
        } catch {
            throw EvidenceError(.header, error.reason)
        }
    }

    private static func signedDate(
        of body: StoreObject, _ name: String, now: Timestamp
    ) throws(EvidenceError) -> Timestamp {
        let date: Timestamp?
        do throws(EvidenceError) { date = try body.milliseconds("signedDate") } catch {
            throw EvidenceError(.signedDate, error.reason)
        }
        guard let date else { throw EvidenceError(.signedDate, "\(name) has no signedDate") }
        try checkNotAhead(date, of: now, "the signedDate of \(name)")
        return date
    }
}
#endif
