/// Whether content may be shown, and why or why not.
public enum Access: Hashable, Sendable {
    /// It may.
    case granted(Grant)
    /// It may not.
    case denied(Denial)

    /// What grants access.
    public struct Grant: Hashable, Sendable {
        /// When access ends if nothing else happens; `nil` for no end, and for units, which end by use.
        public var until: Timestamp?
        /// What grants it.
        public var source: Entitlement.Source
        /// Units left, when units grant it.
        public var units: Int64?

        /// A grant.
        public init(until: Timestamp?, source: Entitlement.Source, units: Int64? = nil) {
            self.until = until
            self.source = source
            self.units = units
        }
    }

    /// Why access is denied.
    public enum Denial: Hashable, Sendable {
        /// Nothing that grants it was bought.
        case notPurchased
        /// Units that granted it were bought, and all of them are spent.
        case usedUp
        /// It is sold to accounts only, and nobody is signed in.
        case signInNeeded
        /// Nothing is known here, and this store has never met its remote: restoring may find the purchase.
        case restoreNeeded
        /// It was asked for and waits for somebody's approval.
        case pendingApproval
        /// It was active until then.
        case expired(Timestamp)
        /// What granted it was taken back then.
        case revoked(Timestamp)
    }

    /// Whether access is granted.
    public var isGranted: Bool {
        if case .granted = self { true } else { false }
    }
}

extension Access.Denial: CustomStringConvertible {
    /// The reason's name.
    public var name: String {
        switch self {
        case .notPurchased: "notPurchased"
        case .usedUp: "usedUp"
        case .signInNeeded: "signInNeeded"
        case .restoreNeeded: "restoreNeeded"
        case .pendingApproval: "pendingApproval"
        case .expired: "expired"
        case .revoked: "revoked"
        }
    }

    /// The date of an expiry or revocation.
    public var date: Timestamp? {
        switch self {
        case .expired(let date), .revoked(let date): date
        default: nil
        }
    }

    /// The reason, for a person.
    public var description: String {
        switch self {
        case .notPurchased: "not purchased"
        case .usedUp: "used up"
        case .signInNeeded: "sign in needed"
        case .restoreNeeded: "restore needed"
        case .pendingApproval: "pending approval"
        case .expired(let date): "expired at \(date)"
        case .revoked(let date): "revoked at \(date)"
        }
    }
}

/// What an answer depends on besides facts.
public struct AccessContext: Hashable, Sendable {
    /// Whether somebody is signed in.
    public var isSignedIn: Bool
    /// Whether the facts at hand are the account's, as far as anyone can know: there is no remote, or it was met.
    public var hasRestored: Bool

    /// A context; by default nothing is missing.
    public init(isSignedIn: Bool = true, hasRestored: Bool = true) {
        self.isSignedIn = isSignedIn
        self.hasRestored = hasRestored
    }
}
