/// The facts of a ledger, read once and arranged for replay.
public struct Facts: Sendable {
    /// Purchases by (date, key).
    public private(set) var purchases: [Purchase] = []
    /// Who recorded a purchase, by replica.
    public private(set) var recordings: [TransactionReference: [Recording]] = [:]
    /// The revocation of each revoked purchase, whether that is known or not.
    public private(set) var revocations: [TransactionReference: Revocation] = [:]
    /// The set mark of each product that has one.
    public private(set) var flagsSet: [ProductID: Flag] = [:]
    /// The cleared mark of each product that has one.
    public private(set) var flagsCleared: [ProductID: Flag] = [:]
    /// Spends by (logical time, key).
    public private(set) var spends: [Spend] = []
    /// Requests for approval, withdrawn ones included.
    public private(set) var pending: [ProductID: PendingPurchase] = [:]
    /// Records that this version cannot read.
    public private(set) var unreadable: [Fact] = []
    /// The latest logical time of any fact: the next fact comes after it.
    public private(set) var latestTime = LogicalTime.zero

    private var heldPurchases: Set<TransactionReference> = []
    private var heldSpends: Set<SpendID> = []

    /// The facts of an account's ledger, and of the ledger that one device keeps to itself.
    public init(account: Ledger, device: Ledger = Ledger()) {
        for record in account.joined(with: device).records { add(Fact(record)) }
        for record in device.records { noteDevice(Fact(record)) }
        let keyOrder: (Purchase, Purchase) -> Bool = { left, right in
            left.date != right.date ? left.date < right.date : left.transaction < right.transaction
        }
        purchases.sort(by: keyOrder)
        spends.sort { ($0.logicalTime, $0.id) < ($1.logicalTime, $1.id) }
    }

    private mutating func add(_ fact: Fact) {
        latestTime = max(latestTime, fact.logicalTime)
        switch fact {
        case .purchase(let purchase): purchases.append(purchase)
        case .recording(let recording): recordings[recording.transaction, default: []].append(recording)
        case .revocation(let revocation): revocations[revocation.transaction] = revocation
        case .flag(let flag): if flag.isSet { flagsSet[flag.product] = flag } else { flagsCleared[flag.product] = flag }
        case .spend(let spend): spends.append(spend)
        case .pending(let request): pending[request.product] = request
        case .unreadable: unreadable.append(fact)
        }
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
        let index = facts.purchases.firstIndex { other in
            other.date != purchase.date ? other.date > purchase.date : other.transaction > purchase.transaction
        }
        facts.purchases.insert(purchase, at: index ?? facts.purchases.endIndex)
        return facts
    }

    /// Whether the device's own ledger holds this purchase.
    public func isOnDevice(_ purchase: Purchase) -> Bool { heldPurchases.contains(purchase.transaction) }

    /// Whether the device's own ledger holds this spend.
    public func isOnDevice(_ spend: Spend) -> Bool { heldSpends.contains(spend.id) }

    /// The purchase of this transaction, if it is known.
    public subscript(transaction: TransactionReference) -> Purchase? {
        purchases.first { $0.transaction == transaction }
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
