#if Evidence
import Entitlements

/// The import of answers that Apple's `verifyReceipt` endpoint gave.
///
/// An answer is unsigned: its facts are as trustworthy as the file they come from. Use it to import the history that a
/// server kept, never to accept purchases from a client.
package enum VerifyReceiptAnswer {
    /// The largest size of an answer, in bytes. It repeats the receipt in base64, beside its decoded content.
    package static let maximumByteCount = 4 * EvidenceLimits.receipt

    /// Returns the facts of an answer about one of the apps `bundleIDs`.
    ///
    /// The purchases are those of `latest_receipt_info` and `receipt.in_app`. If both contain a transaction, the former
    /// counts because it is more recent. A purchase that was ended by an upgrade (`is_upgraded`) is not revoked.
    ///
    /// The purchases are read completely or not at all. An entry of `pending_renewal_info` that lacks a member is left
    /// out, with an entry in ``VerifiedEvidence/warnings``.
    ///
    /// Status 21006 is accepted like 0: Apple defines it as a valid receipt whose subscription has expired. The older
    /// form of an answer, about one transaction instead of an app, is refused.
    ///
    /// - Throws: ``EvidenceError`` with the JSON path of the wrong member.
    package static func evidence(_ json: [UInt8], bundleIDs: Set<String>) throws(EvidenceError) -> VerifiedEvidence {
        try checkSize(json.count, limit: maximumByteCount, "the answer of verifyReceipt")
        let root: JSONReader
        do throws(InputError) { root = try JSONReader(parsing: json) } catch {
            throw EvidenceError(.format, "the answer of verifyReceipt is not valid JSON: \(error)")
                .naming(json, insteadOf: .answer)
        }
        do {
            return try evidence(root.object(), bundleIDs: bundleIDs)
        } catch let error as InputError {
            throw EvidenceError(.content, "\(error)")
        } catch let error as EvidenceError {
            throw error
        } catch {
            throw EvidenceError(.content, "\(error)")
        }
    }

    private static func evidence(_ answer: JSONObjectReader, bundleIDs: Set<String>) throws -> VerifiedEvidence {
        try checkStatus(try answer.required("status").integer())
        let receipt = try answer.required("receipt").object()
        guard let bundleReader = receipt["bundle_id"] else {
            throw EvidenceError(
                .content,
                "receipt.bundle_id: this is missing, only answers about an app receipt are read (not those about a "
                    + "single transaction)")
        }
        let bundleID = try bundleReader.string()
        guard bundleIDs.contains(bundleID) else {
            throw EvidenceError(
                .app,
                "receipt.bundle_id: \"\(bundleID.singleLine)\" is not one of the configured apps")
        }
        let environment = try environment(of: answer, receipt)
        let stamp = Stamp(signedDate: nil, logicalTime: .zero)
        let purchases = try VerifyReceiptPurchases(answer: answer, receipt: receipt)
        let renewals = try VerifyReceiptRenewals(answer, of: purchases.all, environment: environment, stamp: stamp)
        var evidence = VerifiedEvidence(
            kind: .verifyReceipt,
            facts: purchases.all.flatMap { $0.facts(in: environment, stamp: stamp) }
                + renewals.all.map(Fact.renewalState),
            signedDate: nil, accountToken: purchases.accountToken)
        evidence.warnings = renewals.warnings
        return evidence
    }

    private static func environment(of answer: JSONObjectReader, _ receipt: JSONObjectReader) throws -> EnvironmentID {
        var found: EnvironmentID?
        for reader in [answer["environment"], receipt["receipt_type"]].compactMap(\.self) {
            let name = try reader.string()
            guard let environment = EnvironmentID(receiptType: name), [.production, .sandbox].contains(environment)
            else {
                throw EvidenceError(
                    .environment, "\(reader.path): must be Production or Sandbox, not \"\(name.singleLine)\"")
            }
            guard found == nil || found == environment else {
                throw EvidenceError(
                    .environment, "\(reader.path): \"\(name.singleLine)\" contradicts the member environment")
            }
            found = environment
        }
        guard let found else { throw EvidenceError(.environment, "environment: this is missing") }
        return found
    }

    /// Refuses answers that contain no receipt. The meanings are those of Apple's page "status".
    private static func checkStatus(_ status: Int64) throws(EvidenceError) {
        let meaning: String
        switch status {
        case 0, 21006: return
        case 21000: meaning = "the request was not a POST request"
        case 21002: meaning = "the receipt was malformed, or the App Store had a temporary problem"
        case 21003: meaning = "the receipt was not authentic"
        case 21004: meaning = "the shared secret was wrong"
        case 21005: meaning = "the App Store was unavailable, repeat the request"
        case 21007: meaning = "a sandbox receipt was sent to production, repeat the request to sandbox.itunes.apple.com"
        case 21008: meaning = "a production receipt was sent to the sandbox, repeat the request to buy.itunes.apple.com"
        case 21009, 21100...21199: meaning = "the App Store had an internal error, repeat the request"
        case 21010: meaning = "the buyer's account does not exist or was deleted"
        default: meaning = "unknown to this version"
        }
        throw EvidenceError(.state, "status: must be 0, not \(status) (\(meaning))")
    }
}
#endif
