/// What is sold, what content asks for, and by which rules facts are read.
///
/// A catalogue values purchases when they are recorded: the terms as sold go into the fact, so that a later catalogue
/// cannot shorten what somebody paid for.
public struct Catalog: Sendable {
    /// All products, in ascending order of their ids.
    public let products: [Product]
    /// All entitlements, in ascending order of their ids.
    public let entitlements: [Entitlement]
    /// Bonus and conflict rules.
    public let policy: Policy

    private let productIndex: [ProductID: Int]
    private let entitlementIndex: [EntitlementID: Int]

    /// A catalogue of the given parts.
    ///
    /// - Throws: ``InputError`` when an id is unfit or used twice, units or durations are out of range, a group holds
    ///   more than one kind, or an entitlement is granted by nothing that the catalogue knows.
    public init(products: [Product], entitlements: [Entitlement] = [], policy: Policy = Policy()) throws(InputError) {
        try CatalogChecker(products: products, entitlements: entitlements, policy: policy).check()
        self.products = products.sorted { $0.id < $1.id }
        self.entitlements = entitlements.sorted { $0.id < $1.id }
        self.policy = policy
        productIndex = Dictionary(uniqueKeysWithValues: zip(self.products.map(\.id), self.products.indices))
        entitlementIndex = Dictionary(uniqueKeysWithValues: zip(self.entitlements.map(\.id), self.entitlements.indices))
    }

    /// The same catalogue with another policy, which the caller knows to be sound.
    init(_ catalog: Catalog, policy: Policy) {
        products = catalog.products
        entitlements = catalog.entitlements
        self.policy = policy
        productIndex = catalog.productIndex
        entitlementIndex = catalog.entitlementIndex
    }

    /// The product of this id, if the catalogue has it.
    public subscript(product id: ProductID) -> Product? {
        productIndex[id].map { products[$0] }
    }

    /// The entitlement of this id, if the catalogue has it.
    public subscript(entitlement id: EntitlementID) -> Entitlement? {
        entitlementIndex[id].map { entitlements[$0] }
    }

    /// The terms at which `product` is sold now, the policy's bonus included for subscriptions.
    public func terms(of product: ProductID) -> Terms? {
        self[product: product].map { Terms(kind: $0.kind, bonus: $0.kind.group == nil ? .zero : policy.bonus) }
    }

    /// All groups, ascending.
    public var groups: [GroupID] {
        Set(products.compactMap(\.kind.group)).sorted()
    }
}

/// The terms at which something was sold, kept with the purchase.
public struct Terms: Hashable, Sendable {
    /// What the purchase gives.
    public var kind: ProductKind
    /// Time added once a purchase, on top of duration × quantity. The tutorials' extra day is `P1D`.
    public var bonus: CalendarDuration

    /// Terms of sale.
    public init(kind: ProductKind, bonus: CalendarDuration = .zero) {
        self.kind = kind
        self.bonus = bonus
    }
}

/// How an app wants facts read.
public struct Policy: Sendable {
    /// Time added to each purchase of a subscription, at the time of sale.
    public var bonus: CalendarDuration
    /// The conflict rules.
    public var rules: ConflictRules

    /// A policy.
    public init(bonus: CalendarDuration = .zero, rules: ConflictRules = ConflictRules()) {
        self.bonus = bonus
        self.rules = rules
    }
}
