import EntitlementSync
import Entitlements
public import Foundation

/// The access to an entitlement.
public struct ShopAccess: Hashable, Sendable {
    /// The origin of granted access. New cases may be added, so a `switch` needs a default case.
    public enum Source: Hashable, Sendable {
        /// A purchase of this product.
        case purchase(String)
        /// A free introductory offer of this product.
        case trial(String)
        /// The time that the App Store grants to this product after a failed payment.
        case grace(String)
        /// A gift of the app's support.
        case support
        /// A statement of this system, for example `promotion`, or the one that the app used before.
        case system(String)
        /// A mark that this product is owned, without a purchase.
        case flag(String)
    }

    /// The reason for which access is denied. New cases may be added, so a `switch` needs a default case.
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
        /// A purchase is on this device, and the server has not confirmed it. Do not ask the user to buy again:
        /// ``Shop/refresh()`` or ``Shop/restore()`` asks the server.
        case unverified
        /// A purchase is on this device, and belongs to another account. Ask the user to log in to that account.
        case ownedByAnotherAccount
        /// A purchase is on this device, and the server refused it for this reason, which is for the app's support.
        case refusedByServer(String)

        /// The name of the reason, for example `usedUp`: that of the case, without its value.
        public var name: String {
            switch self {
            case .notPurchased: "notPurchased"
            case .usedUp: "usedUp"
            case .logInNeeded: "logInNeeded"
            case .restoreNeeded: "restoreNeeded"
            case .pendingApproval: "pendingApproval"
            case .expired: "expired"
            case .revoked: "revoked"
            case .unverified: "unverified"
            case .ownedByAnotherAccount: "ownedByAnotherAccount"
            case .refusedByServer: "refusedByServer"
            }
        }

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
            case .unverified: "not verified by the server"
            case .ownedByAnotherAccount: "owned by another account"
            case .refusedByServer(let reason): "refused by the server: \(reason.singleLine)"
            }
        }
    }

    /// True if the content is available now.
    public var isGranted: Bool
    /// The end of granted access, or the date at which it ended; `nil` for none.
    public var until: Date?
    /// The number of units left if units grant access, 0 if they are used up; otherwise `nil`.
    public var units: Int64?
    /// The level of the subscription that grants access, where 1 is the highest; `nil` without levels.
    public var level: Int64?
    /// The origin of granted access; `nil` if it is denied.
    public var source: Source?
    /// The reason for denied access; `nil` if it is granted.
    public var denial: Denial?

    /// True if a free introductory offer grants access.
    public var isTrial: Bool { if case .trial = source { true } else { false } }
}

extension ShopAccess {
    init(_ known: Snapshot.EntitlementAccess) {
        switch known.access {
        case .granted(let grant):
            self.init(
                isGranted: true, until: grant.until.map { Date($0) }, units: grant.units, level: known.period?.level,
                source: Source(known, grant))
        case .denied(let reason):
            self.init(
                isGranted: false, until: reason.date.map { Date($0) }, units: reason == .usedUp ? 0 : nil,
                denial: Denial(reason))
        }
    }

    /// The access to every entitlement.
    static func all(in snapshot: Snapshot) -> [String: ShopAccess] {
        Dictionary(snapshot.access.map { ($0.entitlement.rawValue, ShopAccess($0)) }) { $1 }
    }
}

extension ShopAccess.Source {
    fileprivate init?(_ known: Snapshot.EntitlementAccess, _ grant: Access.Grant) {
        switch (known.period?.origin, grant.source) {
        case (.purchase(let transaction, _), _) where transaction.store == .support: self = .support
        case (.purchase(_, let product), _) where known.isTrial: self = .trial(product.rawValue)
        case (.purchase(_, let product), _): self = .purchase(product.rawValue)
        case (.grace(_, let product), _): self = .grace(product.rawValue)
        case (.assertion(let assertion), _): self = .system(assertion.source.rawValue)
        case (nil, .units(let product)): self = .purchase(product.rawValue)
        case (nil, .product(let product)): self = .flag(product.rawValue)
        // Time always comes from a period.
        case (nil, .group), (nil, .level): return nil
        }
    }
}

extension ShopAccess.Denial {
    init(_ reason: Access.Denial) {
        self =
            switch reason {
            case .notPurchased: .notPurchased
            case .usedUp: .usedUp
            case .signInNeeded: .logInNeeded
            case .restoreNeeded: .restoreNeeded
            case .pendingApproval: .pendingApproval
            case .expired(let end): .expired(Date(end))
            case .revoked(let date): .revoked(Date(date))
            case .unverified: .unverified
            case .ownedByAnotherAccount: .ownedByAnotherAccount
            case .refusedByServer(let reason): .refusedByServer(reason)
            }
    }
}
