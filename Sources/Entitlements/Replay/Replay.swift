/// The state that the facts of one environment imply under a catalogue and its rules.
///
/// A replay covers all instants at once, so one value answers any number of questions about the past, present or
/// future.
///
/// It is pure: it uses no clock and performs no I/O. Ask about one instant with ``access(to:at:context:)``,
/// ``snapshot(at:context:)`` or ``explanation(of:at:context:)``.
///
/// ```swift
/// let replay = Replay(Facts(account: ledger), catalog: catalog)
/// if replay.access(to: "owl", at: now)?.isGranted == true { showOwl() }
/// ```
public struct Replay: Sendable {
    /// The facts that were read.
    public let facts: Facts
    /// The catalogue that values the facts, with the rules in force.
    public let catalog: Catalog
    /// The environment whose transactions count.
    public let environment: EnvironmentID
    /// The periods of each group that the catalogue or a fact names.
    public let timelines: [GroupID: Timeline]
    /// The periods of each source that counts only some periods of a group: ``Catalog/partialSources``.
    let partialTimelines: [Entitlement.Source: Timeline]
    /// The ownership of each non-consumable.
    let ownerships: [ProductID: Ownership]
    /// The verdict on each purchase, in the order of ``Facts/purchases``.
    let verdicts: [Verdict]

    /// Replays the facts of one environment.
    ///
    /// - Parameters:
    ///   - facts: The facts of an account.
    ///   - catalog: The catalogue that values purchases without terms and names the entitlements.
    ///   - environment: The environment whose facts count; facts of other environments are set aside.
    ///   - rules: The rules to use instead of those of the catalogue.
    /// - Complexity: O(*n* log *n*) in the number of facts.
    public init(
        _ facts: Facts, catalog: Catalog, environment: EnvironmentID = .production, rules: ConflictRules? = nil
    ) {
        self.facts = facts
        self.environment = environment
        self.catalog = rules.map(catalog.replacing) ?? catalog
        var pass = ReplayPass(facts: facts, catalog: self.catalog, environment: environment)
        pass.run()
        timelines = pass.timelines
        partialTimelines = pass.partialTimelines
        ownerships = pass.ownerships
        verdicts = pass.verdicts
    }

    /// Returns the replay of later ledgers of the same account. Equal to a new one.
    ///
    /// Decodes only new records where ``Facts/advanced(account:device:server:remote:)`` does, and replays nothing if
    /// they are spends and requests, which change no period, ownership or verdict.
    package func advanced(account: Ledger, device: Ledger, server: Ledger, remote: Ledger?) -> Replay {
        guard let next = facts.advance(account: account, device: device, server: server, remote: remote) else {
            let facts = Facts(account: account, device: device, server: server, remote: remote)
            return Replay(facts, catalog: catalog, environment: environment)
        }
        guard next.decoded.allSatisfy(\.changesNoPeriod) else {
            return Replay(next.facts, catalog: catalog, environment: environment)
        }
        return Replay(next.facts, replayedAs: self)
    }

    private init(_ facts: Facts, replayedAs other: Replay) {
        self.facts = facts
        environment = other.environment
        catalog = other.catalog
        timelines = other.timelines
        partialTimelines = other.partialTimelines
        ownerships = other.ownerships
        verdicts = other.verdicts
    }

    /// The conflict rules in force.
    public var rules: ConflictRules { catalog.policy.rules }

    /// Returns the periods that `source` counts; `nil` for units, non-consumables and groups without any.
    func timeline(of source: Entitlement.Source) -> Timeline? {
        if case .group(let id) = source { timelines[id] } else { partialTimelines[source] }
    }

    /// Returns the verdict on a purchase; `nil` if it is unknown.
    func verdict(on transaction: TransactionReference) -> Verdict? {
        facts.index(of: transaction).map { verdicts[$0] }
    }

    /// Returns the reason for which a purchase has no effect; `nil` if it counts, or is unknown.
    package func reasonForSettingAside(_ transaction: TransactionReference) -> SetAside? {
        if case .setAside(let reason) = verdict(on: transaction) { reason } else { nil }
    }

    /// The decision that a purchase counts as a kind of product, or is set aside.
    enum Verdict: Hashable {
        case counts(ProductKind)
        case setAside(SetAside)
    }
}

