/// What the facts of one environment say under a catalogue's rules, for all times at once.
///
/// Pure: no clock, no I/O. Ask it about an instant with ``snapshot(at:context:)`` or ``access(to:at:context:)``.
public struct Replay: Sendable {
    /// The facts that were read.
    public let facts: Facts
    /// What they were read with.
    public let catalog: Catalog
    /// The environment whose transactions count.
    public let environment: EnvironmentID
    /// The periods of each group that the catalogue or a fact names.
    public let timelines: [GroupID: Timeline]
    /// When each product is owned.
    let ownerships: [ProductID: Ownership]
    /// What became of each purchase.
    let verdicts: [TransactionReference: Verdict]

    /// Reads `facts` of `environment` with `catalog`, by `rules` instead of the catalogue's own where they are given.
    /// Linear in the number of facts but for sorting.
    public init(
        _ facts: Facts, catalog: Catalog, environment: EnvironmentID = .production, rules: ConflictRules? = nil
    ) {
        self.facts = facts
        self.environment = environment
        self.catalog = rules.map(catalog.replacing) ?? catalog
        var pass = ReplayPass(facts: facts, catalog: self.catalog, environment: environment)
        pass.run()
        timelines = pass.timelines
        ownerships = pass.ownerships
        verdicts = pass.verdicts
    }

    /// The rules in force.
    public var rules: ConflictRules { catalog.policy.rules }

    /// Why a purchase counts nothing, or that it counts.
    enum Verdict: Hashable {
        case counts(ProductKind)
        case setAside(SetAside)
    }
}

/// Why a fact counts nothing.
public enum SetAside: Hashable, Sendable, CustomStringConvertible {
    /// No catalogue at hand knows the product. It will count once one does.
    case unknownProduct
    /// The quantity is not 1 to 10,000, or the duration none or more than 100 years.
    case outOfBounds
    /// It belongs to another environment.
    case otherEnvironment(EnvironmentID)
    /// Units count on the device that bought them, and this is another.
    case otherDevice
    /// It was entered before its test environment was reset.
    case behindReset
    /// The account's server refused it, for this reason.
    case refused(String)
    /// The purchase belongs to the account of this name now.
    case transferred(to: String)
    /// The purchase is signed by a store, and nobody signed this.
    case unsigned
    /// Only the account's server may write such a record, and it stands elsewhere; or there is no such thing.
    case notFromServer
    /// It adds nothing to what is known: the time up to its date is covered, or was over when it was said.
    case covered
    /// It was taken back at this date.
    case revoked(Timestamp)
    /// It was sold as something else than this source counts: a consumable, for instance.
    case otherKind(String)
    /// This version cannot read the record.
    case unreadable(String)
    /// A rule prefers another fact.
    case overruled(String)

    /// The reason, for a person.
    public var description: String {
        switch self {
        case .unknownProduct: "no catalogue at hand knows the product"
        case .outOfBounds: "quantity or duration is out of bounds"
        case .otherEnvironment(let environment): "it belongs to environment \(environment)"
        case .otherDevice: "its units stay on the device that bought them (consumables: deviceLocal)"
        case .behindReset: "its environment was reset since"
        case .refused(let reason): "the account's server refused it: \(reason.singleLine)"
        case .transferred(let account): "the purchase belongs to \"\(account.singleLine)\" now"
        case .unsigned: "a store signed the purchase, and nobody signed this"
        case .notFromServer: "only the account's server may state this"
        case .covered: "the time up to its date is covered without it, or was over already"
        case .revoked(let date): "it was taken back at \(date)"
        case .otherKind(let kind): "it was sold as \(kind)"
        case .unreadable(let reason): "it cannot be read: \(reason)"
        case .overruled(let rule): "overruled by \(rule)"
        }
    }
}

extension Catalog {
    fileprivate func replacing(_ rules: ConflictRules) -> Catalog {
        Catalog(self, policy: Policy(bonus: policy.bonus, rules: rules))
    }
}

/// When a product is owned: from a purchase on until its revocation, or ever since a flag was set.
struct Ownership: Hashable, Sendable {
    var holdings: [Period] = []
    var isFlagged = false

    func isOwned(at instant: Timestamp) -> Bool {
        isFlagged || holdings.contains { $0.contains(instant) }
    }

    /// When an ownership that holds at `instant` ends: at a revocation that is yet to come; `nil` for no end.
    func end(at instant: Timestamp) -> Timestamp? {
        let current = holdings.filter { $0.contains(instant) }
        guard !isFlagged, current.allSatisfy({ $0.revokedAt != nil }) else { return nil }
        return current.map(\.end).max()
    }

    func lastRevocation(at instant: Timestamp) -> Timestamp? {
        holdings.compactMap(\.revokedAt).filter { $0 <= instant }.max()
    }
}
