import Entitlements

/// The recording of reported items in the ledger of their account, one after the other. Pure.
struct ReportedRecording: Sendable {
    /// The result of an item, and the transaction of a reported purchase.
    typealias Outcome = (result: EvidenceResult, transaction: TransactionReference?)

    private let catalog: Catalog
    private let policy: TrustPolicy
    private let server: Ledger
    private let now: Timestamp
    private var account: Ledger
    private var replay: Replay
    /// The facts that the account's ledger lacks.
    private(set) var facts: [Fact] = []
    /// One outcome for each item, in order.
    private(set) var outcomes: [Outcome] = []
    /// The cost of the replays after the first one, in reads.
    private(set) var cost = 0
    private var replayedByteCount = 0

    /// The number of bytes that one request may have replayed. A ledger of 320 KiB has room for 100 items, the longest
    /// one for 8.
    private static let replayedByteLimit = 32 << 20
    /// True if the items need more replays than one request may have.
    var isTooLong: Bool { replayedByteCount > Self.replayedByteLimit }

    /// Begins with the ledgers as they are stored.
    ///
    /// - Parameter policy: The policy of the server.
    init(account: Ledger, server: Ledger, catalog: Catalog, policy: TrustPolicy, now: Timestamp) {
        (self.account, self.server, self.catalog, self.policy, self.now) = (account, server, catalog, policy, now)
        replay = Replay(Facts(account: account, server: server), catalog: catalog)
    }

    /// Applies an item. One that cannot be recorded changes nothing.
    mutating func add(_ item: Result<ReportedItem, RecordingError>) {
        guard !isTooLong else { return }
        do throws(RecordingError) { outcomes.append(try outcome(of: try item.get())) } catch {
            outcomes.append((.failed(error), nil))
        }
    }

    private mutating func outcome(of item: ReportedItem) throws(RecordingError) -> Outcome {
        guard policy == .trusted || !item.mayGrant else { return (.evidenceRequired, nil) }
        switch item {
        case .evidence(let evidence):
            // An item has the id of its transaction.
            var plan = RecordingPlan(catalog: catalog, environment: .production) { "" }
            plan.hasDeviceLedger = false
            try plan.add(evidence)
            try plan.checkAgreement(with: replay.facts)
            plan.settle(in: replay.facts)
            let ledgers = DeviceLedgers(account: account, device: Ledger(), server: server, replay: replay)
            let new = try plan.facts(for: .account, in: ledgers, replica: .server, now: now)
            return (.facts(try keep(new), others: []), plan.transactions.first)
        case .spend(let entitlement, let id):
            switch try replay.use(entitlement, id: id, at: now) {
            case .spends(let product, _):
                let new = try keep([replay.spend(product, id: id, by: .server, at: now)])
                return (.spent(new, remaining: replay.balance(of: product, at: now)), nil)
            case .isSpent(_, let remaining): return (.spent([], remaining: remaining), nil)
            case .granted: return (.facts([], others: []), nil)
            case .denied(let denial): return (.noneLeft(entitlement, denial), nil)
            }
        }
    }

    /// Adds facts to the ledger, and returns them.
    private mutating func keep(_ new: [Fact]) throws(RecordingError) -> [Fact] {
        guard let ledger = try account.adding(new) else { return [] }
        // A replay continues with new records, but starts again if one was replaced.
        let continues = new.allSatisfy { account[$0.record.key] == nil }
        let byteCount = ledger.byteCount + server.byteCount
        cost += byteCount >> (continues ? RequestLimiter.decodingShift : RequestLimiter.replayShift)
        replayedByteCount += byteCount
        account = ledger
        facts += new
        replay = replay.advanced(account: account, device: Ledger(), server: server, remote: nil)
        return new
    }
}
