#if Evidence
public import Entitlements
import SyncCore

extension Evidence {
    /// A transaction of StoreKit 2, verified on this device: `VerificationResult.jwsRepresentation`.
    ///
    /// The evidence is kept together with its facts until the account's server has answered it, through crashes, log-in
    /// and adoption.
    ///
    /// - Parameters:
    ///   - jws: The JWS as StoreKit gives it.
    ///   - verifier: The verifier of this app.
    /// - Throws: `EvidenceError` with the check that failed. Nothing is recorded then.
    public static func storeKit(jws: String, verifiedBy verifier: AppStoreVerifier) throws(EvidenceError) -> Evidence {
        verified(try EvidenceItem(jws: jws, verifier, now: deviceTime))
    }

    /// An app receipt, verified on this device, with all purchases that it lists. An app without a server restores from
    /// a refreshed receipt alone.
    ///
    /// The receipt of a volume purchase has an expiry. It is refused when the clock of this device has reached it.
    ///
    /// - Parameters:
    ///   - receipt: The bytes at `Bundle.appStoreReceiptURL`.
    ///   - verifier: The verifier of this app.
    ///   - deviceID: The 16 bytes of `identifierForVendor`, or the 6 bytes of a Mac's network address; `nil` to accept
    ///     a receipt of another device.
    /// - Throws: `EvidenceError` with the check that failed. Nothing is recorded then.
    public static func appStoreReceipt(
        _ receipt: [UInt8], verifiedBy verifier: AppStoreVerifier, deviceID: [UInt8]? = nil
    ) throws(EvidenceError) -> Evidence {
        let clock = Timestamp(milliseconds: HostServices.system.now())
        return verified(
            try EvidenceItem(receipt: receipt, verifier, now: deviceTime, expiryTime: clock, deviceID: deviceID))
    }

    /// A purchase of Google Play, verified on this device by the app's licensing key.
    ///
    /// - Parameters:
    ///   - data: The text of `INAPP_PURCHASE_DATA`, unchanged.
    ///   - signature: The text of `INAPP_DATA_SIGNATURE`.
    ///   - verifier: The verifier of this app.
    /// - Throws: `EvidenceError` with the check that failed. Nothing is recorded then.
    public static func googlePlay(
        data: String, signature: String, verifiedBy verifier: GooglePlayVerifier
    ) throws(EvidenceError) -> Evidence {
        verified(try EvidenceItem(data: data, signature: signature, verifier, now: deviceTime))
    }

    /// The time that bounds the dates of signatures on a device. Its clock may be wrong, and a store's signature cannot
    /// be forged by setting it, so a date that is ahead of the clock is no reason to refuse a purchase.
    private static let deviceTime = Timestamp.latest

    private static func verified(_ item: EvidenceItem) -> Evidence {
        .verified(
            VerifiedStatement(
                kind: item.evidence.kind.rawValue, subject: item.subject, data: item.json, facts: item.evidence.facts,
                signedDate: item.evidence.signedDate ?? .earliest))
    }
}
#endif
