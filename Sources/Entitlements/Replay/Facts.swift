/// The facts of a ledger, read once and arranged for replay.
public struct Facts: Sendable {
    /// Purchases by (date, key). Where the account's server counts one as of another date, that date stands here.
    public private(set) var purchases: [Purchase] = []
    /// Who recorded a purchase, by replica.
    public private(set) var recordings: [TransactionReference: [Recording]] = [:]
    /// The strongest statement on whether a purchase was taken back, whether that purchase is known or not. It may say
    /// that the purchase counts again; ``revocation(of:)`` tells.
    public private(set) var revocations: [TransactionReference: Revocation] = [:]
    /// How subscriptions that a store renews go on, by their first transaction.
    public private(set) var renewalStates: [TransactionReference: RenewalState] = [:]
    /// Expiries from systems that keep no purchases, by (date of the statement, reference).
    public private(set) var assertions: [Assertion] = []
    /// The marks of each product that was ever marked.
    public private(set) var flags: [FlagMarks.Reference: FlagMarks] = [:]
    /// Spends by (logical time, key).
    public private(set) var spends: [Spend] = []
    /// The account that adopted this ledger of nobody.
    public private(set) var claim: Claim?
    /// What the account's server decided about purchases.
    public private(set) var acceptances: [TransactionReference: Acceptance] = [:]
    /// Requests for approval, withdrawn ones included.
    public private(set) var pending: [ProductID: PendingPurchase] = [:]
    /// Transactions that were stated with two contents, as this device noticed it.
    public private(set) var contradictions: [Contradiction] = []
    /// Test environments that were put back.
    public private(set) var resets: [EnvironmentID: EnvironmentReset] = [:]
    /// Records that count nothing because this version cannot read them, or because they stand where only the account's
    /// server may write.
    public private(set) var unreadable: [Fact] = []
    /// The latest logical time of any fact: the next fact comes after it.
    public private(set) var latestTime = LogicalTime.zero

    /// Acceptances that stand where only somebody else than the server can have written them.
    private(set) var misplacedAcceptances: [TransactionReference: Acceptance] = [:]
    private var purchaseIndex: [TransactionReference: Int] = [:]
    private var purchaseIndices: [ProductID: [Int]] = [:]
    private var spendIndices: [ProductID: [Int]] = [:]
    private var statedDates: [TransactionReference: Timestamp] = [:]
    private var heldPurchases: Set<TransactionReference> = []
    private var heldSpends: Set<SpendID> = []
    /// The keys of the records that the remote held; `nil` when all count as held.
    private var confirmedKeys: Set<[UInt8]>?

    /// The facts of an account.
    ///
    /// - Parameters:
    ///   - account: the account's ledger.
    ///   - device: the ledger that this device keeps to itself.
    ///   - server: the ledger that only the account's server writes.
    ///   - remote: what the remote held when it was last met, for rules that count nothing else; where it is not given,
    ///     everything counts as held.
    public init(
        account: Ledger, device: Ledger = Ledger(), server: Ledger = Ledger(), remote: Ledger? = nil
    ) {
        self.init(
            account.joined(with: device).records.map { Fact($0) }, device: device.records.map { Fact($0) },
            server: server.records.map { Fact($0) }, remote: remote)
    }

    /// Facts that were read, one a key: all that the account's and the device's ledgers hold, what of it the device's
    /// holds, and what the server's does.
    init(_ known: [Fact], device: [Fact] = [], server: [Fact] = [], remote: Ledger? = nil) {
        confirmedKeys = remote.map { Set($0.records.map(\.key)) }
        for fact in server {
            latestTime = max(latestTime, fact.logicalTime)
            if case .acceptance(let acceptance) = fact { acceptances[acceptance.transaction] = acceptance }
        }
        for fact in known { add(fact) }
        for fact in device { noteDevice(fact) }
        for record in remote?.records ?? [] where FactKey.isFlag(record.key) { noteRemote(Fact(record)) }
        sort()
    }

