import Entitlements
import StoreEvidence
import SyncCore

/// Other names of transactions, and the lines of transactions, by `server/names/STORE/ENVIRONMENT/ID`.
///
/// A refund at Stripe names a PaymentIntent, not the invoice that was paid, and a refund at Google Play names an order,
/// not the purchases in it. The App Store states the line with every transaction, so it needs no names.
struct TransactionNames: Sendable {
    let records: RecordStore

    private static let prefix = KeyScope.serverPrefix + "names/"

    struct Name: Codable, Hashable, Sendable {
        /// The transactions for which this name stands.
        var aliases: [LineName]?
        /// The names that stand for this transaction. Facts about it may be parked under them.
        var names: [LineName]?
        /// The line of the transaction, if its purchase is known.
        var line: LineName?
        /// The date at which another subscription replaced the one with this name, in milliseconds since 1970 UTC.
        var endedAt: Int64?
        /// The first statement with the current purchases that ended the others of the subscription with this name.
        var ending: Ending?
        /// The time since which the name is known to wait for a purchase, in milliseconds since 1970 UTC. A change of
        /// the name removes it.
        var waitingSince: Int64?
    }

    /// A ``SubscriptionEnding``, with dates in milliseconds since 1970 UTC.
    struct Ending: Codable, Hashable, Sendable {
        var current: [LineName]
        var endedAt: Int64
        var statedAt: Int64
    }

    /// Facts about one line.
    struct Group: Hashable, Sendable {
        var line: TransactionReference
        var facts: [Fact]
        /// Other keys under which facts about the line may be parked.
        var otherNames: Set<TransactionReference> = []
    }

    /// Groups the facts of `evidence` by line, in the order of their first mention. A line without a fact is a group of
    /// its own.
    func groups(of evidence: VerifiedEvidence) async throws(BackendError) -> [Group] {
        for (name, transactions) in evidence.aliases.sorted(by: { $0.key < $1.key }) {
            for transaction in transactions.sorted() where transaction != name {
                try await learn(Name(aliases: [LineName(transaction)]), of: name)
                try await learn(Name(names: [LineName(name)]), of: transaction)
            }
        }
        if let replaced = evidence.replaced, let end = replaced.endedAt {
            try await learn(Name(endedAt: end.milliseconds), of: replaced.name)
        }
        var groups: [Group] = []
        for case .purchase(let purchase) in evidence.facts {
            try await learn(Name(line: LineName(purchase.line)), of: purchase.transaction)
            let names = try await names(of: purchase.transaction)
            add(.purchase(purchase), names, to: purchase.line, in: &groups)
        }
        for fact in evidence.facts where fact.purchase == nil {
            guard let stated = fact.transaction else { continue }
            guard case .revocation = fact else {
                add(fact, [], to: stated, in: &groups)
                continue
            }
            for transaction in try await transactions(named: stated) {
                let line = try await line(of: transaction, evidence)
                let names = try await names(of: transaction)
                add(fact.renamed(transaction), names, to: line, in: &groups)
            }
        }
        for (line, end) in try await ends(evidence) { add(.revocation(end), [], to: line, in: &groups) }
        if let line = evidence.line, !groups.contains(where: { $0.line == line }), evidence.facts.isEmpty {
            groups.append(Group(line: line, facts: []))
        }
        // Facts that arrived before the alias are parked under it. Without a purchase they stay there.
        for alias in evidence.aliases.values.reduce(into: Set(), { $0.formUnion($1) }).sorted() {
            let isPurchase = try await knownLine(of: alias) != nil
            for transaction in isPurchase ? [alias] : try await transactions(named: alias) {
                guard let line = try await knownLine(of: transaction) else { continue }
                add(nil, try await names(of: transaction), to: line, in: &groups)
            }
        }
        return groups.map { group in
            var group = group
            group.otherNames.remove(group.line)
            return group
        }
    }

    /// Groups purchases that a client reports by line. A line that evidence has stated comes before the client's.
    func groups(ofReported purchases: [Purchase]) async throws(BackendError) -> [Group] {
        var groups: [TransactionReference: Group] = [:]
        for purchase in purchases where StoreID.notifying.contains(purchase.transaction.store) {
            let line = try await knownLine(of: purchase.transaction) ?? purchase.line
            groups[line, default: Group(line: line, facts: [])].facts.append(.purchase(purchase))
            groups[line]?.otherNames.formUnion(try await names(of: purchase.transaction))
        }
        return groups.values.sorted { $0.line < $1.line }
    }

