import EntitlementSync
import Entitlements
import SyncCore

// The trust policy, which an account's server ledger states to devices.
extension LedgerRules {
    /// The configured policy.
    var policy: TrustPolicy { environment.writer.policy ?? .trusted }

    /// Makes the server ledger state the policy before a client reads it. Without the policy, the client would believe
    /// what other clients wrote.
    func checkPolicy() async throws(BackendError) {
        let decoded = environment.decoder.cache.serverLedger(of: keys.serverLedger)
        switch (try await base.read(keys.serverLedger, unless: decoded?.version).outcome, decoded) {
        case (.found(let entry), _): _ = try await policyVersion(replacing: entry)
        case (.unchanged, let decoded?) where decoded.policy == policy: break
        case (.absent, _) where policy == .trusted: break
        default: _ = try await statePolicy()
        }
    }

    /// Makes the server ledger state the configured policy.
    ///
    /// - Returns: As ``ServerLedgerWriter/update(_:isLimited:_:)``. Also `nil` if the server's clock is wrong, or the
    ///   purchases cannot be claimed now, so that clients cannot be trusted yet.
    func statePolicy() async throws(BackendError) -> EntryVersion? {
        if policy == .trusted {
            // A wrong clock would give purchases wrong dates.
            guard !environment.clockGuard.isWrong else { return nil }
            do throws(BackendError) { try await claimStored() } catch {
                if !(error.cause is LimitReached) { environment.onError(error) }
                return nil
            }
        }
        return try await environment.writer.statePolicy(to: account)
    }

    /// Claims the purchases in the account's ledger that were stored under `verified`, before they count.
    private func claimStored() async throws(BackendError) {
        let entries = try await base.ledgerEntries(keys)
        guard let entry = entries.ledger else { return }
        try takeDecoding(entry.value.count, keys.ledger)
        let ledger = try await environment.decoder.ledger(in: entry, under: keys.ledger)
        var (proved, refused): (Set<TransactionReference>, Set<TransactionReference>) = ([], [])
        if let server = entries.serverLedger {
            proved = Set(try await environment.decoder.ledger(in: server, under: keys.serverLedger).transactions)
            refused = Set(try await decode(server).refused)
        }
        let purchases = ledger.records.compactMap(\.purchase).filter { !proved.contains($0.transaction) }
        guard !purchases.isEmpty else { return }
        charge(writes: purchases.count / RequestLimiter.operationsPerRequest)
        _ = try await decideAboutStored(purchases, in: ledger, refused)
    }

    /// The new version of a server ledger that stated another policy; `nil` if it states the configured one. A damaged
    /// one states none: its error is reported to the operator, and the client gets it as it is.
    func policyVersion(replacing entry: Entry) async throws(BackendError) -> EntryVersion? {
        do throws(BackendError) {
            if try await decode(entry).policy == policy { return nil }
        } catch {
            guard error.kind == .damaged else { throw error }
            environment.onError(error)
            return nil
        }
        return try await statePolicy()
    }

    /// Returns `true` if the server ledger is known to state the configured policy.
    ///
    /// - Parameters:
    ///   - outcome: The outcome of reading the server ledger.
    ///   - knownVersion: The version that the client knows.
    func isPolicyStated(in outcome: ReadOutcome, knownVersion: EntryVersion?) -> Bool {
        guard let decoded = environment.decoder.cache.serverLedger(of: keys.serverLedger), decoded.policy == policy
        else { return false }
        switch outcome {
        case .absent: return false
        case .found(let entry): return decoded.version == entry.version
        case .unchanged: return decoded.version == knownVersion
        }
    }

    /// The server ledger as it is stored once it states the policy.
    func statingPolicy(_ serverEntry: Entry?) async throws(BackendError) -> Entry? {
        if let serverEntry, try await policyVersion(replacing: serverEntry) == nil { return serverEntry }
        _ = try await statePolicy()
        guard case .found(let entry) = try await base.read(keys.serverLedger).outcome else { return nil }
        return entry
    }
}
