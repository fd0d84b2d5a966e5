/// The facts of an account's ledgers, decoded once and indexed for replay.
///
/// Create a value with ``init(account:device:server:remote:)``, then derive states from it with ``Replay``.
public struct Facts: Sendable {
    /// All purchases, by ascending (date, transaction). If the account's server counts a purchase as of another date,
    /// ``Purchase/date`` is that other date; see ``statedDate(of:)``.
    ///
    /// A purchase of the App Store that was restored on another device has several transactions. It is listed once,
    /// as its strongest statement describes it.
    public private(set) var purchases: [Purchase] = []
    /// The recordings of each purchase, one per replica.
    public private(set) var recordings: [TransactionReference: [Recording]] = [:]
    /// The strongest revocation or reinstatement of each transaction, including transactions whose purchase is
    /// unknown. ``revocation(of:)`` returns the revocation that takes effect.
    public private(set) var revocations: [TransactionReference: Revocation] = [:]
    /// The renewal states of auto-renewable subscriptions, by the first transaction of the subscription.
    public private(set) var renewalStates: [TransactionReference: RenewalState] = [:]
    /// Assertions of expiry dates, by ascending (``Assertion/assertedAt``, reference).
    public private(set) var assertions: [Assertion] = []
    /// The marks of each product in each environment.
    public private(set) var flags: [FlagMarks.Reference: FlagMarks] = [:]
    /// All spends, by ascending (logical time, id).
    public private(set) var spends: [Spend] = []
    /// The claim of the account that adopted this anonymous ledger; `nil` if there is none.
    public private(set) var claim: Claim?
    /// The policy of the account's server.
    public private(set) var policy = TrustPolicy.trusted
    /// The decisions of the account's server about purchases.
    public private(set) var acceptances: [TransactionReference: Acceptance] = [:]
    /// Requests for approval, including withdrawn ones.
    public private(set) var pending: [ProductID: PendingPurchase] = [:]
    /// Transactions for which this device saw two different statements.
    public private(set) var contradictions: [Contradiction] = []
    /// The latest reset of each test environment.
    public private(set) var resets: [EnvironmentID: EnvironmentReset] = [:]
    /// Records without effect, because this version cannot read them, or because only the account's server may make
    /// the statement.
    public private(set) var unreadable: [Fact] = []
    /// The latest logical time of all facts. The next fact must have a later one.
    public private(set) var latestTime = LogicalTime.zero

    /// Statements of clients that have no effect under the policy `verified`. Purchases are not among them.
    private(set) var unverified: [Fact] = []
    /// The purchases that the account's server or this device has verified.
    private var verifiedPurchases: Set<TransactionReference> = []
    /// Acceptances from ledgers that the server does not write. They were written by a client and have no effect.
    private(set) var misplacedAcceptances: [TransactionReference: Acceptance] = [:]
    /// The server's refusals of evidence that this device sent, from its device ledger. They only name the reason of a
    /// denial.
    private(set) var evidenceRefusals: [TransactionReference: Acceptance] = [:]
    /// The purchases with several transactions, by each of them.
    private(set) var copies: [TransactionReference: PurchaseCopies] = [:]
    /// The statements about ``copies`` as they were recorded, with their stated dates.
    private var statements: [TransactionReference: Purchase] = [:]
    /// The transactions among ``copies`` whose status the server or this device has verified.
    private(set) var verifiedStatuses: Set<TransactionReference> = []
    private var purchaseIndex: [TransactionReference: Int] = [:]
    private var purchaseIndices: [ProductID: [Int]] = [:]
    private var spendIndices: [ProductID: [Int]] = [:]
    /// The original dates of the purchases that the server counts as of another date.
    private var statedDates: [TransactionReference: Timestamp] = [:]
    private var devicePurchases: Set<TransactionReference> = []
    private var deviceSpends: Set<SpendID> = []
    /// The keys of the records that the remote held; `nil` if every record counts as held.
    private var confirmedKeys: Set<[UInt8]>?
    private var read = Source()

