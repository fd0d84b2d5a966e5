#if Evidence
import Crypto
public import Entitlements
import X509

// App receipts. The creation date is read and bounded before the signature is verified, because certificates are
// checked at that date. No other attribute is used before the signature is verified.
extension AppStoreVerifier {
    /// The date from which Apple signs all receipts with SHA-256. Receipts with SHA-1 and a later date are forgeries.
    ///
    /// Source: Apple's TN3138, which names 24 January 2025. That day itself still counts as before.
    private static let endOfSHA1 = Timestamp(milliseconds: 1_737_763_200_000)

    /// Verifies an app receipt, a PKCS#7 container in DER, and returns everything that it states.
    ///
    /// A purchase that a receipt does not list is not revoked, because consumables and refunded purchases vanish from
    /// receipts.
    ///
    /// - Parameters:
    ///   - bytes: The receipt, without base64.
    ///   - now: The current time.
    ///   - deviceID: The identifier of the device for which the receipt was issued: the 16 bytes of
    ///     `identifierForVendor`, or the 6 bytes of a Mac's network address. If `nil`, the device is not checked.
    /// - Throws: ``EvidenceError`` with the failed check.
    public func receipt(
        _ bytes: [UInt8], now: Timestamp, deviceID: [UInt8]? = nil
    ) throws(EvidenceError) -> VerifiedEvidence {
        try receipt(bytes, now: now, expiryTime: now, deviceID: deviceID)
    }

    /// Verifies an app receipt whose creation date is bounded by another time than its expiry.
    ///
    /// - Parameters:
    ///   - now: The time that bounds the creation date from above.
    ///   - expiryTime: The time at which a receipt of a volume purchase must not have expired. A later creation date
    ///     replaces it.
    package func receipt(
        _ bytes: [UInt8], now: Timestamp, expiryTime: Timestamp, deviceID: [UInt8]?
    ) throws(EvidenceError) -> VerifiedEvidence {
        do throws(EvidenceError) {
            return try verifiedReceipt(bytes, now: now, expiryTime: expiryTime, deviceID: deviceID)
        } catch {
            throw error.naming(bytes, insteadOf: .receipt)
        }
    }

    private func verifiedReceipt(
        _ bytes: [UInt8], now: Timestamp, expiryTime: Timestamp, deviceID: [UInt8]?
    ) throws(EvidenceError) -> VerifiedEvidence {
        try checkSize(bytes.count, limit: EvidenceLimits.receipt, "the receipt")
        let container = try ReceiptContainer(bytes[...])
        let attributes = try ReceiptAttributes(container.content, "the receipt")
        let created = try creationDate(of: attributes, now: now)
        try checkSignature(of: container, at: created)

        let bundleID = try attributes.text(AttributeType.bundleID, .app)
        guard let bundleID else { throw EvidenceError(.app, "the receipt names no app (attribute 2)") }
        try check(bundleID: bundleID, "the receipt")
        let environment = try environment(of: attributes)
        if let deviceID { try checkDevice(deviceID, attributes) }
        try checkExpiry(of: attributes, at: max(expiryTime, created))
        let facts = try purchases(of: attributes).flatMap { $0.facts(in: environment, stamp: .signed(at: created)) }
        return VerifiedEvidence(kind: .appStoreReceipt, facts: facts, signedDate: created)
    }

    private enum AttributeType {
        static let environment: Int64 = 0
        static let bundleID: Int64 = 2
        static let opaqueValue: Int64 = 4
        static let deviceHash: Int64 = 5
        static let creationDate: Int64 = 12
        static let expiry: Int64 = 21
    }

    private func creationDate(of attributes: ReceiptAttributes, now: Timestamp) throws(EvidenceError) -> Timestamp {
        guard let date = try attributes.date(AttributeType.creationDate, .signedDate) else {
            throw EvidenceError(.signedDate, "the receipt has no creation date (attribute 12)")
        }
        guard date.milliseconds >= 0 else {
            throw EvidenceError(.signedDate, "the receipt's creation date \(date) is before 1970")
        }
        try checkNotAhead(date, of: now, "the receipt's creation date")
        return date
    }

