public import Entitlements

/// Something that an app may want to tell its user. See ``EntitlementStore/events``.
public enum EntitlementEvent: Sendable {
    /// Purchases were recorded by this store object.
    case purchased([TransactionReference])
    /// Purchases arrived from elsewhere: by a sync, or from another process of this device.
    case restored([TransactionReference])
    /// Purchases were taken back, here or elsewhere.
    case revoked([TransactionReference])
    /// Purchases that had been taken back count again.
    case reinstated([TransactionReference])
    /// What was merged was not a plain union: new entries of the conflict log.
    case conflicts([Conflict])
    /// Access to an entitlement changed, by a fact or by time.
    case accessChanged([AccessChange])
    /// Another account is logged in on this device, or nobody.
    case accountChanged(from: Account, to: Account)
    /// The account was erased, here or elsewhere. Nothing of it is left on this device.
    case accountErased(Account)
    /// A group that is active ends within the store's notice.
    case expiring(GroupID, at: Timestamp)
    /// A sync failed; what was recorded is safe on this device, and
    /// ``EntitlementStore/run(pollingEvery:noticeBeforeExpiry:)`` goes on.
    case failed(EntitlementError)
}

/// Access to one entitlement, before and after.
public struct AccessChange: Hashable, Sendable {
    /// The entitlement.
    public var entitlement: EntitlementID
    /// What held before.
    public var before: Access
    /// What holds now.
    public var after: Access

    /// The entitlements whose grant or denial differs, in ascending order. Both snapshots are of one catalogue.
    static func between(_ before: Snapshot, _ after: Snapshot) -> [AccessChange] {
        zip(before.access, after.access).compactMap { old, new in
            old == new ? nil : AccessChange(entitlement: old.entitlement, before: old.access, after: new.access)
        }
    }
}