    /// Reads the facts of an account.
    ///
    /// Records that cannot be read are kept in ``unreadable``; reading never fails.
    ///
    /// - Parameters:
    ///   - account: The account's ledger.
    ///   - device: The ledger that stays on this device.
    ///   - server: The ledger that only the account's server writes.
    ///   - remote: The ledger that the remote held at the last contact, for rules with
    ///     ``ConflictRule/dependsOnRemote``. If `nil`, every fact counts as held by the remote.
    /// - Complexity: O(*n* log *n*) in the number of records.
    public init(
        account: Ledger, device: Ledger = Ledger(), server: Ledger = Ledger(), remote: Ledger? = nil
    ) {
        let serverFacts = Array(DecodedFacts(server))
        let deviceFacts = Array(DecodedFacts(device))
        var known = account.joined(with: device)
        var verified = Ledger(server.records.filter { FactKey.overrides($0.key) })
        let evidence = Self.proven(by: deviceFacts, knowing: verified)
        // Under `verified`, a record of a client must not prevail over what this device has verified.
        if serverFacts.contains(where: \.statesVerified) {
            verified = verified.joined(with: evidence)
        } else {
            known = known.joined(with: evidence)
            // About a subject of the server ledger, the later signature counts.
            let stated = Set(verified.records.map(\.key))
            verified = verified.joined(with: Ledger(evidence.records.filter { stated.contains($0.key) }))
        }
        self.init(
            DecodedFacts(known.difference(from: verified).added), recordingCount: known.recordingCount,
            device: deviceFacts, server: serverFacts, verified: DecodedFacts(verified), remote: remote)
        confirmedKeys?.formUnion(verified.records.map(\.key))
        read = Source(
            account: account, device: device, server: server, remote: remote, known: known, verified: verified)
    }

    /// Returns the facts that the waiting evidence of a device ledger proves.
    ///
    /// Evidence states no terms. A purchase that the server knows keeps the server's, because the catalogue of an older
    /// app may lack its product.
    private static func proven(by device: [Fact], knowing server: Ledger) -> Ledger {
        device.reduce(Ledger()) { proven, fact in
            guard case .evidence(let evidence) = fact else { return proven }
            let records = evidence.facts.records.map { record in
                guard let held = server[record.key]?.purchase, var stated = record.purchase, stated.terms == nil,
                    stated.product == held.product
                else { return record }
                stated.terms = held.terms
                return Fact.purchase(stated).record
            }
            return proven.joined(with: Ledger(records))
        }
    }

    /// Creates a value from decoded facts, one per key.
    ///
    /// - Parameters:
    ///   - known: The facts of the account's and the device's ledgers, except those that `verified` overrides.
    ///   - recordingCount: The number of recordings in `known`, to reserve memory.
    ///   - device: The facts of the device's ledger.
    ///   - server: The facts of the server's ledger.
    ///   - verified: The facts that the server or this device has verified.
    ///   - remote: The ledger that the remote held at the last contact.
    init(
        _ known: some Sequence<Fact>, recordingCount: Int = 0, device: [Fact] = [], server: [Fact] = [],
        verified: some Sequence<Fact> = EmptyCollection(), remote: Ledger? = nil
    ) {
        confirmedKeys = remote.map { Set($0.records.map(\.key)) }
        recordings.reserveCapacity(recordingCount)
        for fact in server {
            latestTime = max(latestTime, fact.logicalTime)
            switch fact {
            case .acceptance(let acceptance): acceptances[acceptance.transaction] = acceptance
            case .policy(let statement): policy = statement.policy
            default: break
            }
        }
        var statuses: [TransactionReference] = []
        for fact in verified {
            switch fact {
            case .purchase(let purchase): verifiedPurchases.insert(purchase.transaction)
            case .revocation(let revocation): statuses.append(revocation.transaction)
            default: break
            }
            add(fact)
        }
        let verifiedCount = purchases.count
        for fact in known { addUnverified(fact) }
        for fact in device { addOnDevice(fact) }
        for record in remote?.records ?? [] where FactKey.isFlag(record.key) { addRemote(Fact(record)) }
        uniteCopies(verifiedCount: verifiedCount)
        if !copies.isEmpty { verifiedStatuses = Set(statuses.filter { copies[$0] != nil }) }
        arrange()
    }

