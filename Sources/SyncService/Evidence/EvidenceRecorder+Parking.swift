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
}
