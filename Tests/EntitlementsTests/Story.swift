import Entitlements
import EntitlementsTestSupport

/// The catalogue used by these tests.
enum Shop {
    static let random: GroupID = "random"
    static let selfies: GroupID = "selfies"
    static let oneMonth: ProductID = "one-month"
    static let threeMonths: ProductID = "three-months"
    static let owl: ProductID = "owl"
    static let coins: ProductID = "coins"
    static let weekly: ProductID = "weekly"
    static let randomOwls: EntitlementID = "random-owls"

    static func catalog(bonus: CalendarDuration = .zero, rules: ConflictRules = ConflictRules()) throws -> Catalog {
        let week = CalendarDuration(days: 7)
        return try Catalog(
            products: [
                Product(
                    id: oneMonth, kind: .nonRenewing(group: random, duration: CalendarDuration(months: 1))),
                Product(
                    id: threeMonths, kind: .nonRenewing(group: random, duration: CalendarDuration(months: 3))),
                Product(id: owl, kind: .nonConsumable),
                Product(id: coins, kind: .consumable(units: 5)),
                Product(
                    id: weekly, kind: .autoRenewable(group: selfies, level: 1, duration: week, introductory: nil)),
            ],
            entitlements: [
                Entitlement(id: randomOwls, grantedBy: [.group(random), .units(coins)]),
                Entitlement(id: "owl", grantedBy: [.product(owl), .group(random)]),
                Entitlement(id: "selfies", grantedBy: [.group(selfies)]),
            ],
            policy: Policy(bonus: bonus, rules: rules))
    }
}

/// The ledger of one device, built fact by fact. Each fact has a later logical time than all facts that the device has
/// seen.
struct Story {
    private(set) var ledger: Ledger
    let catalog: Catalog
    let replica: ReplicaID

    init(_ catalog: Catalog? = nil, replica: UInt64 = 1, knowing ledger: Ledger = Ledger()) throws {
        self.catalog = try catalog ?? Shop.catalog()
        self.ledger = ledger
        var random = SplitMix64(seed: replica)
        self.replica = ReplicaID.random(using: &random)
    }

    /// Records a purchase together with the end that this device knew at that time.
    func buying(
        _ product: ProductID, at date: String, quantity: Int64 = 1, transaction: TransactionID,
        environment: EnvironmentID = .production, terms: Terms? = nil
    ) throws -> Story {
        let transaction = TransactionReference(environment: environment, id: transaction)
        let sold = terms ?? catalog.terms(of: product)
        let replay = Replay(Facts(account: ledger), catalog: catalog, environment: environment)
        let purchase = try stating(at: date) { date, time in
            .purchase(
                Purchase(
                    transaction: transaction, product: product, terms: sold, date: date, quantity: quantity,
                    stamp: Stamp(logicalTime: time)))
        }
        return try purchase.stating(at: date) { date, time in
            .recording(
                Recording(
                    transaction: transaction, replica: replica, recordedAt: date,
                    knownEnd: sold?.kind.group.flatMap { replay.knownEnd(of: $0) }, logicalTime: time))
        }
    }

    func refunding(_ transaction: TransactionID, at date: String) throws -> Story {
        try stating(at: date) { date, time in
            .revocation(
                Revocation(
                    transaction: TransactionReference(id: transaction), revokedAt: date, reason: "refund",
                    stamp: Stamp(logicalTime: time)))
        }
    }

    func spending(_ units: Int64, of product: ProductID = Shop.coins, id: SpendID, at date: String) throws -> Story {
        try stating(at: date) { date, time in
            .spend(Spend(id: id, product: product, units: units, date: date, replica: replica, logicalTime: time))
        }
    }

    func flagging(_ product: ProductID, isSet: Bool, at date: String) throws -> Story {
        try stating(at: date) { date, time in
            .flag(Flag(product: product, isSet: isSet, date: date, replica: replica, logicalTime: time))
        }
    }

    func asking(for product: ProductID, isWithdrawn: Bool = false, at date: String) throws -> Story {
        try stating(at: date) { date, time in
            .pending(PendingPurchase(product: product, requestedAt: date, isWithdrawn: isWithdrawn, logicalTime: time))
        }
    }

    /// Records a fact with the parsed date and the next logical time.
    func stating(at date: String, _ fact: (Timestamp, LogicalTime) -> Fact) throws -> Story {
        let date = try Timestamp(date)
        var story = self
        let time = Facts(account: ledger).latestTime.next(at: date)
        story.ledger = ledger.joined(with: Ledger([fact(date, time).record]))
        return story
    }

    /// Returns this device after it merged the other ledger.
    func synced(with other: Story) -> Story {
        var story = self
        story.ledger = ledger.joined(with: other.ledger)
        return story
    }

    /// Replays the ledger. Its units count as bought on this device.
    func replay(
        _ catalog: Catalog? = nil, environment: EnvironmentID = .production, expiry: (any ExpiryRule)? = nil
    ) -> Replay {
        let catalog = catalog ?? self.catalog
        var rules = catalog.policy.rules
        if let expiry { rules.expiry = expiry }
        return Replay(
            Facts(account: ledger, device: ledger), catalog: catalog, environment: environment, rules: rules)
    }
}

extension Replay {
    /// Returns the chains of a group as text: `2026-01-01T00:00:00.000Z – 2026-04-01T00:00:00.000Z`.
    func chains(of group: GroupID = Shop.random) -> [String] {
        timelines[group]?.chains.map { "\($0.start) – \($0.end)" } ?? []
    }

    func isActive(_ group: GroupID = Shop.random, at date: String) throws -> Bool {
        try timelines[group]?.isActive(at: Timestamp(date)) ?? false
    }
}

extension Timestamp {
    func moved(_ milliseconds: Int64) -> Timestamp { Timestamp(milliseconds: self.milliseconds + milliseconds) }
}

/// Returns a chain of whole days in the form of ``Replay/chains(of:)``.
func days(_ start: String, _ end: String) -> String { "\(start)T00:00:00.000Z – \(end)T00:00:00.000Z" }