    private mutating func sort() {
        purchases.sort { left, right in
            left.date != right.date ? left.date < right.date : left.transaction < right.transaction
        }
        spends.sort { ($0.logicalTime, $0.id) < ($1.logicalTime, $1.id) }
        assertions.sort { ($0.assertedAt, $0.reference) < ($1.assertedAt, $1.reference) }
        purchaseIndex = Dictionary(uniqueKeysWithValues: zip(purchases.map(\.transaction), purchases.indices))
        // What is asked for each product must not look through all facts each time: a ledger may name many products.
        purchaseIndices = Dictionary(grouping: purchases.indices) { purchases[$0].product }
        spendIndices = Dictionary(grouping: spends.indices) { spends[$0].product }
    }

    private mutating func add(_ fact: Fact) {
        latestTime = max(latestTime, fact.logicalTime)
        switch fact {
        case .purchase(let purchase): add(purchase)
        case .recording(let recording): recordings[recording.transaction, default: []].append(recording)
        case .revocation(let revocation): revocations[revocation.transaction] = revocation
        case .renewalState(let state): renewalStates[state.line] = state
        case .assertion(let assertion): assertions.append(assertion)
        case .flag(let flag): add(flag)
        case .spend(let spend): spends.append(spend)
        case .pending(let request): pending[request.product] = request
        case .reset(let reset) where reset.environment != .production: resets[reset.environment] = reset
        case .claim(let claim): self.claim = claim
        case .contradiction(let note): contradictions.append(note)
        case .acceptance(let acceptance):
            misplacedAcceptances[acceptance.transaction] = acceptance
            unreadable.append(fact)
        case .reset, .unreadable: unreadable.append(fact)
        }
    }

    private mutating func add(_ purchase: Purchase) {
        var purchase = purchase
        if case .countsAsOf(let date)? = acceptances[purchase.transaction]?.decision {
            statedDates[purchase.transaction] = purchase.date
            purchase.date = date
        }
        purchases.append(purchase)
    }

    private mutating func add(_ flag: Flag) {
        flags[FlagMarks.Reference(flag.product, flag.environment), default: FlagMarks()]
            .add(flag, isHeld: confirmedKeys == nil)
    }

    /// A mark as the remote held it: this replica may have made the same mark anew since.
    private mutating func noteRemote(_ fact: Fact) {
        guard case .flag(let flag) = fact else { return }
        flags[FlagMarks.Reference(flag.product, flag.environment), default: FlagMarks()].noteRemote(flag)
    }

    private mutating func noteDevice(_ fact: Fact) {
        switch fact {
        case .purchase(let purchase): heldPurchases.insert(purchase.transaction)
        case .spend(let spend): heldSpends.insert(spend.id)
        default: break
        }
    }

    /// Adds a purchase that nobody has made yet, for a preview.
    func adding(_ purchase: Purchase, _ recording: Recording) -> Facts {
        var facts = self
        facts.recordings[purchase.transaction] = [recording]
        facts.confirmedKeys?.insert(FactKey.purchase(purchase.transaction).bytes)
        facts.purchases.append(purchase)
        facts.sort()
        return facts
    }

    /// Whether the device's own ledger holds this purchase.
    public func isOnDevice(_ purchase: Purchase) -> Bool { heldPurchases.contains(purchase.transaction) }

    /// Whether the device's own ledger holds this spend.
    public func isOnDevice(_ spend: Spend) -> Bool { heldSpends.contains(spend.id) }

    /// The purchase of this transaction, if it is known.
    public subscript(transaction: TransactionReference) -> Purchase? {
        purchaseIndex[transaction].map { purchases[$0] }
    }

    /// The purchases of `product`, by (date, key).
    func purchases(of product: ProductID) -> [Purchase] { (purchaseIndices[product] ?? []).map { purchases[$0] } }

    /// The spends of `product`, by (logical time, key).
    func spends(of product: ProductID) -> [Spend] { (spendIndices[product] ?? []).map { spends[$0] } }

    /// The date that the purchase itself states; differs from its date when the account's server counts it as of
    /// another one.
    public func statedDate(of purchase: Purchase) -> Timestamp { statedDates[purchase.transaction] ?? purchase.date }

    /// The revocation that counts against `purchase`; `nil` when there is none, when it was reversed, or when nobody
    /// signed it while a store signed the purchase.
    public func revocation(of purchase: Purchase) -> Revocation? {
        guard let revocation = revocations[purchase.transaction], revocation.revokedAt != nil,
            !isBehindReset(revocation.stamp.logicalTime, in: revocation.transaction.environment)
        else { return nil }
        return isOverruled(revocation) ? nil : revocation
    }

