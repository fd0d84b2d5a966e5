public import Entitlements
import EntitlementSync

/// The renewal state of a subscription, as StoreKit reports it on this device.
public struct StoreKitRenewal: Hashable, Sendable {
    /// The first transaction of the subscription.
    public var originalID: UInt64
    /// The environment: `production`, `sandbox` or `xcode`.
    public var environment: EnvironmentID
    /// True if the App Store will renew the subscription.
    public var willRenew: Bool
    /// The end of the billing grace period, during which access continues; `nil` outside of one.
    public var graceEnd: Timestamp?
    /// True if a payment failed, and the App Store tries again.
    public var isInBillingRetry: Bool
    /// The product to which the subscription renews, if it is another one.
    public var pendingProduct: ProductID?
    /// The date at which Apple signed the state for this device.
    public var signedDate: Timestamp
    /// The reason why StoreKit does not accept the signature; `nil` if StoreKit has verified it.
    public var verificationFailure: String?

    /// Creates a renewal state.
    public init(
        originalID: UInt64, environment: EnvironmentID = .production, willRenew: Bool, graceEnd: Timestamp? = nil,
        isInBillingRetry: Bool = false, pendingProduct: ProductID? = nil, signedDate: Timestamp,
        verificationFailure: String? = nil
    ) {
        (self.originalID, self.environment, self.willRenew) = (originalID, environment, willRenew)
        (self.graceEnd, self.isInBillingRetry, self.pendingProduct) = (graceEnd, isInBillingRetry, pendingProduct)
        (self.signedDate, self.verificationFailure) = (signedDate, verificationFailure)
    }

    /// The subscription's name in ledgers.
    var line: TransactionReference { TransactionReference(appStore: originalID, environment) }

    var evidence: Evidence {
        .renewal(
            of: line, willRenew: willRenew, graceEnd: graceEnd, isInBillingRetry: isInBillingRetry,
            pendingProduct: pendingProduct, signedAt: signedDate)
    }

    /// True if `state` says the same, apart from its date.
    func agrees(with state: RenewalState) -> Bool {
        (willRenew, isInBillingRetry) == (state.willRenew, state.isInBillingRetry)
            && (graceEnd, pendingProduct) == (state.graceEnd, state.pendingProduct)
    }
}