    private func add(
        _ fact: Fact?, _ names: Set<TransactionReference>, to line: TransactionReference, in groups: inout [Group]
    ) {
        let index = groups.firstIndex { $0.line == line } ?? groups.endIndex
        if index == groups.endIndex { groups.append(Group(line: line, facts: [])) }
        if let fact { groups[index].facts.append(fact) }
        groups[index].otherNames.formUnion(names)
    }

    /// The ends of known purchases whose subscription was replaced, with their lines. Evidence of the old subscription
    /// states them as well as evidence of the new one, because either may arrive first.
    ///
    /// An end is signed at the date of the replacement. So repeating the evidence changes nothing.
    private func ends(
        _ evidence: VerifiedEvidence
    ) async throws(BackendError) -> [(line: TransactionReference, end: Revocation)] {
        var ends: [(TransactionReference, Revocation)] = []
        let replaced = evidence.replaced?.name
        for name in Set(evidence.aliases.keys).union(replaced.map { [$0] } ?? []).sorted() {
            guard let date = try await stored(name)?.endedAt.map(Timestamp.init(milliseconds:)) else { continue }
            for transaction in try await transactions(named: name) {
                // A purchase that the new subscription contains goes on.
                guard name != replaced || !evidence.aliases.values.contains(where: { $0.contains(transaction) }),
                    let line = try await knownLine(of: transaction)
                else { continue }
                let end = Revocation(
                    transaction: transaction, revokedAt: date, reason: "replaced", stamp: .signed(at: date))
                ends.append((line, end))
            }
        }
        return ends
    }

    /// The first statement that names the current purchases of `subscription`, `new` included; `nil` if there is none.
    func ending(
        of subscription: TransactionReference, learning new: SubscriptionEnding?
    ) async throws(BackendError) -> SubscriptionEnding? {
        if let new {
            let ending = Ending(
                current: new.current.sorted().map { LineName($0) }, endedAt: new.endedAt.milliseconds,
                statedAt: new.statedAt.milliseconds)
            try await learn(Name(ending: ending), of: subscription)
        }
        guard let known = try await stored(subscription)?.ending else { return nil }
        return SubscriptionEnding(
            current: Set(known.current.map(\.reference)), endedAt: Timestamp(milliseconds: known.endedAt),
            statedAt: Timestamp(milliseconds: known.statedAt))
    }

    /// The lines of the known purchases for which `name` stands.
    func lines(named name: TransactionReference) async throws(BackendError) -> [TransactionReference] {
        var lines: [TransactionReference] = []
        for transaction in try await transactions(named: name) {
            if let line = try await knownLine(of: transaction), !lines.contains(line) { lines.append(line) }
        }
        return lines
    }

    /// The line of `transaction`; `nil` if it is not known.
    func knownLine(of transaction: TransactionReference) async throws(BackendError) -> TransactionReference? {
        try await stored(transaction)?.line?.reference
    }

    /// The facts about `line` that `fact`, which was parked under another name, states.
    func facts(of fact: Fact, about line: TransactionReference) async throws(BackendError) -> [Fact] {
        guard case .revocation(let revocation) = fact else { return [fact] }
        let transactions = try await transactions(named: revocation.transaction)
        guard transactions != [revocation.transaction] else { return [fact] }
        var facts: [Fact] = []
        for transaction in transactions {
            let known = try await stored(transaction)?.line?.reference
            if known == line { facts.append(fact.renamed(transaction)) }
        }
        return facts
    }

    /// The known purchases that a refund of `name` concerns: those for which the name stands, and the one that it is.
    /// Without any, the refund waits under `name` for them.
    ///
    /// Only evidence teaches for which purchases a name stands. So the refund of an order at Google Play does not reach
    /// a purchase `ORDER/PRODUCT` that clients have reported only.
    func transactions(
        named name: TransactionReference
    ) async throws(BackendError) -> [TransactionReference] {
        guard let known = try await stored(name), let aliases = known.aliases else { return [name] }
        var transactions: [TransactionReference] = known.line == nil ? [] : [name]
        for alias in aliases.map(\.reference) {
            let known = try await stored(alias)
            if known?.line != nil { transactions.append(alias) }
            // A payment stands for an invoice, which may stand for several products.
            for product in (known?.aliases ?? []).map(\.reference) where try await stored(product)?.line != nil {
                transactions.append(product)
            }
        }
        return transactions.isEmpty ? [name] : transactions
    }