    /// What counts of what is said about the subscription that `purchase` belongs to; `nil` when nothing is, when it
    /// was said before a reset, or when nobody signed it while a store signed the purchase.
    func renewalState(of purchase: Purchase) -> RenewalState? {
        guard let state = renewalStates[purchase.line],
            !isBehindReset(state.stamp.logicalTime, in: state.line.environment),
            state.stamp.signedDate != nil || purchase.stamp.signedDate == nil
        else { return nil }
        return state
    }

    /// Whether a statement about a purchase counts nothing because a store signed the purchase, and nobody signed this.
    func isOverruled(_ revocation: Revocation) -> Bool {
        revocation.stamp.signedDate == nil && self[revocation.transaction]?.stamp.signedDate != nil
    }

    /// When a purchase that counts was taken back.
    func revocationDate(of purchase: Purchase) -> Timestamp? { revocation(of: purchase)?.revokedAt }

    /// Whether the remote held this fact when it was last met, as far as is known.
    func isConfirmed(_ fact: Fact) -> Bool { confirmedKeys?.contains(fact.record.key) ?? true }

    /// Whether a fact was entered before its environment was reset.
    func isBehindReset(_ time: LogicalTime, in environment: EnvironmentID) -> Bool {
        resets[environment].map { time <= $0.logicalTime } ?? false
    }

    /// When a purchase first entered anybody's ledger: units count from then on, so that recording a purchase once more
    /// on another device does not move its units behind what was spent of them.
    func firstRecorded(_ purchase: Purchase) -> LogicalTime {
        let times = (recordings[purchase.transaction] ?? []).map(\.logicalTime)
        return min(times.min() ?? purchase.stamp.logicalTime, purchase.stamp.logicalTime)
    }

    /// When a purchase last entered anybody's ledger.
    func lastRecorded(_ purchase: Purchase) -> LogicalTime {
        let times = (recordings[purchase.transaction] ?? []).map(\.logicalTime)
        return max(times.max() ?? purchase.stamp.logicalTime, purchase.stamp.logicalTime)
    }
}

/// The two marks that a product can have, side by side, for a ``FlagRule`` to decide between.
public struct FlagMarks: Hashable, Sendable {
    /// A product in an environment.
    public struct Reference: Hashable, Comparable, Sendable {
        /// The product.
        public var product: ProductID
        /// The environment.
        public var environment: EnvironmentID

        /// The marks of `product` in `environment`.
        public init(_ product: ProductID, _ environment: EnvironmentID = .production) {
            self.product = product
            self.environment = environment
        }

        /// By product, then environment.
        public static func < (left: Reference, right: Reference) -> Bool {
            (left.product, left.environment) < (right.product, right.environment)
        }
    }

    /// The mark that sets, if there is one.
    public var set: Flag?
    /// The mark that clears, if there is one.
    public var cleared: Flag?
    /// The mark that sets, if the remote held it when it was last met.
    public var setAtRemote: Flag?
    /// The mark that clears, if the remote held it when it was last met.
    public var clearedAtRemote: Flag?

    /// No marks.
    public init() {}

    mutating func add(_ flag: Flag, isHeld: Bool) {
        if flag.isSet { set = flag } else { cleared = flag }
        if isHeld { noteRemote(flag) }
    }

    mutating func noteRemote(_ flag: Flag) {
        if flag.isSet { setAtRemote = flag } else { clearedAtRemote = flag }
    }

    /// The later mark of both, if there is one.
    public var latest: Flag? { Self.later(set, cleared) }

    /// The later of two marks: by logical time, then by replica, as merging orders them.
    static func later(_ left: Flag?, _ right: Flag?) -> Flag? {
        guard let left else { return right }
        guard let right else { return left }
        return (left.logicalTime, left.replica) < (right.logicalTime, right.replica) ? right : left
    }

    /// The marks that were made after a reset.
    func after(_ time: LogicalTime) -> FlagMarks {
        var marks = self
        for path in [\FlagMarks.set, \.cleared, \.setAtRemote, \.clearedAtRemote] {
            if let mark = marks[keyPath: path], mark.logicalTime <= time { marks[keyPath: path] = nil }
        }
        return marks
    }
}