    /// Merges the statements about each purchase into one.
    private mutating func uniteCopies(verifiedCount: Int) {
        let groups = CopyFinder.groups(of: purchases, verifiedCount: verifiedCount, statedDate: statedDate)
        for group in groups {
            let statements = group.map { index in
                var purchase = purchases[index]
                purchase.date = statedDate(of: purchase)
                return purchase
            }
            // Verified statements come first. Beside them, those of clients have no effect.
            let isVerified = group[0] < verifiedCount
            let counting = isVerified ? statements.filter(self.isVerified) : statements
            guard var strongest = counting.max(by: { $0.isWeaker(than: $1) }) else { continue }
            var united = PurchaseCopies(of: statements, counting: counting, by: strongest, acceptances)
            let named = counting.filter { $0.terms != nil }.max { $0.isWeaker(than: $1) }
            strongest.terms = strongest.terms ?? named?.terms
            strongest.start(atEarliestOf: counting.map(\.date))
            if case .countsAsOf(let date)? = united.decision?.decision, date < strongest.date {
                (strongest.date, united.termsStart) = (date, date)
            }
            for statement in statements {
                copies[statement.transaction] = united
                self.statements[statement.transaction] = statement
            }
            purchases[group[0]] = strongest
        }
        guard !groups.isEmpty else { return }
        let dropped = Set(groups.flatMap { $0.dropFirst() })
        purchases = purchases.indices.filter { !dropped.contains($0) }.map { purchases[$0] }
    }

    /// Sorts and indexes purchases, spends and assertions. All but those that were appended last are in order.
    private mutating func arrange(purchasesFrom purchase: Int = 0, spendsFrom spend: Int = 0) {
        let purchaseStart = purchases.sort(from: purchase, by: \.date) { $0.transaction < $1.transaction }
        let spendStart = spends.sort(from: spend, by: \.logicalTime) { $0.id < $1.id }
        assertions.sort { ($0.assertedAt, $0.reference) < ($1.assertedAt, $1.reference) }
        if purchaseStart < purchase { purchaseIndices = [:] }
        if spendStart < spend { spendIndices = [:] }
        purchaseIndex.reserveCapacity(purchases.count)
        // Without an index, a ledger with many products would need a scan of all facts for each product.
        purchases.withUnsafeBufferPointer { purchases in
            for index in purchases.indices[purchaseStart...] {
                purchaseIndex[purchases[index].transaction] = index
                purchaseIndices[purchases[index].product, default: []].append(index)
            }
        }
        spends.withUnsafeBufferPointer { spends in
            for index in spends.indices[spendStart...] {
                spendIndices[spends[index].product, default: []].append(index)
            }
        }
    }

    /// Adds a fact that a client wrote.
    private mutating func addUnverified(_ fact: consuming Fact) {
        guard policy == .verified, fact.grantsWithoutPurchase else { return add(fact) }
        latestTime = max(latestTime, fact.logicalTime)
        unverified.append(fact)
    }

    private mutating func add(_ fact: consuming Fact) {
        latestTime = max(latestTime, fact.logicalTime)
        switch consume fact {
        case .purchase(let purchase): add(purchase)
        case .recording(let recording): recordings[recording.transaction, default: []].insert(recording)
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
            unreadable.append(.acceptance(acceptance))
        case .evidence: break  // Its facts are read separately.
        case .reset(let reset): unreadable.append(.reset(reset))
        case .policy(let statement): unreadable.append(.policy(statement))
        case .unreadable(let record, let reason): unreadable.append(.unreadable(record, reason: reason))
        }
    }

    private mutating func add(_ purchase: __owned Purchase) {
        purchases.append(purchase)
        if case .countsAsOf(let date)? = acceptances[purchase.transaction]?.decision {
            statedDates[purchase.transaction] = purchase.date
            purchases[purchases.count - 1].date = date
        }
    }

    private mutating func add(_ flag: Flag) {
        flags[FlagMarks.Reference(flag.product, flag.environment), default: FlagMarks()]
            .add(flag, isHeld: confirmedKeys == nil)
    }