    /// Removes the names at Stripe that have waited for a purchase since `oldest` or earlier, as those of payments of
    /// other apps do. The wait begins with the first call that finds the name, and again when the name changes.
    ///
    /// - Parameter onError: Receives the error of a damaged name, which stays.
    func dropExpired(
        since oldest: Int64, now: Int64, onError: (BackendError) -> Void
    ) async throws(BackendError) {
        let prefix = "\(Self.prefix)\(StoreID.stripe)/"
        try await records.forEach(under: prefix, as: Name.self, onError: onError) {
            (key, held) async throws(BackendError) in
            var name = held.value
            // An end of a subscription counts for purchases that arrive later.
            guard name.line == nil, name.endedAt == nil, name.ending == nil, try await !hasPurchase(name) else {
                return
            }
            guard let since = name.waitingSince else {
                name.waitingSince = now
                _ = try await records.replace(key, with: name, if: held.version)
                return
            }
            if since <= oldest { _ = try await records.replace(key, with: Name?.none, if: held.version) }
        }
    }

    /// Returns `true` if `name` stands for a known purchase. A payment stands for an invoice, which may stand for
    /// products.
    private func hasPurchase(_ name: Name) async throws(BackendError) -> Bool {
        for alias in name.aliases ?? [] {
            for transaction in try await transactions(named: alias.reference)
            where try await knownLine(of: transaction) != nil {
                return true
            }
        }
        return false
    }

    /// The keys under which facts about `transaction` may be parked; empty for the App Store.
    private func names(of transaction: TransactionReference) async throws(BackendError) -> Set<TransactionReference> {
        guard transaction.store != .appStore else { return [] }
        var names: Set = [transaction]
        for name in (try await stored(transaction)?.names ?? []).map(\.reference) {
            names.insert(name)
            names.formUnion((try await stored(name)?.names ?? []).map(\.reference))
        }
        return names
    }

    /// The line of a revoked transaction.
    private func line(
        of transaction: TransactionReference, _ evidence: VerifiedEvidence
    ) async throws(BackendError) -> TransactionReference {
        for case .purchase(let purchase) in evidence.facts where purchase.transaction == transaction {
            return purchase.line
        }
        return try await knownLine(of: transaction) ?? evidence.line ?? transaction
    }

    private func stored(_ transaction: TransactionReference) async throws(BackendError) -> Name? {
        guard transaction.store != .appStore else { return nil }
        return try await records.read(try Self.key(of: transaction), as: Name.self)?.value
    }

    private func learn(_ name: Name, of transaction: TransactionReference) async throws(BackendError) {
        guard transaction.store != .appStore else { return }
        _ = try await records.update(try Self.key(of: transaction)) { (known: Name?) in
            Name(
                aliases: Self.union(known?.aliases, name.aliases), names: Self.union(known?.names, name.names),
                line: known?.line ?? name.line, endedAt: known?.endedAt ?? name.endedAt,
                ending: Self.later(known?.ending, name.ending))
        }
    }

    private static func union(_ known: [LineName]?, _ new: [LineName]?) -> [LineName]? {
        let all = Set(known ?? []).union(new ?? [])
        return all.isEmpty ? nil : all.sorted { $0.reference < $1.reference }
    }

    /// Returns the later statement, but the known one if both name the same purchases: its end is earlier, and
    /// repeating an answer changes nothing.
    private static func later(_ known: Ending?, _ new: Ending?) -> Ending? {
        guard let known, let new else { return known ?? new }
        return known.statedAt > new.statedAt || known.current == new.current ? known : new
    }

    private static func key(of transaction: TransactionReference) throws(BackendError) -> EntryKey {
        try EntryKey(prefix + transaction.path)
    }
}

extension StoreID {
    /// The stores that notify servers of refunds.
    static let notifying: Set = [appStore, googlePlay, stripe]
}

extension Fact {
    /// The same revocation of another transaction.
    func renamed(_ transaction: TransactionReference) -> Fact {
        guard case .revocation(var revocation) = self else { return self }
        revocation.transaction = transaction
        return .revocation(revocation)
    }
}
