/// A half-open span of time, from `start` up to but not including `end`, in milliseconds since 1970 UTC.
struct ModelSpan: Hashable {
    var start: Int64
    var end: Int64

    func contains(_ instant: Int64) -> Bool { start <= instant && instant < end }
}

extension [ModelSpan] {
    /// The union of the spans: ascending, without empty, overlapping or adjacent ones.
    var joined: [ModelSpan] {
        var joined: [ModelSpan] = []
        for span in sorted(by: { $0.start < $1.start }) where span.start < span.end {
            if let last = joined.last, span.start <= last.end {
                joined[joined.count - 1].end = Swift.max(last.end, span.end)
            } else {
                joined.append(span)
            }
        }
        return joined
    }

    /// Returns `true` if these spans, which must be joined, contain all instants of `others`.
    func covers(_ others: [ModelSpan]) -> Bool {
        others.joined.allSatisfy { other in contains { $0.start <= other.start && other.end <= $0.end } }
    }
}

/// The units that count on a device.
enum ModelScope { case deviceLocal, shared }

/// The replay of an account's facts on one device, under the rules `stackPurchases` and `purchasedWins`.
struct ModelReplay {
    /// The facts of the account's and the device's ledgers.
    let facts: ModelFacts
    /// The purchases that count in the environment, with their terms, by date and transaction.
    let sales: [ModelSale]
    private let environment: ModelID
    /// The contents of the device's own ledger. With `deviceLocal`, no other units count.
    private let heldTransactions: [ModelTransaction]
    private let heldSpends: [ModelID]

    /// Replays the union of both ledgers.
    ///
    /// A claimed anonymous ledger is replayed like any other: hiding it is the task of account handling.
    ///
    /// - Parameters:
    ///   - account: The account's ledger.
    ///   - device: The ledger that stays on the device.
    ///   - server: The ledger that only the account's server writes.
    ///   - environment: The environment whose purchases count.
    ///   - catalogue: The terms, including the bonus, for purchases that were recorded without terms.
    init(
        account: ModelLedger, device: ModelLedger? = nil, server: ModelLedger? = nil,
        environment: ModelID = "production", catalogue: [ModelID: ModelTerms] = [:]
    ) {
        let device = device ?? ModelLedger()
        let server = server ?? ModelLedger()
        let facts = ModelFacts(account: account, device: device, server: server)
        let held = device.facts
        let decisions = server.facts.acceptances
        self.facts = facts
        self.environment = environment
        heldTransactions = held.transactions
        heldSpends = held.spends.map(\.id)
        sales = facts.copies.compactMap { copies in
            facts.sale(
                of: copies, in: environment, catalogue: catalogue, decision: facts.decision(on: copies, decisions))
        }
        .sorted { ($0.date, $0.purchase.transaction) < ($1.date, $1.purchase.transaction) }
    }

    /// All spans in which `group` is paid.
    func coverage(of group: String) -> [ModelSpan] {
        (stacked(ModelID(group)) + renewals { $0.terms.group == ModelID(group) }).joined
    }

    /// The spans in which `group` is paid at `level` or a higher one. Higher levels have lower numbers.
    func coverage(of group: String, atLevel level: Int64) -> [ModelSpan] {
        renewals { $0.terms.group == ModelID(group) && $0.terms.level <= level }.joined
    }

    /// The spans in which the auto-renewable `product` is paid.
    func coverage(ofProduct product: String) -> [ModelSpan] {
        renewals { $0.purchase.product == ModelID(product) }.joined
    }

    /// The spans of the auto-renewable purchases that fulfil `condition`. All purchases of a group decide when they
    /// end.
    private func renewals(_ condition: (ModelSale) -> Bool) -> [ModelSpan] {
        let renewing = sales.filter { $0.terms.kind == .autoRenewable }
        return Dictionary(grouping: renewing, by: \.terms.group).values.flatMap { group in
            facts.spans(ofRenewals: group).filter { condition($0.sale) }.map(\.span)
        }
    }

    /// Returns `true` if `group` is paid at `instant`.
    func isActive(_ group: String, at instant: Int64) -> Bool {
        coverage(of: group).contains { $0.contains(instant) }
    }

