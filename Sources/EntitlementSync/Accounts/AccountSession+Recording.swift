import Entitlements
import SyncCore

extension EntitlementError {
    /// The start of the message of an error after a write of unknown outcome and an adoption.
    package static let mayHaveMoved = "the facts may have been written and moved to the account that was logged in"
}

extension AccountSession {
    /// The result of adding facts.
    struct Addition: Sendable {
        /// The facts that were new.
        var facts: [Fact]
        /// The state after the addition.
        var state: LocalState
    }

    /// Adds the facts that `decide` returns for the current state and the replica that writes them, durably.
    ///
    /// - Parameters:
    ///   - initial: The state to begin with. If another writer has changed the ledger since, or the outcome of the
    ///     write is unknown, the store is read again, and `decide` is called again.
    ///   - decide: Returns the facts to add.
    func append(
        to target: DeviceLedgers.Target, startingWith initial: LocalState,
        _ decide: (LocalState, ReplicaID) throws(EntitlementError) -> [Fact]
    ) async throws(EntitlementError) -> Addition {
        var state = initial
        /// The facts of a write whose outcome is unknown.
        var unsettled: (facts: [Fact], replica: ReplicaID?)?
        for attempt in 0..<LedgerEntries.maximumAttempts {
            if attempt > 0 { state = try await read() }
            if state.claim != nil {
                try await Adoption(backend: dependencies.local, host: dependencies.host).settle()
                continue
            }
            guard !state.account.ledger.isErased else { throw .erasedHere }
            let replica = try state.replica.get()?.id
            if let unsettled, unsettled.replica != replica {
                // An adoption has happened since the last attempt and may have moved the facts. This device cannot
                // find out.
                throw EntitlementError(
                    BackendError(
                        .busy, operation: .write, key: keys.ledger, disposition: .outcomeUnknown,
                        message: "\(EntitlementError.mayHaveMoved); look there before you try again"))
            }
            let held = state[target]
            let facts: [Fact]
            let document: LedgerDocument
            if let unsettled, !Ledger.join(held.ledger, Ledger(unsettled.facts.map(\.record))).leftLacks {
                // The facts are visible, which does not make them durable. Write them again until a write succeeds.
                facts = unsettled.facts
                document = held.document
            } else {
                facts = try decide(state, replica ?? .placeholder)
                guard let ledger = try state.ledger(target, with: facts) else {
                    return Addition(facts: [], state: state)
                }
                // Created only if there is anything to write.
                guard replica != nil else {
                    try await createReplica()
                    continue
                }
                document = LedgerDocument(ledger: ledger, localSection: held.document.localSection)
            }
            let key = target == .account ? keys.ledger : keys.device
            switch try await entries.write(document, to: key, if: held.precondition) {
            case .happened(let version):
                let written = VersionedLedger(version: version, document: document)
                return Addition(facts: facts, state: replacing(target, in: state, with: written))
            case .conflicted: break
            case .unknown: unsettled = (facts, replica)
            }
        }
        throw entries.busy(keys.ledger, isUnknown: unsettled != nil)
    }

    /// Removes answered evidence from the device ledger. Evidence that was replaced meanwhile stays.
    ///
    /// - Parameter refusals: The server's refusals, which the same write adds. They explain later why a purchase does
    ///   not count.
    func removeEvidence(_ records: [Record], adding refusals: [Acceptance] = []) async throws(EntitlementError) {
        let removed = Set(records)
        try await entries.update(keys.device) { held in
            let all = held.ledger.records
            let rest = all.filter { !removed.contains($0) }
            guard !held.ledger.isErased, rest.count < all.count else { return nil }
            let ledger = Ledger(rest).joined(with: Ledger(refusals.map { Fact.acceptance($0).record }))
            return LedgerDocument(ledger: ledger, localSection: held.localSection)
        }
    }

    /// Stores a copy of the server ledger.
    func remember(_ serverLedger: FetchedServerLedger) async throws(EntitlementError) {
        guard !account.isAnonymous else { return }
        let document = LedgerDocument(ledger: serverLedger.ledger, localSection: serverLedger.source)
        try await entries.update(keys.knownServerLedger) { held in
            // The copy was erased with the account, permanently.
            held.ledger.isErased || held == document ? nil : document
        }
    }

    /// Stores the remote's ledger of a sync that was based on `state`, if a rule depends on it.
    ///
    /// - Returns: `true` if the ledger had to be stored.
    func remember(remote ledger: Ledger, after state: LocalState) async throws(EntitlementError) -> Bool {
        guard dependsOnRemote, state.remote?.ledger != ledger else { return false }
        try await entries.replace(keys.remote) { $0.isErased ? $0 : ledger }
        return true
    }
}
