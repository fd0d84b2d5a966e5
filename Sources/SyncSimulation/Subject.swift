public import Entitlements
public import SyncCore

/// The parts of a run that are under test: catalogues, conflict rules, and the store that the devices share.
///
/// The default is the product's own. To test another rule, pass it in `rules`, or add it to `knownRules` and name it
/// in a device's setup. To test another backend, return it from `makeRemote`. Its calls must run on the calling task:
/// threads and unstructured tasks escape the simulation, which fails the run.
///
/// ```swift
/// let subject = Subject(rules: ConflictRules(expiry: EachOnItsOwn()))
/// let outcome = Simulation(Swarm().scenario(seed: 1), of: subject).run()
/// ```
public struct Subject: Sendable {
    /// The catalogues: the current one, then older ones that some devices still have.
    public var catalogs: [Catalog]
    /// The rules that devices apply, unless their setup names another one.
    public var rules: ConflictRules
    /// The rules that a scenario or a device's setup may name.
    public var knownRules: [any ExpiryRule]
    /// Creates the store that the devices share.
    public var makeRemote: @Sendable (HostServices) -> any KeyValueBackend

    /// Creates a subject.
    public init(
        catalogs: [Catalog] = [.simulated, .simulatedBefore], rules: ConflictRules = ConflictRules(),
        knownRules: [any ExpiryRule] = ConflictRules.expiryRules,
        makeRemote: @escaping @Sendable (HostServices) -> any KeyValueBackend = { MemoryBackend(host: $0) }
    ) {
        precondition(!catalogs.isEmpty, "catalogs must not be empty")
        self.catalogs = catalogs
        self.rules = rules
        self.knownRules = knownRules
        self.makeRemote = makeRemote
    }

    /// True for the rules of the model. They lose no paid time.
    var hasDefaultRules: Bool { rules.expiry.name == "stackPurchases" && rules.flags.name == "purchasedWins" }

    /// The subject with another of its known expiry rules; unchanged if the name is `nil` or unknown.
    func using(expiryRule name: String?) -> Subject {
        guard let name, let rule = knownRules.first(where: { $0.name == name }) else { return self }
        var subject = self
        subject.rules.expiry = rule
        return subject
    }

    func catalog(of setup: DeviceSetup, in scenario: Scenario) -> Catalog {
        var rules = using(expiryRule: setup.rule).rules
        rules.consumables = scenario.sharesUnits ? .shared : .deviceLocal
        let catalog = catalogs[min(setup.catalog, catalogs.count - 1)]
        var policy = catalog.policy
        policy.rules = rules
        do {
            return try Catalog(products: catalog.products, entitlements: catalog.entitlements, policy: policy)
        } catch {
            preconditionFailure("changing the rules of a valid catalogue failed: \(error)")
        }
    }
}

extension Catalog {
    /// The catalogue of runs: groups of non-renewing subscriptions, unlocks and units.
    public static let simulated = made(
        products: [
            ("month", .nonRenewing(group: "random", duration: CalendarDuration(months: 1))),
            ("quarter", .nonRenewing(group: "random", duration: CalendarDuration(months: 3))),
            ("half", .nonRenewing(group: "random", duration: CalendarDuration(months: 6))),
            ("week", .nonRenewing(group: "selfies", duration: CalendarDuration(days: 7))),
            ("owl", .nonConsumable), ("crown", .nonConsumable), ("coins", .consumable(units: 5)),
            (
                "club",
                .autoRenewable(group: "club", level: 1, duration: CalendarDuration(months: 1), introductory: nil)
            ),
            (
                "lounge",
                .autoRenewable(group: "club", level: 2, duration: CalendarDuration(months: 1), introductory: nil)
            ),
        ],
        entitlements: [
            Entitlement(id: "bar", grantedBy: [.level("club", 2)]),
            Entitlement(id: "stage", grantedBy: [.level("club", 1)]),
            Entitlement(id: "sofa", grantedBy: [.product("lounge")]),
        ])

    /// The catalogue of an earlier version of the app: shorter terms, a bonus day, and no half year.
    public static let simulatedBefore = made(
        products: [
            ("month", .nonRenewing(group: "random", duration: CalendarDuration(days: 30))),
            ("quarter", .nonRenewing(group: "random", duration: CalendarDuration(days: 90))),
            ("owl", .nonConsumable), ("coins", .consumable(units: 3)),
        ], bonus: CalendarDuration(days: 1))

    private static func made(
        products: [(ProductID, ProductKind)], entitlements: [Entitlement] = [], bonus: CalendarDuration = .zero
    ) -> Catalog {
        do {
            return try Catalog(
                products: products.map { Product(id: $0.0, kind: $0.1) },
                entitlements: [
                    Entitlement(id: "random-owls", grantedBy: [.group("random"), .units("coins")]),
                    Entitlement(id: "owl", grantedBy: [.product("owl")]),
                ] + entitlements, policy: Policy(bonus: bonus))
        } catch {
            preconditionFailure("the built-in catalogue is invalid: \(error)")
        }
    }
}