    /// The end of the span that contains `instant`, or of the last one before it; `nil` if none has started.
    func end(_ group: String, at instant: Int64) -> Int64? {
        coverage(of: group).last { $0.start <= instant }?.end
    }

    /// Returns `true` if `product` is owned at `instant`: bought by then and not revoked by then, or its flag was ever
    /// set.
    func owns(_ product: String, at instant: Int64) -> Bool {
        isMarked(product)
            || sales.contains { sale in
                sale.terms.kind == .nonConsumable && sale.purchase.product == ModelID(product)
                    && sale.date <= instant && instant < sale.revokedAt ?? ModelCalendar.latest
            }
    }

    /// `purchasedWins`: once set, a flag counts even if it was cleared.
    private func isMarked(_ product: String) -> Bool {
        facts.flags.contains { flag in
            flag.isSet && flag.product == ModelID(product) && flag.environment == environment
                && !facts.isReset(flag.time, in: environment)
        }
    }

    /// The remaining units of `product` at `instant`.
    ///
    /// Grants and spends are applied in the order of their logical times, and the balance never falls below 0: an
    /// overspend is written off. A purchase grants its units as of its first recording, unless it is dated after
    /// `instant` or was revoked by then. At the same logical time grants come first, since the keys of purchases do;
    /// the order among grants, or among spends, makes no difference.
    func balance(of product: String, _ scope: ModelScope, at instant: Int64 = ModelCalendar.latest) -> Int64 {
        let id = ModelID(product)
        var steps: [(time: UInt64, isSpend: Int, units: Int64)] = []
        for sale in sales where sale.terms.kind == .consumable && sale.purchase.product == id {
            let isHeld = sale.copies.statements.contains { heldTransactions.contains($0.transaction) }
            guard scope == .shared || isHeld else { continue }
            guard sale.date <= instant, sale.revokedAt.map({ $0 > instant }) ?? true else { continue }
            let time = facts.firstRecorded(sale.copies, dated: sale.date)
            steps.append((time, 0, sale.terms.units * sale.purchase.quantity))
        }
        for spend in facts.spends where spend.product == id && spend.environment == environment {
            guard scope == .shared || heldSpends.contains(spend.id) else { continue }
            guard !facts.isReset(spend.time, in: environment) else { continue }
            steps.append((spend.time, 1, spend.units))
        }
        var balance: Int64 = 0
        for step in steps.sorted(by: { ($0.time, $0.isSpend) < ($1.time, $1.isSpend) }) {
            balance = step.isSpend == 1 ? max(0, balance - step.units) : balance + step.units
        }
        return balance
    }

    /// Appends each purchase: it starts at its date or at the end of the time so far, whichever is later. It lasts
    /// duration × quantity, added at once, then its bonus. A revoked purchase ends at its revocation, and the next one
    /// starts there. Purchases of one date are ordered by store, environment and id.
    ///
    /// An assertion follows all purchases up to the date on which it was made, and extends the time up to its own
    /// date.
    private func stacked(_ group: ModelID) -> [ModelSpan] {
        var spans: [ModelSpan] = []
        var endSoFar = ModelCalendar.earliest
        var waiting = facts.assertions
            .filter { $0.group == group && $0.environment == environment && !facts.isReset($0.time, in: environment) }
            .sorted { ($0.assertedAt, $0.until, $0.source) < ($1.assertedAt, $1.until, $1.source) }

        func assert(_ assertion: ModelAssertion) {
            let start = max(endSoFar, assertion.assertedAt)
            guard assertion.until > start else { return }
            spans.append(ModelSpan(start: start, end: assertion.until))
            endSoFar = assertion.until
        }

        for sale in sales where sale.terms.kind == .nonRenewing && sale.terms.group == group {
            while let next = waiting.first, next.assertedAt < sale.date {
                assert(next)
                waiting.removeFirst()
            }
            let start = max(endSoFar, sale.date)
            var end = sale.end(from: start)
            if let revokedAt = sale.revokedAt { end = min(end, revokedAt) }
            guard end > start else { continue }
            spans.append(ModelSpan(start: start, end: end))
            endSoFar = end
        }
        for assertion in waiting { assert(assertion) }
        return spans
    }
}
