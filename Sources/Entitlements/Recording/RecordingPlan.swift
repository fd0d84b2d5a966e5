/// Checked evidence, to be turned into facts for the current contents of a device's ledgers. Pure.
package struct RecordingPlan: Sendable {
    private struct Sale: Sendable {
        let transaction: TransactionReference
        let report: ReportedPurchase
        /// `nil` if a store sold a product that the catalogue does not contain.
        let terms: Terms?
        let target: DeviceLedgers.Target
    }

    let catalog: Catalog
    let environment: EnvironmentID
    private let randomID: @Sendable () -> String
    private var sales: [Sale] = []
    private var positions: [TransactionReference: Int] = [:]
    private var requests: [(product: ProductID, isWithdrawn: Bool)] = []
    var statements: [Statement] = []
    /// Evidence that was verified on this device.
    package var verified: [VerifiedStatement] = []
    /// True if evidence is kept even if the server has stated the same, because it may move a purchase here.
    package var isRestore = false
    /// True if a server can receive evidence.
    package var hasReceiver = true
    /// True if the plan only completes the recording of evidence that is kept already.
    package var isCompletion = false
    /// False at a server, which has no ledger of a device. Requests then go to the account's ledger, and units that
    /// would stay on a device are refused.
    package var hasDeviceLedger = true

    /// Creates an empty plan.
    ///
    /// - Parameters:
    ///   - catalog: The products for sale.
    ///   - environment: The environment of evidence that names none.
    ///   - randomID: Returns a new id for a purchase without one.
    package init(catalog: Catalog, environment: EnvironmentID, randomID: @escaping @Sendable () -> String) {
        self.environment = environment
        self.catalog = catalog
        self.randomID = randomID
    }

    /// The transactions of all purchases, in the order of insertion.
    package var transactions: [TransactionReference] { sales.map(\.transaction) + verified.flatMap(\.transactions) }

    /// Returns `true` if the plan may have to write to `target`.
    package func concerns(_ target: DeviceLedgers.Target) -> Bool {
        sales.contains { $0.target == target } || (target == requestTarget && !requests.isEmpty)
            || statements.contains { $0.target == target } || hasEvidence(for: target)
    }

    private var requestTarget: DeviceLedgers.Target { hasDeviceLedger ? .device : .account }

    package mutating func add(_ evidence: Evidence) throws(RecordingError) {
        switch evidence.content {
        case .reported(let report): try add(report)
        case .deferred(let product): try add(request: product, isWithdrawn: false)
        case .withdrawn(let product): try add(request: product, isWithdrawn: true)
        case .revocation, .renewalState, .assertion, .flag: try add(statement: evidence.content)
        case .verified(let statement): try add(statement)
        }
    }

    private mutating func add(request product: ProductID, isWithdrawn: Bool) throws(RecordingError) {
        guard catalog[product: product] != nil else { throw .unknown(product) }
        // The last request for a product counts.
        requests.removeAll { $0.product == product }
        requests.append((product, isWithdrawn))
    }

    private mutating func add(_ report: ReportedPurchase) throws(RecordingError) {
        let terms = catalog.terms(of: report.product)
        // A store may sell products that this version of the app does not know. An app that reports an unknown product
        // has made a mistake.
        guard terms != nil || report.store != .reported else { throw .unknown(report.product) }
        do { try report.product.validate() } catch { throw RecordingError(.invalid, "product: \(error)") }
        guard Purchase.quantityRange.contains(report.quantity) else {
            throw RecordingError(.invalid, "quantity must be 1 to 10,000, not \(report.quantity)")
        }
        let id = report.transaction ?? TransactionID(randomID())
        let transaction = TransactionReference(
            store: report.store, environment: report.environment ?? environment, id: id)
        try Self.check(transaction)
        if let original = report.original {
            do { try original.validate() } catch { throw RecordingError(.invalid, "original transaction: \(error)") }
        }
        let isUnits = if case .consumable? = terms?.kind { true } else { false }
        let staysHere = isUnits && catalog.policy.rules.consumables == .deviceLocal
        guard hasDeviceLedger || !staysHere else {
            throw RecordingError(
                .invalid,
                "the units of \"\(report.product)\" stay on the device that bought them; the account can have them "
                    + "if the catalogue's policy has \"consumables\": \"shared\"")
        }
        if let earlier = positions[transaction].map({ sales[$0] }) {
            guard earlier.report.hasSameContents(as: report) else {
                throw .contradiction(transaction, "earlier in the same input")
            }
            return
        }
        // The purchase fulfils a pending request.
        requests.removeAll { $0.product == report.product }
        positions[transaction] = sales.count
        sales.append(
            Sale(transaction: transaction, report: report, terms: terms, target: staysHere ? .device : .account))
    }

    /// The latest signature date of all purchases and statements in production. The clocks of test environments are not
    /// reliable.
    package var latestSignature: Timestamp? {
        let sold = sales.filter { $0.transaction.environment == .production }
        let evidence = verified.filter { $0.facts.contains { $0.purchase?.transaction.environment == .production } }
        return
            (sold.compactMap(\.report.signedAt) + statements.compactMap(\.signedAt)
            + evidence.compactMap(\.evidence.stamp.signedDate)).max()
    }

    /// Returns the ledger that a purchase of this plan goes to.
    func target(ofSale transaction: TransactionReference) -> DeviceLedgers.Target? {
        positions[transaction].map { sales[$0].target }
    }

    /// The product and the terms of a purchase in this plan; `nil` if the plan does not contain it.
    func sale(of transaction: TransactionReference) -> (ProductID, Terms?)? {
        positions[transaction].map { (sales[$0].report.product, sales[$0].terms) }
    }

    static func check(_ transaction: TransactionReference) throws(RecordingError) {
        do {
            try transaction.store.validate()
            try transaction.environment.validate()
            try transaction.id.validate()
        } catch {
            throw RecordingError(.invalid, "transaction: \(error)")
        }
    }

    /// Checks that all purchases agree with the known facts, whichever ledger they go to.
    package func checkAgreement(with facts: Facts) throws(RecordingError) {
        for sale in sales {
            guard let known = facts[sale.transaction] else { continue }
            try sale.report.checkAgreement(with: known, statedDate: facts.statedDate(of: known))
        }
    }

    /// Returns the facts that `target` lacks.
    package func facts(for target: DeviceLedgers.Target, in ledgers: DeviceLedgers, replica: ReplicaID, now: Timestamp)
        throws(RecordingError) -> [Fact]
    {
        var facts: [Fact] = []
        var time = ledgers.facts.latestTime
        var knownEnds = KnownEnds(replay: ledgers.replay)
        for sale in sales where sale.target == target {
            let known = ledgers.facts[sale.transaction]
            if let known {
                try sale.report.checkAgreement(with: known, statedDate: ledgers.facts.statedDate(of: known))
            }
            let recordings = ledgers.facts.recordings[sale.transaction] ?? []
            let isStronger = sale.report.isStronger(than: known)
            if !isStronger, recordings.contains(where: { $0.replica == replica }) { continue }
            time = time.next(at: now)
            let purchase = Purchase(
                transaction: sale.transaction, product: sale.report.product, terms: known?.terms ?? sale.terms,
                date: sale.report.date ?? known.map(ledgers.facts.statedDate(of:)) ?? now,
                quantity: sale.report.quantity, originalID: sale.report.original, storeExpiry: sale.report.expires,
                isIntroductory: sale.report.isIntroductory,
                stamp: Stamp(signedDate: sale.report.signedAt, logicalTime: time))
            if isStronger { facts.append(.purchase(purchase)) }
            if recordings.contains(where: { $0.replica == replica }) { continue }
            // If the purchase is known, the group's end already includes it, and the end before it is unknown.
            let knownEnd = known == nil ? knownEnds.end(before: purchase) : nil
            let recording = Recording(
                transaction: sale.transaction, replica: replica, recordedAt: now, knownEnd: knownEnd,
                logicalTime: time)
            facts.append(.recording(recording))
        }
        for statement in statements where statement.target == target {
            guard let fact = try self.fact(for: statement, in: ledgers, replica: replica, time: &time, now: now) else {
                continue
            }
            facts.append(fact)
        }
        facts += evidenceFacts(for: target, in: ledgers, replica: replica, time: &time, now: now)
        if target == requestTarget {
            for request in requests where ledgers.replay.isPending(request.product) == request.isWithdrawn {
                time = time.next(at: now)
                facts.append(
                    .pending(
                        PendingPurchase(
                            product: request.product, requestedAt: now, isWithdrawn: request.isWithdrawn,
                            logicalTime: time)))
            }
        }
        return facts
    }
}

