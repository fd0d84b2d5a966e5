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
        case restoreNeeded
        /// A purchase was requested and awaits approval.
        case pendingApproval
        /// Access ended at this instant.
        case expired(Timestamp)
        /// The purchase that granted access was revoked at this instant.
        case revoked(Timestamp)
        /// A purchase is known, but the account's server has not confirmed it.
        ///
        /// The policy of the server is ``TrustPolicy/verified`` and it has no evidence of the purchase, or
        /// ``AccessContext/limit`` does not confirm it. A sync or a restore asks the server.
        case unverified
        /// A purchase is known, and belongs to another account.
        case ownedByAnotherAccount
        /// A purchase is known, and the account's server refused it for this reason.
        case refusedByServer(String)
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
        case .unverified: "unverified"
        case .ownedByAnotherAccount: "ownedByAnotherAccount"
        case .refusedByServer: "refusedByServer"
        }
    }

    /// The date of an expiry or revocation; `nil` for other reasons.
    public var date: Timestamp? {
        switch self {
        case .expired(let date), .revoked(let date): date
        default: nil
        }
    }

    /// The reason that the account's server stated; `nil` if it stated none.
    public var detail: String? {
        if case .refusedByServer(let reason) = self { reason } else { nil }
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
        case .unverified: "not verified by the account's server"
        case .ownedByAnotherAccount: "owned by another account"
        case .refusedByServer(let reason): "refused by the account's server: \(reason.singleLine)"
        }
    }
}

extension Access.Denial {
    /// Creates the denial for a purchase that the account's server set aside; `nil` for any other reason.
    init?(_ reason: SetAside) {
        switch reason {
        case .unverified: self = .unverified
        case .transferred: self = .ownedByAnotherAccount
        case .refused(let reason): self.init(refusal: reason)
        default: return nil
        }
    }

    /// Creates the denial for a purchase that the account's server refused.
    init(refusal reason: String) {
        self = Acceptance.ownershipRefusals.contains(reason) ? .ownedByAnotherAccount : .refusedByServer(reason)
    }
}

/// The circumstances, other than facts, on which an access decision depends.
public struct AccessContext: Hashable, Sendable {
    /// A Boolean value that indicates whether an account is signed in.
    public var isSignedIn: Bool
    /// True for the account of a customer without a log-in: the account's server can confirm its purchases.
    package var isGuest = false
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
