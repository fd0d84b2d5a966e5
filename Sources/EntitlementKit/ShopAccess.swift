import EntitlementSync
import Entitlements
public import Foundation

/// The access to an entitlement.
public struct ShopAccess: Hashable, Sendable {
    /// The reason for which access is denied.
    public enum Denial: Hashable, Sendable, CustomStringConvertible {
        /// Nothing that grants access was ever bought.
        case notPurchased
        /// All units that were bought are used up.
        case usedUp
        /// A product that grants access requires an account, and no account is logged in.
        case logInNeeded
        /// No purchase is known, and this device has never reached the account's purchases. A restore may find one.
        case restoreNeeded
        /// A purchase awaits approval.
        case pendingApproval
        /// The time that was bought ended at this date.
        case expired(Date)
        /// The purchase was refunded or revoked at this date.
        case revoked(Date)

        /// The reason as readable text, for a log.
        public var description: String {
            switch self {
            case .notPurchased: "not purchased"
            case .usedUp: "used up"
            case .logInNeeded: "log-in needed"
            case .restoreNeeded: "restore needed"
            case .pendingApproval: "pending approval"
            case .expired(let date): "expired at \(Timestamp(date))"
            case .revoked(let date): "revoked at \(Timestamp(date))"
            }
        }
    }

    /// True if the content is available now.
    public var isGranted: Bool
    /// The end of granted access, or the date at which it ended; `nil` for none.
    public var until: Date?
    /// The reason for denied access; `nil` if it is granted.
    public var denial: Denial?

    init(_ access: Access) {
        switch access {
        case .granted(let grant): (isGranted, until, denial) = (true, grant.until.map { Date($0) }, nil)
        case .denied(let reason):
            (isGranted, until, denial) = (false, reason.date.map { Date($0) }, Denial(reason))
        }
    }
}

extension ShopAccess.Denial {
    fileprivate init(_ reason: Access.Denial) {
        self =
            switch reason {
            case .notPurchased: .notPurchased
            case .usedUp: .usedUp
            case .signInNeeded: .logInNeeded
            case .restoreNeeded: .restoreNeeded
            case .pendingApproval: .pendingApproval
            case .expired(let end): .expired(Date(end))
            case .revoked(let date): .revoked(Date(date))
            }
    }
}
