public import Entitlements

/// A change that an app may want to show to its user. See ``EntitlementStore/events``.
public enum EntitlementEvent: Sendable {
    /// This store object recorded purchases.
    case purchased([TransactionReference])
    /// Purchases arrived from elsewhere: through a sync, or from another process on this device.
    case restored([TransactionReference])
    /// Purchases were revoked, here or elsewhere.
    case revoked([TransactionReference])
    /// Revoked purchases count again.
    case reinstated([TransactionReference])
    /// The conflict log has new entries.
    case conflicts([Conflict])
    /// Access to entitlements changed, through a fact or the passage of time.
    case accessChanged([AccessChange])
    /// The account that is logged in on this device changed. After a log-out, `to` is the anonymous account.
    case accountChanged(from: Account, to: Account)
    /// The account was erased, here or elsewhere. None of its data is left on this device.
    case accountErased(Account)
    /// An active group ends within the notice passed to ``EntitlementStore/run(pollingEvery:noticeBeforeExpiry:)``.
    case expiring(GroupID, at: Timestamp)
    /// A sync or an access to the local store failed. Recorded facts are safe on this device, and
    /// ``EntitlementStore/run(pollingEvery:noticeBeforeExpiry:)`` continues.
    case failed(EntitlementError)
}

/// A change of access to one entitlement.
public struct AccessChange: Hashable, Sendable {
    /// The entitlement.
    public var entitlement: EntitlementID
    /// The access before the change.
    public var before: Access
    /// The access after the change.
    public var after: Access

    /// Returns the entitlements whose access differs, in ascending order. Both snapshots must be of the same catalogue.
    static func between(_ before: Snapshot, _ after: Snapshot) -> [AccessChange] {
        zip(before.access, after.access).compactMap { old, new in
            old == new ? nil : AccessChange(entitlement: old.entitlement, before: old.access, after: new.access)
        }
    }
}
