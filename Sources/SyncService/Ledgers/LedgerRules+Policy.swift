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
        default: try await environment.writer.statePolicy(to: account)
        }
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
        return try await environment.writer.statePolicy(to: account)
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
        try await environment.writer.statePolicy(to: account)
        guard case .found(let entry) = try await base.read(keys.serverLedger).outcome else { return nil }
        return entry
    }
}
