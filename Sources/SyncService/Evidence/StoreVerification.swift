package import Entitlements
package import StoreEvidence

extension AppStoreVerifier: AppStoreVerification {}
extension GooglePlayVerifier: GooglePlayVerification {}
extension StripeVerifier: StripeVerification {}

/// Verifies what the App Store signs. `AppStoreVerifier` does; tests of the code above it use a plain replacement.
package protocol AppStoreVerification: Sendable {
    /// Verifies a transaction. See `AppStoreVerifier.transaction(_:now:)`.
    func transaction(_ jws: String, now: Timestamp) throws(EvidenceError) -> VerifiedEvidence
    /// Verifies a renewal info. The caller checks that its line is known.
    func renewal(_ jws: String, now: Timestamp) throws(EvidenceError) -> VerifiedEvidence
    /// Verifies the body of a server notification, version 2.
    func notification(_ body: [UInt8], now: Timestamp) throws(EvidenceError) -> VerifiedEvidence
    /// Verifies an app receipt.
    func receipt(_ bytes: [UInt8], now: Timestamp, deviceID: [UInt8]?) throws(EvidenceError) -> VerifiedEvidence
}

/// Verifies purchases of Google Play, and reads its answers and notifications. `GooglePlayVerifier` does.
package protocol GooglePlayVerification: Sendable {
    /// Verifies the data of a purchase by its signature.
    func purchase(data: String, signature: String, now: Timestamp) throws(EvidenceError) -> VerifiedEvidence
    /// Reads the body of a push request. It is not signed; the caller has authenticated the sender.
    func notification(_ body: [UInt8], now: Timestamp) throws(EvidenceError) -> PlayNotification
    /// Reads an answer of `purchases.subscriptionsv2`.
    func subscription(
        _ json: [UInt8], purchaseToken: String, statedAt: Timestamp?
    ) throws(EvidenceError) -> VerifiedEvidence
    /// Reads an answer of `purchases.productsv2`.
    func product(
        _ json: [UInt8], purchaseToken: String, statedAt: Timestamp?
    ) throws(EvidenceError) -> VerifiedEvidence
}

/// Verifies events of Stripe. `StripeVerifier` does.
package protocol StripeVerification: Sendable {
    /// Verifies the body of a webhook by its `Stripe-Signature`.
    func event(_ body: [UInt8], signature: String, now: Timestamp) throws(EvidenceError) -> VerifiedEvidence
}
