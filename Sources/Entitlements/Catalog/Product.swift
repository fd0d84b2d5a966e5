/// Something a store sells.
public struct Product: Hashable, Sendable {
    /// The store's id.
    public var id: ProductID
    /// What a purchase gives.
    public var kind: ProductKind
    /// Names to show, by language tag (`en`, `pt-BR`).
    public var names: [String: String]
    /// Whether it is offered to new buyers. What was bought counts either way.
    public var isForSale: Bool
    /// Whether a buyer must be signed in to buy or restore it.
    public var requiresAccount: Bool

    /// A product.
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

    /// The name in `language`, or in English, or the id.
    public func name(in language: String = "en") -> String {
        names[language] ?? names["en"] ?? id.rawValue
    }
}

/// What a purchase of a product gives, and for how long.
public enum ProductKind: Hashable, Sendable {
    /// So many units, 1 to 1,000,000, to be used up.
    case consumable(units: Int64)
    /// Ownership without an end.
    case nonConsumable
    /// Time in a group; the next purchase is appended by the app, not by the store.
    case nonRenewing(group: GroupID, duration: CalendarDuration)
    /// Time in a group that the store renews; level 1 is the highest.
    case autoRenewable(group: GroupID, level: Int64, duration: CalendarDuration, introductory: IntroductoryOffer?)

    /// The group of a subscription.
    public var group: GroupID? {
        switch self {
        case .consumable, .nonConsumable: nil
        case .nonRenewing(let group, _), .autoRenewable(let group, _, _, _): group
        }
    }

    /// The kind's name, as a catalogue writes it.
    public var name: String {
        switch self {
        case .consumable: "consumable"
        case .nonConsumable: "nonConsumable"
        case .nonRenewing: "nonRenewing"
        case .autoRenewable: "autoRenewable"
        }
    }
}

/// What a first subscriber gets before the regular price.
public struct IntroductoryOffer: Hashable, Sendable {
    /// How the introductory time is paid.
    public enum Mode: String, Hashable, Sendable, CaseIterable {
        /// Nothing is paid.
        case free
        /// A lower price each period.
        case payAsYouGo
        /// A lower price at once.
        case payUpFront
    }

    /// How the introductory time is paid.
    public var mode: Mode
    /// How long it lasts.
    public var duration: CalendarDuration

    /// An introductory offer.
    public init(mode: Mode, duration: CalendarDuration) {
        self.mode = mode
        self.duration = duration
    }
}

/// Something that content asks for, and what grants it.
public struct Entitlement: Hashable, Sendable {
    /// What grants an entitlement.
    public enum Source: Hashable, Sendable, CustomStringConvertible {
        /// Owning a non-consumable.
        case product(ProductID)
        /// An active period of a group.
        case group(GroupID)
        /// Units of a consumable; one is used up at a time.
        case units(ProductID)

        /// The source as a catalogue writes it: `group:random`.
        public var description: String {
            switch self {
            case .product(let id): "product:\(id)"
            case .group(let id): "group:\(id)"
            case .units(let id): "units:\(id)"
            }
        }
    }

    /// The id that content asks with.
    public var id: EntitlementID
    /// What grants it, in order of preference where several do.
    public var grantedBy: [Source]

    /// An entitlement granted by any of `grantedBy`.
    public init(id: EntitlementID, grantedBy: [Source]) {
        self.id = id
        self.grantedBy = grantedBy
    }
}
