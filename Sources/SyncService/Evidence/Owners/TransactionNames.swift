import Entitlements
import StoreEvidence
import SyncCore

/// Other names of transactions, and the lines of transactions, by `server/names/STORE/ENVIRONMENT/ID`.
///
/// A refund at Stripe names a PaymentIntent, not the invoice that was paid, and a refund at Google Play names an order,
/// not its subscription. The App Store states the line with every transaction, so it needs no names.
struct TransactionNames: Sendable {
    let records: RecordStore

    struct Name: Codable, Hashable, Sendable {
        /// The transaction for which this name stands.
        var alias: LineName?
        /// The line of the transaction.
        var line: LineName?
    }

    /// Facts about one line.
    struct Group: Sendable {
        var line: TransactionReference
        var facts: [Fact]
        /// Other keys under which facts about the line may be parked.
        var otherNames: Set<TransactionReference> = []
    }

    /// Groups the facts of `evidence` by line, in the order of their first mention. A line without a fact is a group of
    /// its own.
    func groups(of evidence: VerifiedEvidence) async throws(BackendError) -> [Group] {
        for (name, transaction) in evidence.aliases.sorted(by: { $0.key < $1.key }) {
            try await learn(Name(alias: LineName(transaction)), of: name)
        }
        var lines: [TransactionReference: TransactionReference] = [:]
        for case .purchase(let purchase) in evidence.facts { lines[purchase.transaction] = purchase.line }
        var groups: [Group] = []
        for fact in evidence.facts {
            guard let stated = fact.transaction else { continue }
            let transaction = try await canonical(stated, evidence)
            let line = try await line(of: fact, transaction, lines, evidence)
            var names: Set<TransactionReference> = []
            if line.store != .appStore {
                names = Set(evidence.aliases.filter { $0.value == transaction }.map(\.key) + [transaction, stated])
            }
            add(fact.renamed(transaction), names, to: line, in: &groups)
        }
        if let line = evidence.line, !groups.contains(where: { $0.line == line }), evidence.facts.isEmpty {
            groups.append(Group(line: line, facts: []))
        }
        for (name, transaction) in evidence.aliases where !evidence.facts.contains(where: { $0.transaction == name }) {
            // Facts that arrived before the alias are parked under it.
            let line = try await stored(transaction)?.line?.reference ?? transaction
            add(nil, [name, transaction], to: line, in: &groups)
        }
        return groups.map { group in
            var group = group
            group.otherNames.remove(group.line)
            return group
        }
    }

    private func add(
        _ fact: Fact?, _ names: Set<TransactionReference>, to line: TransactionReference, in groups: inout [Group]
    ) {
        let index = groups.firstIndex { $0.line == line } ?? groups.endIndex
        if index == groups.endIndex { groups.append(Group(line: line, facts: [])) }
        if let fact { groups[index].facts.append(fact) }
        groups[index].otherNames.formUnion(names)
    }

    /// `fact`, which was parked under another name, as a fact about the transaction that it concerns.
    func canonical(_ fact: Fact) async throws(BackendError) -> Fact {
        guard let stated = fact.transaction, let alias = try await stored(stated)?.alias else { return fact }
        return fact.renamed(alias.reference)
    }

    /// The line of `transaction`; `nil` if it is not known.
    func knownLine(of transaction: TransactionReference) async throws(BackendError) -> TransactionReference? {
        try await stored(transaction)?.line?.reference
    }

    private func canonical(
        _ transaction: TransactionReference, _ evidence: VerifiedEvidence
    ) async throws(BackendError) -> TransactionReference {
        if let known = evidence.aliases[transaction] { return known }
        return try await stored(transaction)?.alias?.reference ?? transaction
    }

    private func line(
        of fact: Fact, _ transaction: TransactionReference, _ lines: [TransactionReference: TransactionReference],
        _ evidence: VerifiedEvidence
    ) async throws(BackendError) -> TransactionReference {
        switch fact {
        case .purchase(let purchase):
            let line = purchase.renamed(transaction).line
            if line != transaction, line.store != .appStore {
                try await learn(Name(line: LineName(line)), of: transaction)
            }
            return line
        case .revocation:
            if let line = lines[transaction] { return line }
            return try await stored(transaction)?.line?.reference ?? evidence.line ?? transaction
        default: return transaction
        }
    }

    private func stored(_ transaction: TransactionReference) async throws(BackendError) -> Name? {
        guard transaction.store != .appStore else { return nil }
        return try await records.read(try Self.key(of: transaction), as: Name.self)?.value
    }

    private func learn(_ name: Name, of transaction: TransactionReference) async throws(BackendError) {
        _ = try await records.update(try Self.key(of: transaction)) { (known: Name?) in
            Name(alias: known?.alias ?? name.alias, line: known?.line ?? name.line)
        }
    }

    private static func key(of transaction: TransactionReference) throws(BackendError) -> EntryKey {
        try EntryKey(KeyScope.serverPrefix + "names/" + transaction.path)
    }
}

extension Fact {
    /// The transaction or line that the fact concerns; `nil` for facts that stores do not state.
    var transaction: TransactionReference? {
        switch self {
        case .purchase(let purchase): purchase.transaction
        case .revocation(let revocation): revocation.transaction
        case .renewalState(let state): state.line
        default: nil
        }
    }

    /// The same fact about another transaction.
    func renamed(_ transaction: TransactionReference) -> Fact {
        switch self {
        case .purchase(let purchase): return .purchase(purchase.renamed(transaction))
        case .revocation(var revocation):
            revocation.transaction = transaction
            return .revocation(revocation)
        default: return self
        }
    }
}

extension Purchase {
    /// The same purchase under another name of its transaction.
    fileprivate func renamed(_ transaction: TransactionReference) -> Purchase {
        var purchase = self
        purchase.transaction = transaction
        return purchase
    }
}
