/// The answer to a request for access to an entitlement, with its reason.
public enum Access: Hashable, Sendable {
    /// The entitlement is granted.
    case granted(Grant)
    /// The entitlement is denied.
    case denied(Denial)

    /// The source of granted access, and its end.
    public struct Grant: Hashable, Sendable {
        /// The instant at which access ends unless further facts become known; `nil` for permanent access, and for
        /// units, which end by use.
        public var until: Timestamp?
        /// The source that grants access.
        public var source: Entitlement.Source
        /// The number of units left if units grant access; otherwise `nil`.
        public var units: Int64?

        /// Creates a grant.
        public init(until: Timestamp?, source: Entitlement.Source, units: Int64? = nil) {
            self.until = until
            self.source = source
            self.units = units
        }
    }

    /// The reason for which access is denied.
    public enum Denial: Hashable, Sendable {
        /// No source of the entitlement was ever bought.
        case notPurchased
        /// Units that granted access were bought, and all of them are used up.
        case usedUp
        /// A product that grants access requires an account, and no account is signed in.
        case signInNeeded
        /// No purchase is known, and this store has never reached its remote. Restoring may find one.
        ///
        /// Also if ``AccessContext/limit`` does not confirm a purchase. A sync or a restore fetches a new confirmation.
        case restoreNeeded
        /// A purchase was requested and awaits approval.
        case pendingApproval
        /// Access ended at this instant.
        case expired(Timestamp)
        /// The purchase that granted access was revoked at this instant.
        case revoked(Timestamp)
    }

    /// A Boolean value that indicates whether access is granted.
    public var isGranted: Bool {
        if case .granted = self { true } else { false }
    }
}

extension Access.Denial: CustomStringConvertible {
    /// The name of the reason in JSON, for example `notPurchased`.
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

    /// The date of an expiry or revocation; `nil` for other reasons.
    public var date: Timestamp? {
        switch self {
        case .expired(let date), .revoked(let date): date
        default: nil
        }
    }

    /// The reason as readable text.
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

/// The circumstances, other than facts, on which an access decision depends.
public struct AccessContext: Hashable, Sendable {
    /// A Boolean value that indicates whether an account is signed in.
    public var isSignedIn: Bool
    /// A Boolean value that indicates whether the account's facts are complete as far as this device can know.
    ///
    /// `true` if there is no remote, or if it has been reached at least once.
    public var hasRestored: Bool
    /// The most access that a decision may grant, whatever the facts say; `nil` for no limit.
    public var limit: AccessLimit?

    /// Creates a context. By default an account is signed in, its facts are complete, and nothing limits them.
    public init(isSignedIn: Bool = true, hasRestored: Bool = true, limit: AccessLimit? = nil) {
        self.isSignedIn = isSignedIn
        self.hasRestored = hasRestored
        self.limit = limit
    }
}