    /// Records a mark that the remote held. This replica may have made a later mark since then.
    private mutating func addRemote(_ fact: Fact) {
        guard case .flag(let flag) = fact else { return }
        flags[FlagMarks.Reference(flag.product, flag.environment), default: FlagMarks()].addRemote(flag)
    }

    private mutating func addOnDevice(_ fact: Fact) {
        switch fact {
        case .purchase(let purchase): devicePurchases.insert(purchase.transaction)
        case .spend(let spend): deviceSpends.insert(spend.id)
        case .acceptance(let refusal): evidenceRefusals[refusal.transaction] = refusal
        default: break
        }
    }

    /// Returns a copy with a hypothetical purchase added, for a preview.
    func adding(_ purchase: Purchase, _ recording: Recording) -> Facts {
        var facts = self
        facts.recordings[purchase.transaction] = [recording]
        facts.confirmedKeys?.insert(FactKey.purchase(purchase.transaction).bytes)
        let count = facts.purchases.count
        facts.purchases.append(purchase)
        facts.arrange(purchasesFrom: count, spendsFrom: facts.spends.count)
        return facts
    }

    /// Returns `true` if the account's server or this device has verified this purchase.
    package func isVerified(_ purchase: Purchase) -> Bool { verifiedPurchases.contains(purchase.transaction) }

    /// Returns `true` if the device's own ledger holds this purchase.
    package func isOnDevice(_ purchase: Purchase) -> Bool {
        transactions(of: purchase).contains(where: devicePurchases.contains)
    }

    /// Returns `true` if the device's own ledger holds this spend.
    package func isOnDevice(_ spend: Spend) -> Bool { deviceSpends.contains(spend.id) }

    /// The purchase with this transaction; `nil` if it is unknown.
    ///
    /// If the purchase has several transactions, this is the statement about this one, as it was recorded.
    public subscript(transaction: TransactionReference) -> Purchase? {
        statements[transaction] ?? purchaseIndex[transaction].map { purchases[$0] }
    }

    /// Returns the position of a purchase in ``purchases``; `nil` if it is unknown.
    package func index(of transaction: TransactionReference) -> Int? {
        purchaseIndex[listed(transaction)]
    }

    /// Returns the purchases of `product`, by ascending (date, transaction).
    func purchases(of product: ProductID) -> [Purchase] { (purchaseIndices[product] ?? []).map { purchases[$0] } }

    /// Returns the spends of `product`, by ascending (logical time, id).
    func spends(of product: ProductID) -> [Spend] { (spendIndices[product] ?? []).map { spends[$0] } }

    /// Returns the original date of a purchase.
    ///
    /// It differs from ``Purchase/date`` if the account's server counts the purchase as of another date, or if a
    /// statement about another transaction of the purchase has an earlier one.
    public func statedDate(of purchase: Purchase) -> Timestamp {
        statements[purchase.transaction]?.date ?? statedDates[purchase.transaction] ?? purchase.date
    }

    /// Returns the revocation of `purchase` that takes effect, under any of its transactions.
    ///
    /// - Returns: `nil` if there is no revocation, if it was reversed, if it precedes a reset of its environment, or
    ///   if it is unsigned while a store signed the purchase.
    public func revocation(of purchase: Purchase) -> Revocation? {
        effectiveStatus(of: purchase).flatMap { $0.revokedAt == nil ? nil : $0 }
    }

    /// Returns the status of `purchase` that takes effect.
    func effectiveStatus(of purchase: Purchase) -> Revocation? {
        guard let status = status(of: purchase),
            !precedesReset(status.stamp.logicalTime, in: status.transaction.environment), !isOverruled(status)
        else { return nil }
        return status
    }

    /// Returns the renewal state that takes effect for the subscription of `purchase`.
    ///
    /// - Returns: `nil` if there is none, if it precedes a reset of its environment, or if it is unsigned while a store
    ///   signed the purchase.
    func renewalState(of purchase: Purchase) -> RenewalState? {
        guard let state = renewalStates[purchase.line],
            !precedesReset(state.stamp.logicalTime, in: state.line.environment),
            state.stamp.signedDate != nil || purchase.stamp.signedDate == nil
        else { return nil }
        return state
    }

