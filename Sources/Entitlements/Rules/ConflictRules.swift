/// The rules that interpret facts which disagree.
///
/// Rules take effect only in replay, never in merging. They delete nothing, may differ between devices, and can be
/// changed later without loss.
///
/// A catalogue chooses the built-in rules by ``ConflictRule/name``. To use a rule of your own, pass it to
/// ``Replay/init(_:catalog:environment:rules:)``.
public struct ConflictRules: Sendable {
    /// The rule that turns the purchases and assertions of a non-renewing group into periods.
    public var expiry: any ExpiryRule
    /// The rule that decides between the set and cleared marks of a product.
    public var flags: any FlagRule
    /// The scope in which units of consumables count.
    public var consumables: ConsumableScope

    /// Creates a set of rules.
    ///
    /// By default no paid time or ownership is lost, and units of consumables count only on the device that bought
    /// them.
    public init(
        expiry: any ExpiryRule = StackPurchases(), flags: any FlagRule = PurchasedWins(),
        consumables: ConsumableScope = .deviceLocal
    ) {
        self.expiry = expiry
        self.flags = flags
        self.consumables = consumables
    }

    /// The built-in expiry rules, which a catalogue can select by name.
    public static let expiryRules: [any ExpiryRule] = [StackPurchases(), LatestExpiryWins(), RemoteWins()]
    /// The built-in flag rules, which a catalogue can select by name.
    package static let flagRules: [any FlagRule] = [PurchasedWins(), LastWriterWins(), RemoteWins()]
}

/// The scope in which units of consumables count.
public enum ConsumableScope: String, Hashable, Sendable, CaseIterable {
    /// Units stay in a ledger of the device that is never synced, so they are not restored on other devices. The
    /// default.
    case deviceLocal
    /// Units are kept in the account's ledger and count on every device.
    case shared
}

/// A rule that interprets facts during replay.
///
/// Conform to ``ExpiryRule`` or ``FlagRule``. A rule must be pure: equal inputs give equal results, on every device
/// and at every time.
public protocol ConflictRule: Sendable {
    /// The name that selects the rule in a catalogue and identifies it in explanations.
    var name: String { get }

    /// A Boolean value that indicates whether the rule depends on what the remote held at the last contact.
    ///
    /// If it is `true` for a rule in use, the store records the state of the remote at each contact. The default is
    /// `false`.
    var dependsOnRemote: Bool { get }
}

extension ConflictRule {
    /// `false`. The rule uses all known facts, regardless of their origin.
    public var dependsOnRemote: Bool { false }
}

/// A rule that turns the purchases and assertions of one non-renewing group into periods.
///
/// A rule must be pure: the same statements give the same periods.
///
/// The rule receives only purchases that count (their terms are known, quantity and duration are in range) and
/// assertions. They arrive in the order of replay: purchases by ascending (date, key), and an assertion after the
/// purchases made on or before the date of its statement. The rule returns at least one period for each statement,
/// even if the period is empty, so that an ``Explanation`` can account for it. An empty period without a revocation is
/// explained as overruled by the rule.
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
    /// Returns the periods that `statements` give.
    ///
    /// - Parameter statements: The purchases and assertions of one group, in the order of replay.
    /// - Returns: At least one period for each statement, in any order. Periods may overlap and may be empty.
    func periods(of statements: [TimelineInput]) -> [Period]
}

/// A rule that decides whether the marks of a product make it owned.
///
/// A rule must be pure: the same marks give the same result. It sees only marks made after the last reset of the
/// environment.
public protocol FlagRule: ConflictRule {
    /// Returns a Boolean value that indicates whether a product with these marks is owned.
    func isOwned(_ marks: FlagMarks) -> Bool
}

/// A flag rule by which a product stays owned once it was marked as owned. The default.
///
/// Clearing the flag has no effect, so a device with outdated state cannot take back a paid product.
public struct PurchasedWins: FlagRule {
    /// The string `purchasedWins`.
    public let name = "purchasedWins"

    /// Creates the rule.
    public init() {}

    /// Returns `true` if the flag was ever set.
    public func isOwned(_ marks: FlagMarks) -> Bool { marks.set != nil }
}

/// A flag rule by which the later mark counts: by logical time, then by replica.
///
/// Use it in apps that revoke unlocks by clearing the flag.
///
/// - Important: This rule loses an unlock when a device with outdated state clears the flag after another device has
///   set it.
public struct LastWriterWins: FlagRule {
    /// The string `lastWriterWins`.
    public let name = "lastWriterWins"

    /// Creates the rule.
    public init() {}

    /// Returns `true` if the later mark sets the flag.
    public func isOwned(_ marks: FlagMarks) -> Bool { marks.latest?.isSet ?? false }
}