    private func checkSignature(of container: ReceiptContainer, at date: Timestamp) throws(EvidenceError) {
        let signer = container.signer
        let (leaf, intermediate) = try container.chain()
        let algorithms =
            [signer.algorithm] + [leaf, intermediate].map(\.certificate.signatureAlgorithm)
        guard date < Self.endOfSHA1 || !algorithms.contains(.sha1WithRSAEncryption) else {
            throw EvidenceError(
                .header, "the receipt of \(date) is signed with SHA-1, which Apple does not use after 2025-01-24")
        }
        let key = try chains.publicKey(
            leaf: leaf.bytes, intermediate: intermediate.bytes, at: date, allowsSHA1: date < Self.endOfSHA1)
        guard
            key.isValidSignature(
                signer.signature, for: container.content, signatureAlgorithm: signer.algorithm)
        else { throw EvidenceError(.signature, "the signature does not match the receipt") }
    }

    private func environment(of attributes: ReceiptAttributes) throws(EvidenceError) -> EnvironmentID {
        guard let name = try attributes.text(AttributeType.environment, .environment) else {
            throw EvidenceError(.environment, "the receipt names no environment (attribute 0)")
        }
        guard let environment = EnvironmentID(receiptType: name), environments.contains(environment) else {
            throw EvidenceError(
                .environment, "the receipt is of the environment \"\(name.singleLine)\", which is not accepted here")
        }
        return environment
    }

    /// Checks the hash that ties the receipt to a device.
    private func checkDevice(_ deviceID: [UInt8], _ attributes: ReceiptAttributes) throws(EvidenceError) {
        guard let opaqueValue = attributes.bytes(AttributeType.opaqueValue),
            let hash = attributes.bytes(AttributeType.deviceHash),
            let bundleID = attributes.bytes(AttributeType.bundleID)
        else { throw EvidenceError(.device, "the receipt has no device hash (attributes 4 and 5)") }
        var expected = Insecure.SHA1()
        expected.update(data: deviceID)
        expected.update(data: opaqueValue)
        expected.update(data: bundleID)
        guard expected.finalize().elementsEqual(hash) else {
            throw EvidenceError(
                .device,
                "the receipt was issued for another device (pass the 16 bytes of identifierForVendor, or on a Mac "
                    + "the 6 bytes of the network address)")
        }
    }

    /// Checks the date that receipts of volume purchases have.
    private func checkExpiry(of attributes: ReceiptAttributes, at time: Timestamp) throws(EvidenceError) {
        guard let expiry = try attributes.date(AttributeType.expiry, .state), expiry <= time else { return }
        throw EvidenceError(.state, "the receipt expired at \(expiry), ask the App Store for a new one")
    }

    private func purchases(of attributes: ReceiptAttributes) throws(EvidenceError) -> [ReceiptPurchase] {
        var known: [TransactionID: ReceiptPurchase] = [:]
        for (index, value) in attributes.purchases.enumerated() {
            let purchase = try ReceiptPurchase(ReceiptAttributes(value, "purchase \(index + 1)"))
            if let other = known.updateValue(purchase, forKey: purchase.transaction), other != purchase {
                throw EvidenceError(
                    .content,
                    "the receipt states transaction \"\(purchase.transaction.rawValue.singleLine)\" twice, differently")
            }
        }
        return known.values.sorted(by: ReceiptPurchase.precedes)
    }
}

extension Identifier where Subject == SaleEnvironment {
    /// Maps the environment of a receipt, which `verifyReceipt` calls `receipt_type`; `nil` if it is unknown.
    ///
    /// `VPP` marks apps from volume purchases.
    init?(receiptType: String) {
        switch receiptType {
        case "Production", "ProductionVPP": self = .production
        case "ProductionSandbox", "ProductionVPPSandbox", "Sandbox": self = .sandbox
        case "Xcode": self = EnvironmentID("xcode")
        default: return nil
        }
    }
}
#endif
