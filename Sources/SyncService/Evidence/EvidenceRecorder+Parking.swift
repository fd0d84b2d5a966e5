import EntitlementSync
import Entitlements
import SyncCore

// Facts that wait for the owner of their line, or for the purchase of a refund.
//
// An account whose client reports a purchase has not proved it, so the facts go on waiting. But the account gets the
// refunds: those that were known before with the report, and later ones at once.
extension EvidenceRecorder {
    /// Keeps the facts of a line without an owner, under the name of the line, with those under its other names.
    ///
    /// - Returns: The facts that were parked under other names, to be removed once all lines are written.
    func park(
        _ group: inout TransactionNames.Group, _ token: String?
    ) async throws(BackendError) -> [Leftover] {
        let found = try await addParked(to: &group, under: group.otherNames)
        try await parked.park(group.facts, of: group.line, token: token)
        return found
    }

    /// Adds the facts that wait for an owner of the line, or for its purchase, under `names`.
    ///
    /// - Returns: The facts that were added, to be removed once they are written.
    func addParked(
        to group: inout TransactionNames.Group, under names: Set<TransactionReference>
    ) async throws(BackendError) -> [Leftover] {
        var found: [Leftover] = []
        for name in names.sorted() {
            guard let held = try await parked.facts(of: name) else { continue }
            var facts: [Fact] = []
            for fact in held.facts { facts += try await self.names.facts(of: fact, about: group.line) }
            // Only tokens may wait under the name of a line.
            guard !facts.isEmpty || held.facts.isEmpty && name == group.line else { continue }
            group.facts += facts
            found.append(Leftover(name: name, version: held.version, line: group.line))
        }
        return found
    }

    /// Records the revocations in the server ledger of an account that is being erased, for the other owners of their
    /// lines, or for later ones. These may present an earlier statement.
    ///
    /// Revocations of purchases that are not in this ledger were given to it from the line's own place, where they are
    /// still.
    ///
    /// - Parameter onError: Receives the error of a revocation for which there is no room, or about which another
    ///   owner's ledger is damaged.
    func keepRevocations(in ledger: Ledger, onError: (BackendError) -> Void) async throws(BackendError) {
        let facts = ledger.records.map { Fact($0) }
        let lines = Dictionary(facts.compactMap(\.purchase).map { ($0.transaction, $0.line) }) { first, _ in first }
        var revocations: [TransactionReference: [Fact]] = [:]
        for fact in facts where fact.isRevocation {
            guard let line = fact.transaction.flatMap({ lines[$0] }) else { continue }
            revocations[line, default: []].append(fact)
        }
        for (line, facts) in revocations.sorted(by: { $0.key < $1.key }) {
            do throws(BackendError) {
                _ = try await record([TransactionNames.Group(line: line, facts: facts)], Request())
            } catch {
                guard error.kind == .damaged || error.cause is ParkingFull || error.cause is LedgerFull else {
                    throw error
                }
                onError(error)
            }
        }
    }

    /// Gives the refunds in `group`, which is written, to the accounts whose clients have reported the purchases.
    func giveRefunds(_ group: TransactionNames.Group) async throws(BackendError) {
        let transactions = Set(group.facts.compactMap { $0.revocation?.transaction })
        guard !transactions.isEmpty else { return }
        // The statements may arrive in any order, and the latest counts.
        let known = try await knownFacts(ofLine: group.line, skipsDamaged: true).flatMap(\.self)
        for refund in Self.refunds(of: transactions, in: known) {
            for account in try await owners.reporters(of: refund.transaction) {
                let now = Timestamp(milliseconds: writer.now())
                do throws(BackendError) {
                    // Without the limit, because an account has no more claims than its ledger may have records.
                    try await writer.update(account, isLimited: false) { (server) async throws(BackendError) in
                        _ = server.add(server.ledger.needed(of: [refund]), catalog: writer.catalog, at: now)
                    }
                } catch {
                    try skip(error)
                }
            }
        }
    }

    /// The known refunds, and reversals of refunds, of `purchases`, which a client reports and may have.
    func refunds(of purchases: [Purchase]) async throws(BackendError) -> [Revocation] {
        var refunds: [Revocation] = []
        for group in try await names.groups(ofReported: purchases) {
            var group = group
            let transactions = Set(group.facts.compactMap(\.purchase?.transaction))
            _ = try await addParked(to: &group, under: group.otherNames.union([group.line]))
            if owners.policy == .share {
                group.facts += try await knownFacts(ofLine: group.line, skipsDamaged: true).flatMap(\.self)
            }
            refunds += Self.refunds(of: transactions, in: group.facts)
        }
        return refunds
    }

    /// The latest statement of `facts` about the refund of each of `transactions`.
    private static func refunds(of transactions: Set<TransactionReference>, in facts: [Fact]) -> [Revocation] {
        Ledger(facts.map(\.record)).records.compactMap { Fact($0).revocation }.filter {
            transactions.contains($0.transaction)
        }
    }
}

extension Fact {
    fileprivate var revocation: Revocation? { if case .revocation(let revocation) = self { revocation } else { nil } }
}

extension Ledger {
    /// Those of `statements` that a server ledger needs about purchases that only a client has reported: refunds, and
    /// reversals of the refunds that it has.
    func needed(of statements: [Revocation]) -> [Fact] {
        statements.filter { statement in
            statement.revokedAt != nil || self[Fact.revocation(statement).record.key] != nil
        }.map { .revocation($0) }
    }
}
