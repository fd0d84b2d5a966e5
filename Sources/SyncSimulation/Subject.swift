public import Entitlements
public import SyncCore

/// What runs put to the test: a catalogue, conflict rules, a store for the devices to share.
///
/// The default is the product's own. To try another rule, name it among `rules` and let the scenario's devices use it;
/// to try a backend of your own, return it from `makeRemote`. Its calls must run on the task that makes them: what
/// starts threads or unstructured tasks escapes the simulation, which fails the run.
///
/// ```swift
/// let subject = Subject(rules: ConflictRules(expiry: EachOnItsOwn()))
/// let outcome = try Simulation(Swarm.scenario(seed: 1, for: subject), of: subject).run()
/// ```
public struct Subject: Sendable {
    /// The catalogues: the current one, then older ones that some devices still have.
    public var catalogs: [Catalog]
    /// By which rules devices read facts, unless their setup names another.
    public var rules: ConflictRules
    /// Rules that a device's setup may name.
    public var knownRules: [any ExpiryRule]
    /// A new store for the devices to share.
    public var makeRemote: @Sendable (HostServices) -> any KeyValueBackend

    /// A subject.
    public init(
        catalogs: [Catalog] = [.simulated, .simulatedBefore], rules: ConflictRules = ConflictRules(),
        knownRules: [any ExpiryRule] = ConflictRules.expiryRules,
        makeRemote: @escaping @Sendable (HostServices) -> any KeyValueBackend = { MemoryBackend(host: $0) }
    ) {
        precondition(!catalogs.isEmpty, "a subject has a catalogue")
        self.catalogs = catalogs
        self.rules = rules
        self.knownRules = knownRules
        self.makeRemote = makeRemote
    }

    /// Whether the rules are those by which nothing that was paid is lost: what the model knows.
    var hasDefaultRules: Bool { rules.expiry.name == "stackPurchases" && rules.flags.name == "purchasedWins" }

    /// The subject with another of its known expiry rules; unchanged if the name is `nil` or unknown.
    func using(expiryRule name: String?) -> Subject {
        guard let name, let rule = knownRules.first(where: { $0.name == name }) else { return self }
        var subject = self
        subject.rules.expiry = rule
        return subject
    }

    func catalog(of setup: DeviceSetup, in scenario: Scenario) -> Catalog {
        var rules = rules
        if let name = setup.rule, let rule = knownRules.first(where: { $0.name == name }) { rules.expiry = rule }
        rules.consumables = scenario.sharesUnits ? .shared : .deviceLocal
        let catalog = catalogs[min(setup.catalog, catalogs.count - 1)]
        var policy = catalog.policy
        policy.rules = rules
        do {
            return try Catalog(products: catalog.products, entitlements: catalog.entitlements, policy: policy)
        } catch {
            preconditionFailure("a catalogue is as sound with other rules: \(error)")
        }
    }
}

extension Catalog {
    /// What runs sell: a group of non-renewing subscriptions, an unlock and units.
    public static let simulated = made(
        products: [
            ("month", .nonRenewing(group: "random", duration: CalendarDuration(months: 1))),
            ("quarter", .nonRenewing(group: "random", duration: CalendarDuration(months: 3))),
            ("half", .nonRenewing(group: "random", duration: CalendarDuration(months: 6))),
            ("week", .nonRenewing(group: "selfies", duration: CalendarDuration(days: 7))),
            ("owl", .nonConsumable), ("crown", .nonConsumable), ("coins", .consumable(units: 5)),
        ])

    /// The catalogue of an earlier version of the app: shorter terms, a bonus day, and nothing for half a year.
    public static let simulatedBefore = made(
        products: [
            ("month", .nonRenewing(group: "random", duration: CalendarDuration(days: 30))),
            ("quarter", .nonRenewing(group: "random", duration: CalendarDuration(days: 90))),
            ("owl", .nonConsumable), ("coins", .consumable(units: 3)),
        ], bonus: CalendarDuration(days: 1))

    private static func made(products: [(ProductID, ProductKind)], bonus: CalendarDuration = .zero) -> Catalog {
        do {
            return try Catalog(
                products: products.map { Product(id: $0.0, kind: $0.1) },
                entitlements: [
                    Entitlement(id: "random-owls", grantedBy: [.group("random"), .units("coins")]),
                    Entitlement(id: "owl", grantedBy: [.product("owl")]),
                ], policy: Policy(bonus: bonus))
        } catch {
            preconditionFailure("this catalogue is sound: \(error)")
        }
    }
}