    /// Returns `true` if the revocation has no effect because it is unsigned while a store signed the purchase.
    func isOverruled(_ revocation: Revocation) -> Bool {
        guard revocation.stamp.signedDate == nil else { return false }
        return copies[revocation.transaction]?.isSigned ?? (self[revocation.transaction]?.stamp.signedDate != nil)
    }

    /// Returns the revocation of `purchase` that only the server ledger states, if only a client stated the purchase.
    func revocationByServer(of purchase: Purchase) -> Revocation? {
        guard !isVerified(purchase), let revocation = revocation(of: purchase) else { return nil }
        let key = FactKey.revocation(revocation.transaction).bytes
        guard read.server[key] != nil, read.account[key] == nil, read.device[key] == nil else { return nil }
        return revocation
    }

    /// The statements of clients that the server ledger contradicts, each with its replacement.
    var replaced: [(stated: Fact, replacement: Fact)] {
        read.server.records.filter { FactKey.overrides($0.key) }.compactMap { record in
            // A statement that this device verified later takes precedence over the server ledger.
            guard let held = read.account[record.key] ?? read.device[record.key], held.payload != record.payload,
                read.verified[record.key] == record
            else { return nil }
            let (stated, replacement) = (Fact(held), Fact(record))
            return stated.contradicts(replacement) ? (stated, replacement) : nil
        }
    }

    /// Returns the date on which `purchase` was revoked; `nil` if no revocation takes effect.
    package func revocationDate(of purchase: Purchase) -> Timestamp? { revocation(of: purchase)?.revokedAt }

    /// Returns `true` if the remote held this purchase at the last contact, or if the remote's state is not tracked.
    func isConfirmed(_ purchase: Purchase) -> Bool {
        guard let confirmedKeys else { return true }
        return transactions(of: purchase).contains { confirmedKeys.contains(FactKey.purchase($0).bytes) }
    }

    /// Returns `true` if the remote held this fact at the last contact, or if the remote's state is not tracked.
    func isConfirmed(_ fact: Fact) -> Bool { confirmedKeys?.contains(fact.record.key) ?? true }

    /// Returns `true` if a fact with this logical time was recorded before its environment was reset.
    func precedesReset(_ time: LogicalTime, in environment: EnvironmentID) -> Bool {
        resets[environment].map { time <= $0.logicalTime } ?? false
    }

    /// Returns the logical time at which any replica first recorded the purchase.
    ///
    /// Units become available at this time. If another device records the purchase again later, spends that already
    /// used the units keep them. The units of a verified purchase become available at its date, because its store may
    /// sign it again at any time.
    func firstRecorded(_ purchase: Purchase) -> LogicalTime {
        var times = recordings(of: purchase).map(\.logicalTime)
        if isVerified(purchase) { times.append(LogicalTime.zero.next(at: purchase.date)) }
        times.append(copies[purchase.transaction]?.times.lowerBound ?? purchase.stamp.logicalTime)
        return times.min() ?? purchase.stamp.logicalTime
    }

    /// Returns the logical time at which any replica last recorded the purchase.
    func lastRecorded(_ purchase: Purchase) -> LogicalTime {
        let times = transactions(of: purchase).flatMap { recordings[$0] ?? [] }.map(\.logicalTime)
        let stated = copies[purchase.transaction]?.times.upperBound ?? purchase.stamp.logicalTime
        return max(times.max() ?? stated, stated)
    }
}

extension Fact {
    /// True if the fact states that the account's server has the policy ``TrustPolicy/verified``.
    fileprivate var statesVerified: Bool {
        if case .policy(let statement) = self { statement.policy == .verified } else { false }
    }

    /// True if the fact can grant or prolong access without a purchase of its own.
    fileprivate var grantsWithoutPurchase: Bool {
        switch self {
        case .flag(let flag): flag.isSet
        case .revocation(let revocation): revocation.revokedAt == nil
        case .assertion, .renewalState: true
        default: false
        }
    }
}