/// The group ends that a device knows while it records successive purchases. The rule `latestExpiryWins` needs
/// them.
private struct KnownEnds {
    let replay: Replay
    var ends: [GroupID: Timestamp] = [:]

    init(replay: Replay) {
        self.replay = replay
    }

    /// Returns the end of the group before `purchase`, and counts the purchase from then on.
    mutating func end(before purchase: Purchase) -> Timestamp? {
        guard let terms = purchase.terms, case .nonRenewing(let group, let duration) = terms.kind else { return nil }
        let known = (ends[group] ?? replay.knownEnd(of: group))?.asEnd
        let start = max(known ?? purchase.date, purchase.date)
        let (policy, environment) = (replay.catalog.policy, purchase.transaction.environment)
        ends[group] = start.adding(policy.counted(duration, in: environment).multiplied(by: purchase.quantity))
            .adding(policy.counted(terms.bonus, in: environment))
        return known
    }
}

extension ReportedPurchase {
    /// True if both reports have equal contents and the same signature date.
    fileprivate func hasSameContents(as other: ReportedPurchase) -> Bool {
        product == other.product && date == other.date && quantity == other.quantity && expires == other.expires
            && original == other.original && isIntroductory == other.isIntroductory && signedAt == other.signedAt
    }

    /// Checks an unsigned report against the known purchase. Signed reports replace the known purchase and need no
    /// check.
    package func checkAgreement(with known: Purchase, statedDate: Timestamp) throws(RecordingError) {
        guard signedAt == nil else { return }
        if known.product != product { throw .contradiction(known.transaction, "product \(known.product)") }
        if let date, statedDate != date { throw .contradiction(known.transaction, "date \(statedDate)") }
        if known.quantity != quantity { throw .contradiction(known.transaction, "quantity \(known.quantity)") }
        if let expires, known.storeExpiry != expires {
            throw .contradiction(known.transaction, "end \(known.storeExpiry.map { "\($0)" } ?? "none")")
        }
    }

    /// True if this report adds something to the known purchase: the purchase is new, was unsigned and now is signed,
    /// or is signed later with different contents. A store signs anew at each delivery, so a later signature alone adds
    /// nothing.
    fileprivate func isStronger(than known: Purchase?) -> Bool {
        guard let known else { return true }
        guard let signedAt else { return false }
        guard let signedBefore = known.stamp.signedDate else { return true }
        let isSame =
            known.product == product && known.quantity == quantity && known.storeExpiry == expires
            && known.originalID == original && known.isIntroductory == isIntroductory
            && (date == nil || date == known.date)
        return signedAt > signedBefore && !isSame
    }
}

extension RecordingError {
    package static func contradiction(_ transaction: TransactionReference, _ known: String) -> RecordingError {
        RecordingError(
            .contradiction,
            "transaction \"\(transaction.id.rawValue.singleLine)\" is already recorded differently: \(known)")
    }
}
