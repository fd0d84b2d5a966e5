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
    public static let expiryRules: [any ExpiryRule] = [StackPurchases(), LatestExpiryWins(), RemoteWins()]
    /// The flag rules that a catalogue can name.
    public static let flagRules: [any FlagRule] = [PurchasedWins(), LastWriterWins(), RemoteWins()]
}

/// Where units of consumables live.
public enum ConsumableScope: String, Hashable, Sendable, CaseIterable {
    /// In a ledger of the device that is never synced: units are not restored. The tutorials' way, and the default.
    case deviceLocal
    /// In the account's ledger, on every device.
    case shared
}

/// What every rule says of itself.
public protocol ConflictRule: Sendable {
    /// The name in a catalogue and in explanations.
    var name: String { get }

    /// Whether it asks what the remote held, so that the store keeps track of that. `false` unless said otherwise.
    var asksRemote: Bool { get }
}

extension ConflictRule {
    /// `false`: it reads what is known, wherever it came from.
    public var asksRemote: Bool { false }
}

/// Turns what is known of one non-renewing group into periods. Pure: the same statements give the same periods.
///
/// An implementer gets purchases that count (known terms, quantity and duration in range) and assertions, in the order
/// of replay: purchases in ascending order of (date, key), an assertion after the purchases of the date at which it was
/// made. It returns one period or more for each of them, empty ones included, so that `explain` can tell what became of
/// it; a period that is empty without a revocation is explained as overruled by the rule.
///
/// ```swift
/// struct EachOnItsOwn: ExpiryRule {
///     let name = "eachOnItsOwn"
///     func periods(of statements: [TimelineInput]) -> [Period] {
///         statements.map { statement in
///             switch statement {
///             case .sold(let sold): sold.period(from: sold.purchase.date, to: sold.end(from: sold.purchase.date))
///             case .asserted(let asserted): asserted.period(after: .earliest)
///             }
///         }
///     }
/// }
/// ```
public protocol ExpiryRule: ConflictRule {
    /// The periods that `statements` give.
    func periods(of statements: [TimelineInput]) -> [Period]
}

/// Decides which of a product's marks counts. Pure.
public protocol FlagRule: ConflictRule {
    /// Whether a product with these marks is owned.
    func isOwned(_ marks: FlagMarks) -> Bool
}

/// Once set it counts, whatever was cleared. The default: clearing by an old device must not take back what was paid.
public struct PurchasedWins: FlagRule {
    /// `purchasedWins`.
    public let name = "purchasedWins"

    /// The rule.
    public init() {}

    /// Whether the flag was ever set.
    public func isOwned(_ marks: FlagMarks) -> Bool { marks.set != nil }
}

/// The later mark counts, by logical time, then by replica. For apps that take unlocks back by clearing the flag.
///
/// It loses an unlock when a device whose state is old clears the flag after another has set it.
public struct LastWriterWins: FlagRule {
    /// `lastWriterWins`.
    public let name = "lastWriterWins"

    /// The rule.
    public init() {}

    /// Whether the later mark sets.
    public func isOwned(_ marks: FlagMarks) -> Bool { marks.latest?.isSet ?? false }
}