extension Facts {
    /// The ledgers that were read.
    fileprivate struct Source: Hashable {
        var account = Ledger()
        var device = Ledger()
        var server = Ledger()
        var remote: Ledger?
        /// The union of the account's and the device's facts.
        var known = Ledger()
        /// The records that override those of `known`.
        var verified = Ledger()
    }

    /// Returns the facts of later ledgers of the same account. Equal to reading them anew.
    ///
    /// Decodes only the records that are new, if the ledgers have only gained records of clients. Other changes are
    /// rare, for example a decision of the server or a replaced flag; then all records are decoded.
    ///
    /// - Parameters:
    ///   - account: The account's ledger.
    ///   - device: The ledger that stays on this device.
    ///   - server: The ledger that only the account's server writes.
    ///   - remote: The ledger that the remote held at the last contact.
    public func advanced(
        account: Ledger, device: Ledger = Ledger(), server: Ledger = Ledger(), remote: Ledger? = nil
    ) -> Facts {
        advance(account: account, device: device, server: server, remote: remote)?.facts
            ?? Facts(account: account, device: device, server: server, remote: remote)
    }

    /// The facts of later ledgers.
    struct Advance {
        var facts: Facts
        /// The facts that were decoded.
        var decoded: [Fact]
    }

    /// Returns the facts of later ledgers; `nil` if they must be read anew, or nothing was read before.
    func advance(account: Ledger, device: Ledger, server: Ledger, remote: Ledger?) -> Advance? {
        let isErased = [account, device, read.known].contains(where: \.isErased)
        guard !isErased, !read.known.isEmpty, server == read.server, remote == read.remote else { return nil }
        let accountGain = account.difference(from: read.account)
        let deviceGain = device.difference(from: read.device)
        // The device's ledger may gain what the account's ledger held already, and the reverse.
        let gain = accountGain.added.joined(with: deviceGain.added).difference(from: read.known)
        guard accountGain.isGain, deviceGain.isGain, gain.changedCount == 0 else { return nil }
        let known = DecodedFacts(gain.added.difference(from: read.verified).added)
        let onDevice = Array(DecodedFacts(deviceGain.added))
        var next = Advance(facts: self, decoded: onDevice)
        for fact in known {
            guard !fact.dependsOnOrder, policy == .trusted || !fact.grantsWithoutPurchase else { return nil }
            next.decoded.append(fact)
            next.facts.add(fact)
        }
        guard !next.facts.mayHaveCopies(from: purchases.count) else { return nil }
        for fact in onDevice {
            if case .evidence = fact { return nil }
            next.facts.addOnDevice(fact)
        }
        next.facts.arrange(purchasesFrom: purchases.count, spendsFrom: spends.count)
        next.facts.read.account = account
        next.facts.read.device = device
        next.facts.read.known = read.known.joined(with: gain.added)
        return next
    }

    /// Returns `true` if one of the purchases that were appended at `start` may be a copy of another one.
    private func mayHaveCopies(from start: Int) -> Bool {
        var sought = SoughtIdentities()
        for purchase in purchases[start...] {
            if !sought.insert(purchase, statedDate: statedDate(of: purchase)) { return true }
        }
        func isKnown(_ purchase: Purchase) -> Bool {
            sought.contains(purchase, statedDate: statedDate(of: purchase))
        }
        return purchases[..<start].contains(where: isKnown) || statements.values.contains(where: isKnown)
    }
}

extension Fact {
    /// True if the fact is kept in the order of the records' keys, or affects how others are read.
    fileprivate var dependsOnOrder: Bool {
        switch self {
        case .contradiction, .acceptance, .policy, .evidence, .unreadable: true
        case .reset(let reset): reset.environment == .production
        default: false
        }
    }
}

extension [Recording] {
    /// Inserts a recording in ascending order of replica, in which ledgers hold the recordings of a purchase.
    fileprivate mutating func insert(_ recording: Recording) {
        let place = lastIndex { $0.replica < recording.replica }.map { $0 + 1 } ?? 0
        insert(recording, at: place)
    }
}
