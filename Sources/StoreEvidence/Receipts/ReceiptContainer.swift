#if Evidence
import SwiftASN1
import X509

/// The PKCS#7 container (RFC 2315) of an app receipt, parsed and not yet verified.
///
/// Only the form that Apple issues is accepted: `signedData` of version 1 with exactly one signer, whose signature is
/// directly over the content. With signed attributes the signature would cover those attributes instead.
struct ReceiptContainer {
    /// The signed content: the attributes of the receipt.
    let content: ArraySlice<UInt8>
    let signer: ReceiptSigner
    private let certificateNodes: [ASN1Node]

    /// The largest number of certificates. A receipt has three.
    private static let maximumCertificateCount = 8

    init(_ bytes: ArraySlice<UInt8>) throws(EvidenceError) {
        var container = try DERFields(
            try DERDocument.parse(bytes, "the receipt"), .sequence, "the receipt's container")
        guard try container.next("content type").objectIdentifier("the content type") == .pkcs7SignedData else {
            throw EvidenceError(.format, "the content type of the receipt's container is not signedData")
        }
        var wrapper = try DERFields(try container.next("content"), .contextTag(0), "the receipt's container")
        try container.end()
        var fields = try DERFields(try wrapper.next("signed data"), .sequence, "the signed data")
        try wrapper.end()

        let version = try fields.next("version").integer("the version")
        guard version == 1 else {
            throw EvidenceError(.format, "the version of the signed data must be 1, not \(version)")
        }
        _ = try DERFields(try fields.next("digest algorithms"), .set, "the list of digest algorithms")
        content = try Self.content(of: try fields.next("content"))
        certificateNodes = try Self.certificates(in: fields.next(tagged: 0))
        // Revocation lists are neither needed nor trusted.
        _ = fields.next(tagged: 1)
        var signers = try DERFields(try fields.next("signers"), .set, "the list of signers")
        try fields.end()
        let signerNodes = signers.all()
        guard signerNodes.count == 1, let signerNode = signerNodes.first else {
            throw EvidenceError(.header, "a receipt must have exactly one signer, not \(signerNodes.count)")
        }
        signer = try ReceiptSigner(signerNode)
    }

    private static func content(of node: ASN1Node) throws(EvidenceError) -> ArraySlice<UInt8> {
        var fields = try DERFields(node, .sequence, "the signed content")
        guard try fields.next("type").objectIdentifier("the type of the signed content") == .pkcs7Data else {
            throw EvidenceError(.format, "the type of the signed content is not data")
        }
        var wrapper = try DERFields(try fields.next("content"), .contextTag(0), "the signed content")
        try fields.end()
        let content = try wrapper.next("octets").octets("the signed content")
        try wrapper.end()
        return content
    }

    private static func certificates(in node: ASN1Node?) throws(EvidenceError) -> [ASN1Node] {
        guard let node else { throw EvidenceError(.certificates, "the receipt has no certificates") }
        var fields = try DERFields(node, .contextTag(0), "the list of certificates")
        let nodes = fields.all()
        guard nodes.count <= maximumCertificateCount else {
            throw EvidenceError(
                .header, "a receipt may have at most \(maximumCertificateCount) certificates, not \(nodes.count)")
        }
        return nodes
    }

    /// Returns the signer's certificate, found by issuer and serial number, and the certificate of its issuer.
    func chain() throws(EvidenceError) -> (leaf: EncodedCertificate, intermediate: EncodedCertificate) {
        var certificates: [EncodedCertificate] = []
        for node in certificateNodes {
            do {
                certificates.append(
                    EncodedCertificate(certificate: try Certificate(derEncoded: node), bytes: Array(node.encodedBytes)))
            } catch {
                throw EvidenceError(.certificates, "certificate \(certificates.count + 1) of the receipt is invalid")
            }
        }
        let leaves = certificates.filter {
            $0.certificate.issuer == signer.issuer && $0.certificate.serialNumber == signer.serialNumber
        }
        guard leaves.count == 1, let leaf = leaves.first else {
            throw EvidenceError(
                .certificates, "\(leaves.count) certificates have the signer's issuer and serial number, 1 is expected")
        }
        let issuers = certificates.filter { $0.certificate.subject == leaf.certificate.issuer }
        guard issuers.count == 1, let intermediate = issuers.first else {
            throw EvidenceError(
                .certificates, "\(issuers.count) certificates have the name of the signer's issuer, 1 is expected")
        }
        return (leaf, intermediate)
    }
}

