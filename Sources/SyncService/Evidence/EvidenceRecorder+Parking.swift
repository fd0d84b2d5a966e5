import Entitlements
import SyncCore

// Facts that wait for the owner of their line, or for the purchase of a refund.
extension EvidenceRecorder {
    /// Keeps the facts of a line without an owner, under the name of the line.
    ///
    /// - Returns: The facts that were parked under other names, to be removed once all lines are written.
    func park(
        _ group: TransactionNames.Group, _ token: String?
    ) async throws(BackendError) -> [Leftover] {
        var group = group
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

    /// Records the refunds in the server ledger of an account that is being erased, for the other owners of their
    /// lines, or for later ones. These may present a statement from before the refund.
    ///
    /// - Parameter onError: Receives the error of a refund for which there is no room.
    func keepRefunds(in ledger: Ledger, onError: (BackendError) -> Void) async throws(BackendError) {
        let facts = ledger.records.map { Fact($0) }
        let lines = Dictionary(facts.compactMap(\.purchase).map { ($0.transaction, $0.line) }) { first, _ in first }
        var refunds: [TransactionReference: [Fact]] = [:]
        for fact in facts where fact.isRefund {
            guard let transaction = fact.transaction else { continue }
            refunds[lines[transaction] ?? transaction, default: []].append(fact)
        }
        for (line, facts) in refunds.sorted(by: { $0.key < $1.key }) {
            do throws(BackendError) {
                _ = try await record([TransactionNames.Group(line: line, facts: facts)], Request())
            } catch {
                guard error.cause is ParkingFull || error.cause is LedgerFull else { throw error }
                onError(error)
            }
        }
    }
}
