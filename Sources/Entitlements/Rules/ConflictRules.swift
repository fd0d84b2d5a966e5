/// How facts are read where they disagree. Rules never touch merging: they delete nothing, may differ between devices,
/// and can be changed later without loss.
public struct ConflictRules: Sendable {
    /// How purchases of a non-renewing group become periods.
    public var expiry: any ExpiryRule
    /// Which of a flag's two marks counts.
    public var flags: any FlagRule
    /// Which units count on this device.
    public var consumables: ConsumableScope

    /// Rules; by default nothing that was paid is lost, and units stay on their device as the tutorials have it.
    public init(
        expiry: any ExpiryRule = StackPurchases(), flags: any FlagRule = PurchasedWins(),
        consumables: ConsumableScope = .deviceLocal
    ) {
        self.expiry = expiry
        self.flags = flags
        self.consumables = consumables
    }

    /// The expiry rules that a catalogue can name.
    public static let expiryRules: [any ExpiryRule] = [StackPurchases(), LatestExpiryWins()]
    /// The flag rules that a catalogue can name.
    public static let flagRules: [any FlagRule] = [PurchasedWins()]
}

/// Where units of consumables live.
public enum ConsumableScope: String, Hashable, Sendable, CaseIterable {
    /// In a ledger of the device that is never synced: units are not restored. The tutorials' way, and the default.
    case deviceLocal
    /// In the account's ledger, on every device.
    case shared
}

/// Turns the purchases of one non-renewing group into periods. Pure: the same purchases give the same periods.
///
/// An implementer gets purchases that count (known terms, quantity and duration in range), in ascending order of
/// (date, key), and returns one period or more for each of them, empty ones included, so that `explain` can tell what
/// became of it.
///
/// ```swift
/// struct EachOnItsOwn: ExpiryRule {
///     let name = "eachOnItsOwn"
///     func periods(of purchases: [SoldTime]) -> [Period] {
///         purchases.map { $0.period(from: $0.purchase.date, to: $0.end(from: $0.purchase.date)) }
///     }
/// }
/// ```
public protocol ExpiryRule: Sendable {
    /// The name in a catalogue and in explanations.
    var name: String { get }

    /// The periods that `purchases` give.
    func periods(of purchases: [SoldTime]) -> [Period]
}

/// Decides which of a flag's two marks counts. Pure.
public protocol FlagRule: Sendable {
    /// The name in a catalogue and in explanations.
    var name: String { get }

    /// Whether a product with these marks is owned.
    func isOwned(set: Flag?, cleared: Flag?) -> Bool
}

/// Once set it counts, whatever was cleared. The default: clearing by an old device must not take back what was paid.
public struct PurchasedWins: FlagRule {
    /// `purchasedWins`.
    public let name = "purchasedWins"

    /// The rule.
    public init() {}

    /// Whether the flag was ever set.
    public func isOwned(set: Flag?, cleared: Flag?) -> Bool { set != nil }
}
