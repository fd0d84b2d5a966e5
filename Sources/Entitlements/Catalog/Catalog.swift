/// The products for sale, the entitlements that content asks for, and the policy for interpreting facts.
///
/// When a purchase is recorded, the catalogue supplies its terms, which are stored with the purchase. A later
/// catalogue therefore cannot shorten what a buyer paid for.
public struct Catalog: Sendable {
    /// All products, in the order of the catalogue.
    public let products: [Product]
    /// All entitlements, in ascending order of their ids.
    public let entitlements: [Entitlement]
    /// The bonus and the conflict rules.
    public let policy: Policy
    /// The rules that open paths of a web server, in the order of the catalogue.
    public let content: [ContentRule]
    /// The groups of products to show together, in the order of the catalogue.
    public let offerings: [Offering]

    /// The sources that count some periods of a group: levels and auto-renewable products.
    let partialSources: Set<Entitlement.Source>

    private let productIndex: [ProductID: Int]
    private let entitlementIndex: [EntitlementID: Int]

    /// Creates a catalogue.
    ///
    /// - Throws: ``InputError`` if an id is invalid or used twice, if units, levels or durations are out of range, if
    ///   a group contains more than one kind of product, if an entitlement has no known source, if a content rule is
    ///   malformed, or if an offering names no product, an unknown one, or one twice.
    public init(
        products: [Product], entitlements: [Entitlement] = [], policy: Policy = Policy(), content: [ContentRule] = [],
        offerings: [Offering] = []
    ) throws(InputError) {
        try CatalogChecker(
            products: products, entitlements: entitlements, policy: policy, content: content, offerings: offerings
        ).check()
        (self.content, self.offerings) = (content, offerings)
        self.products = products
        self.entitlements = entitlements.sorted { $0.id < $1.id }
        self.policy = policy
        productIndex = Dictionary(uniqueKeysWithValues: zip(self.products.map(\.id), self.products.indices))
        entitlementIndex = Dictionary(uniqueKeysWithValues: zip(self.entitlements.map(\.id), self.entitlements.indices))
        let renewing = Set(products.filter { $0.kind.level != nil }.map { Entitlement.Source.product($0.id) })
        partialSources = Set(entitlements.flatMap(\.grantedBy)).filter { source in
            if case .level = source { true } else { renewing.contains(source) }
        }
    }

    /// Creates a copy with another policy, which the caller knows to be valid.
    init(_ catalog: Catalog, policy: Policy) {
        products = catalog.products
        entitlements = catalog.entitlements
        (content, offerings) = (catalog.content, catalog.offerings)
        self.policy = policy
        partialSources = catalog.partialSources
        productIndex = catalog.productIndex
        entitlementIndex = catalog.entitlementIndex
    }

    /// The product with this id; `nil` if the catalogue does not contain it.
    public subscript(product id: ProductID) -> Product? {
        productIndex[id].map { products[$0] }
    }

    /// The entitlement with this id; `nil` if the catalogue does not contain it.
    public subscript(entitlement id: EntitlementID) -> Entitlement? {
        entitlementIndex[id].map { entitlements[$0] }
    }

    /// Returns the terms at which `product` is currently sold; `nil` if the catalogue does not contain it. For
    /// subscriptions they include the bonus of the policy.
    public func terms(of product: ProductID) -> Terms? {
        self[product: product].map { Terms(kind: $0.kind, bonus: $0.kind.group == nil ? .zero : policy.bonus) }
    }

    /// The groups of all products, in ascending order.
    public var groups: [GroupID] {
        Set(products.compactMap(\.kind.group)).sorted()
    }
}

/// A named, ordered list of products to show together, for example on a shop page.
public struct Offering: Hashable, Sendable {
    /// The name of the offering, unique in the catalogue.
    public var id: OfferingID
    /// The products, in the order in which to show them.
    public var products: [ProductID]

    /// Creates an offering.
    public init(id: OfferingID, products: [ProductID]) { (self.id, self.products) = (id, products) }
}

/// The terms of a sale, stored with the purchase.
public struct Terms: Hashable, Sendable {
    /// The kind of product that was sold.
    public var kind: ProductKind
    /// The time added once per purchase, in addition to duration × quantity.
    public var bonus: CalendarDuration

    /// Creates terms of sale.
    public init(kind: ProductKind, bonus: CalendarDuration = .zero) {
        self.kind = kind
        self.bonus = bonus
    }
}

/// The policy by which an app interprets facts.
public struct Policy: Sendable {
    /// The time added to each purchase of a subscription at the time of sale; at most 100 years.
    public var bonus: CalendarDuration
    /// The conflict rules.
    public var rules: ConflictRules
    /// The length of paid time in the environments `sandbox` and `xcode`.
    public var sandboxTime: SandboxTime

    /// Creates a policy.
    public init(
        bonus: CalendarDuration = .zero, rules: ConflictRules = ConflictRules(), sandboxTime: SandboxTime = .asSold
    ) {
        self.bonus = bonus
        self.rules = rules
        self.sandboxTime = sandboxTime
    }
}
