/// The ledger of an account that only its server writes.
///
/// It holds what the server has verified, its decisions about purchases, and its trust policy. Verified statements
/// override statements of clients about the same subject. Their records depend on nothing but the statements, so the
/// ledger is the same in whatever order they arrive.
package struct ServerLedger: Hashable, Sendable {
    /// The records.
    package private(set) var ledger: Ledger

    /// Creates a value from the stored records.
    package init(_ ledger: Ledger = Ledger()) { self.ledger = ledger }

    /// The policy that the ledger states; `trusted` if it states none.
    package var policy: TrustPolicy {
        guard let record = ledger[FactKey.policy.bytes], case .policy(let statement) = Fact(record) else {
            return .trusted
        }
        return statement.policy
    }

    /// States a policy.
    ///
    /// - Returns: `false` if the ledger states this policy already.
    package mutating func set(_ policy: TrustPolicy, at now: Timestamp) -> Bool {
        guard policy != self.policy else { return false }
        insert([.policy(PolicyStatement(policy, logicalTime: latestTime.next(at: now)))])
        return true
    }

    /// Adds verified statements, and ends earlier decisions about their purchases.
    ///
    /// A purchase without terms gets the terms that the ledger has for it, else those of the catalogue. A purchase of
    /// an unknown product is kept and counts once a catalogue contains the product.
    ///
    /// - Parameters:
    ///   - facts: Purchases, revocations, reinstatements, renewal states, assertions and flags. Others are ignored.
    ///   - catalog: The catalogue that gives terms to purchases without terms.
    ///   - now: The time of decisions that are ended.
    /// - Returns: The facts that were new or stronger than the known ones.
    package mutating func add(_ facts: [Fact], catalog: Catalog?, at now: Timestamp) -> [Fact] {
        // Indexed once, because a receipt may state thousands of purchases.
        var known: [TransactionReference: Purchase] = [:]
        var decided: Set<TransactionReference> = []
        for fact in self.facts {
            switch fact {
            case .purchase(let purchase): known[purchase.transaction] = purchase
            case .acceptance(let acceptance) where acceptance.decision != .accepted:
                decided.insert(acceptance.transaction)
            default: break
            }
        }
        var ended: [TransactionReference] = []
        let statements = facts.compactMap { fact -> Fact? in
            guard case .purchase(var purchase) = fact else { return fact.isVerifiable ? fact : nil }
            if decided.contains(purchase.transaction) { ended.append(purchase.transaction) }
            // Terms of another product would make the ledger depend on the order of the statements.
            let earlier = known[purchase.transaction].flatMap { $0.product == purchase.product ? $0.terms : nil }
            purchase.terms = purchase.terms ?? earlier ?? catalog?.terms(of: purchase.product)
            return .purchase(purchase)
        }
        let new = ledger.missing(of: statements.map(\.record)).map { Fact($0) }
        insert(new)
        if !ended.isEmpty { decide(.accepted, about: ended, at: now) }
        return new
    }

    /// Records one decision about several purchases. It replaces earlier decisions about them.
    package mutating func decide(
        _ decision: Acceptance.Decision, about transactions: some Sequence<TransactionReference>, at now: Timestamp
    ) {
        let time = latestTime.next(at: now)
        insert(
            transactions.map { transaction in
                .acceptance(
                    Acceptance(transaction: transaction, decision: decision, date: now, logicalTime: time))
            })
    }

    /// The current decision about a purchase; `nil` if there is none.
    package func decision(about transaction: TransactionReference) -> Acceptance.Decision? {
        guard let record = ledger[FactKey.acceptance(transaction).bytes],
            case .acceptance(let acceptance) = Fact(record)
        else { return nil }
        return acceptance.decision
    }

    /// The verified facts about one line: its purchases, their revocations and its renewal state.
    package func facts(ofLine line: TransactionReference) -> [Fact] {
        let facts = self.facts
        let transactions = Set(facts.compactMap(\.purchase).filter { $0.line == line }.map(\.transaction))
        return facts.filter { fact in
            switch fact {
            case .purchase(let purchase): transactions.contains(purchase.transaction)
            case .revocation(let revocation):
                transactions.contains(revocation.transaction) || revocation.transaction == line
            case .renewalState(let state): state.line == line
            default: false
            }
        }
    }

    /// The verified transactions of one line, in ascending order.
    package func transactions(ofLine line: TransactionReference) -> [TransactionReference] {
        facts(ofLine: line).compactMap(\.purchase?.transaction).sorted()
    }

    /// All facts of the ledger.
    package var facts: [Fact] { ledger.records.map { Fact($0) } }

    private var latestTime: LogicalTime { facts.map(\.logicalTime).max() ?? .zero }

    private mutating func insert(_ facts: [Fact]) { ledger = ledger.joined(with: Ledger(facts.map(\.record))) }
}

extension Fact {
    /// True for kinds of facts whose verified statements override statements of clients.
    fileprivate var isVerifiable: Bool {
        switch self {
        case .purchase, .revocation, .renewalState, .assertion, .flag: true
        default: false
        }
    }
}