/// A certificate and its DER.
struct EncodedCertificate {
    let certificate: Certificate
    let bytes: [UInt8]
}

/// The signer of a receipt.
struct ReceiptSigner {
    let issuer: DistinguishedName
    let serialNumber: Certificate.SerialNumber
    /// RSA with PKCS #1 v1.5 padding, and SHA-256 or SHA-1.
    let algorithm: Certificate.SignatureAlgorithm
    let signature: ArraySlice<UInt8>

    init(_ node: ASN1Node) throws(EvidenceError) {
        var fields = try DERFields(node, .sequence, "the signer")
        let version = try fields.next("version").integer("the signer's version")
        guard version == 1 else {
            throw EvidenceError(.format, "the signer's version must be 1, not \(version)")
        }
        var identity = try DERFields(try fields.next("identity"), .sequence, "the signer's identity")
        let issuerNode = try identity.next("issuer")
        let serialNode = try identity.next("serial number")
        try identity.end()
        do {
            issuer = try DistinguishedName(derEncoded: issuerNode)
            serialNumber = Certificate.SerialNumber(bytes: try ArraySlice(derEncoded: serialNode))
        } catch {
            throw EvidenceError(.format, "the signer's issuer or serial number is invalid")
        }
        let digestName = try Self.algorithm(try fields.next("digest algorithm"), "the signer's digest algorithm")
        guard fields.next(tagged: 0) == nil else {
            throw EvidenceError(.header, "the receipt has signed attributes, which Apple's receipts do not use")
        }
        let signatureName = try Self.algorithm(
            try fields.next("signature algorithm"), "the signer's signature algorithm")
        switch (digestName, signatureName) {
        // The signature algorithm is plain RSA, or names the same digest.
        case (.sha256Digest, .plainRSA), (.sha256Digest, .sha256RSA): algorithm = .sha256WithRSAEncryption
        case (.sha1Digest, .plainRSA), (.sha1Digest, .sha1RSA): algorithm = .sha1WithRSAEncryption
        default:
            throw EvidenceError(
                .header,
                "a receipt must be signed with RSA and SHA-256 or SHA-1, not with \(digestName) and \(signatureName)")
        }
        signature = try fields.next("signature").octets("the signature")
        // Unsigned attributes prove nothing.
        _ = fields.next(tagged: 1)
        try fields.end()
    }

    /// Returns the name of an algorithm that has no parameters.
    private static func algorithm(_ node: ASN1Node, _ name: String) throws(EvidenceError) -> ASN1ObjectIdentifier {
        var fields = try DERFields(node, .sequence, name)
        let identifier = try fields.next("identifier").objectIdentifier(name)
        let parameters = fields.all()
        guard parameters.isEmpty || parameters.map(\.identifier) == [.null] else {
            throw EvidenceError(.header, "\(name) has parameters, which RSA signatures of receipts do not use")
        }
        return identifier
    }
}

extension ASN1ObjectIdentifier {
    fileprivate static let pkcs7Data: ASN1ObjectIdentifier = [1, 2, 840, 113_549, 1, 7, 1]
    fileprivate static let pkcs7SignedData: ASN1ObjectIdentifier = [1, 2, 840, 113_549, 1, 7, 2]
    fileprivate static let plainRSA: ASN1ObjectIdentifier = [1, 2, 840, 113_549, 1, 1, 1]
    fileprivate static let sha1RSA: ASN1ObjectIdentifier = [1, 2, 840, 113_549, 1, 1, 5]
    fileprivate static let sha256RSA: ASN1ObjectIdentifier = [1, 2, 840, 113_549, 1, 1, 11]
    fileprivate static let sha1Digest: ASN1ObjectIdentifier = [1, 3, 14, 3, 2, 26]
    fileprivate static let sha256Digest: ASN1ObjectIdentifier = [2, 16, 840, 1, 101, 3, 4, 2, 1]
}
#endif
