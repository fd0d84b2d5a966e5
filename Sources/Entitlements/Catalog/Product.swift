/// A product that a store sells.
public struct Product: Hashable, Sendable {
    /// The id of the product in the store.
    public var id: ProductID
    /// The kind of product, which determines what a purchase gives.
    public var kind: ProductKind
    /// The display names, by language tag (`en`, `pt-BR`).
    public var names: [String: String]
    /// A Boolean value that indicates whether the product is offered to new buyers.
    ///
    /// Past purchases count in either case.
    public var isForSale: Bool
    /// A Boolean value that indicates whether a buyer must be signed in to buy or restore the product.
    ///
    /// It is a rule for selling. A purchase that a store has made is recorded and counts without an account too,
    /// because it is paid.
    public var requiresAccount: Bool

    /// Creates a product.
    public init(
        id: ProductID, kind: ProductKind, names: [String: String] = [:], isForSale: Bool = true,
        requiresAccount: Bool = false
    ) {
        self.id = id
        self.kind = kind
        self.names = names
        self.isForSale = isForSale
        self.requiresAccount = requiresAccount
    }

    /// Returns the name in `language`, or else the English name, or else the id.
    public func name(in language: String = "en") -> String {
        names[language] ?? names["en"] ?? id.rawValue
    }
}

/// The kind of a product: what a purchase gives, and for how long.
public enum ProductKind: Hashable, Sendable {
    /// A number of units, 1 to 1,000,000, to be used up.
    case consumable(units: Int64)
    /// Permanent ownership.
    case nonConsumable
    /// Time in a group. The library, not the store, appends the next purchase.
    case nonRenewing(group: GroupID, duration: CalendarDuration)
    /// Time in a group, renewed by the store. Levels are 1 (highest) to 1,000.
    case autoRenewable(group: GroupID, level: Int64, duration: CalendarDuration, introductory: IntroductoryOffer?)

    /// The group of a subscription; `nil` for other kinds.
    public var group: GroupID? {
        switch self {
        case .consumable, .nonConsumable: nil
        case .nonRenewing(let group, _), .autoRenewable(let group, _, _, _): group
        }
    }

    /// The level of service of an auto-renewable product, where 1 is the highest; `nil` for other kinds.
    var level: Int64? { if case .autoRenewable(_, let level, _, _) = self { level } else { nil } }

    /// The name of the kind in a catalogue, for example `nonRenewing`.
    public var name: String {
        switch self {
        case .consumable: "consumable"
        case .nonConsumable: "nonConsumable"
        case .nonRenewing: "nonRenewing"
        case .autoRenewable: "autoRenewable"
        }
    }
}

/// An introductory offer for first-time subscribers.
public struct IntroductoryOffer: Hashable, Sendable {
    /// The payment mode of an introductory offer.
    public enum Mode: String, Hashable, Sendable, CaseIterable {
        /// The introductory time is free.
        case free
        /// A reduced price is paid in each period.
        case payAsYouGo
        /// A reduced price is paid once, in advance.
        case payUpFront
    }

    /// The payment mode of an introductory offer.
    public var mode: Mode
    /// The total duration of the offer.
    public var duration: CalendarDuration

    /// Creates an introductory offer.
    public init(mode: Mode, duration: CalendarDuration) {
        self.mode = mode
        self.duration = duration
    }
}

/// An entitlement: a permission that content asks for, and its sources.
public struct Entitlement: Hashable, Sendable {
    /// A source of an entitlement.
    public enum Source: Hashable, Sendable, CustomStringConvertible {
        /// Ownership of a non-consumable, or an active period of an auto-renewable product.
        case product(ProductID)
        /// An active period of a group.
        case group(GroupID)
        /// An active period of an auto-renewable group at this level or a higher one (a lower number).
        ///
        /// Asserted time has no level, so it does not count.
        case level(GroupID, Int64)
        /// Units of a consumable, which are used one at a time.
        case units(ProductID)

        /// The source in the form used by catalogues, for example `group:random` or `group:selfies@1`.
        public var description: String {
            switch self {
            case .product(let id): "product:\(id)"
            case .group(let id): "group:\(id)"
            case .level(let id, let level): "group:\(id)@\(level)"
            case .units(let id): "units:\(id)"
            }
        }
    }

    /// The id with which content asks for access.
    public var id: EntitlementID
    /// The sources that grant the entitlement, in order of preference.
    public var grantedBy: [Source]

    /// Creates an entitlement that any of `grantedBy` grants.
    public init(id: EntitlementID, grantedBy: [Source]) {
        self.id = id
        self.grantedBy = grantedBy
    }
}