/// The reason for which a fact has no effect.
///
/// A fact that is set aside stays in the ledger and may count later, for example when the catalogue learns its
/// product.
public enum SetAside: Hashable, Sendable, CustomStringConvertible {
    /// No available catalogue contains the product. The purchase counts once one does.
    case unknownProduct
    /// The quantity is not 1 to 10,000, or the duration is zero or longer than 100 years.
    case outOfBounds
    /// The fact belongs to another environment.
    case otherEnvironment(EnvironmentID)
    /// Units count only on the device that bought them, which is not this one.
    case otherDevice
    /// The fact was recorded before its test environment was reset.
    case precedesReset
    /// The account's server refused the purchase, for this reason.
    case refused(String)
    /// The purchase now belongs to the account with this name.
    case transferred(to: String)
    /// Only what the account's server has verified counts, and a client made this statement.
    case unverified
    /// The statement is unsigned, but a store signed the purchase.
    case unsigned
    /// Only the account's server may write this record, and it is in another ledger; or the record refers to something
    /// that does not exist.
    case notFromServer
    /// The fact adds no time: its time is already covered, or the date of an assertion had passed when it was stated.
    case covered
    /// The purchase was revoked at this date.
    case revoked(Timestamp)
    /// The purchase was sold as another kind of product than the source counts.
    case otherKind(String)
    /// The period has this level, and the source counts only the required level and higher ones (lower numbers).
    case lowerLevel(Int64, required: Int64)
    /// The time has no level, as an assertion, and the source counts only levels.
    case withoutLevel
    /// This version cannot read the record.
    case unreadable(String)
    /// The rule with this name prefers another fact.
    case overruled(String)

    /// The reason as readable text.
    public var description: String {
        switch self {
        case .unknownProduct: "no available catalogue contains the product"
        case .outOfBounds: "quantity or duration is out of bounds"
        case .otherEnvironment(let environment): "it belongs to environment \(environment)"
        case .otherDevice: "its units stay on the device that bought them (consumables: deviceLocal)"
        case .precedesReset: "its environment was reset later"
        case .refused(let reason): "the account's server refused it: \(reason.singleLine)"
        case .transferred(let account): "the purchase belongs to \"\(account.singleLine)\" now"
        case .unverified: "the account's server has not verified it"
        case .unsigned: "a store signed the purchase, but this statement is unsigned"
        case .notFromServer: "only the account's server may state this"
        case .covered: "its time is already covered, or had passed"
        case .revoked(let date): "it was revoked at \(date)"
        case .otherKind(let kind): "it was sold as \(kind)"
        case .lowerLevel(let level, let required): "its level is \(level), and the source needs \(required)"
        case .withoutLevel: "it has no level"
        case .unreadable(let reason): "it cannot be read: \(reason)"
        case .overruled(let rule): "overruled by \(rule)"
        }
    }
}

extension Fact {
    /// True if the fact is of a kind that ``ReplayPass`` does not read.
    fileprivate var changesNoPeriod: Bool {
        switch self {
        case .spend, .pending: true
        default: false
        }
    }
}

extension Catalog {
    fileprivate func replacing(_ rules: ConflictRules) -> Catalog {
        var policy = policy
        policy.rules = rules
        return Catalog(self, policy: policy)
    }
}

/// The ownership of a product: from a purchase to its revocation, or without limits while a flag counts.
struct Ownership: Hashable, Sendable {
    var holdings: [Period] = []
    var isFlagged = false

    func isOwned(at instant: Timestamp) -> Bool {
        isFlagged || holdings.contains { $0.contains(instant) }
    }

    /// Returns the end of an ownership that holds at `instant`, which is the date of a future revocation; `nil` if it
    /// is permanent.
    func end(at instant: Timestamp) -> Timestamp? {
        let current = holdings.filter { $0.contains(instant) }
        guard !isFlagged, current.allSatisfy({ $0.revokedAt != nil }) else { return nil }
        return current.map(\.end).max()
    }

    func lastRevocation(at instant: Timestamp) -> Timestamp? {
        holdings.compactMap(\.revokedAt).filter { $0 <= instant }.max()
    }
}
