import EntitlementSync
package import Entitlements
package import SyncCore

/// The record `server/policy`: the policy of the server, for programs that work on its store.
struct PolicyRecord: Hashable, Sendable, Codable {
    var policy: String

    static func key() throws(BackendError) -> EntryKey { try EntryKey(KeyScope.serverPrefix + "policy") }
}

extension RecordStore {
    /// The policy that a server stated last for this store; `nil` if none did, as for a server that never had another
    /// policy than `trusted`.
    package func statedPolicy() async throws(BackendError) -> TrustPolicy? {
        try await read(try PolicyRecord.key(), as: PolicyRecord.self).flatMap { TrustPolicy(rawValue: $0.value.policy) }
    }

    /// Records the server's policy. Servers with the policy `trusted` write nothing unless another one was stated.
    func state(_ policy: TrustPolicy) async throws(BackendError) {
        guard try await statedPolicy() ?? .trusted != policy else { return }
        _ = try await update(try PolicyRecord.key()) { (_: PolicyRecord?) in PolicyRecord(policy: policy.rawValue) }
    }
}

/// Writes the server ledgers of accounts by compare-and-swap.
///
/// Under `verified` each write states that policy. Under `trusted` only ``statePolicy(to:)`` does: the account's
/// purchases must be claimed before they count, see ``LedgerRules/statePolicy()``.
struct ServerLedgerWriter: Sendable {
    let records: RecordStore
    let decoder: LedgerDecoder
    /// The policy of the server; `nil` for a program that leaves the stated policy as it is.
    let policy: TrustPolicy?
    let catalog: Catalog?
    let now: @Sendable () -> Int64
    /// The rule of the façade; `nil` without one.
    var facade: FacadeRule?

    /// The server ledger of `account` as it is stored.
    func read(_ account: Account) async throws(BackendError) -> ServerLedger {
        let key = try LedgerKeys(account).serverLedger
        guard case .found(let entry) = try await records.backend.read(key).outcome else { return ServerLedger() }
        return ServerLedger(try await decoder.ledger(in: entry, under: key))
    }

    /// Changes the server ledger of `account`.
    ///
    /// `change` runs after the ledger was read. If it reads the owners of lines, their order is the one that
    /// ``Owners`` requires. It may run several times, so it must depend on its argument only.
    ///
    /// - Parameter isLimited: False for facts that a transfer brings, whose room was checked before it began.
    /// - Returns: The version of the ledger, which exists unless it is empty; `nil` if the account does not exist or is
    ///   being erased. Nothing is written then.
    /// - Throws: ``LedgerFull`` as the cause if the ledger would exceed its limits.
    @discardableResult
    func update(
        _ account: Account, isLimited: Bool = true,
        _ change: (inout ServerLedger) async throws(BackendError) -> Void
    ) async throws(BackendError) -> EntryVersion? {
        let key = try LedgerKeys(account).serverLedger
        guard try await records.isActive(account) else { return nil }
        var mayHaveWritten = false
        let stored = try await records.backend.update(key) { (entry) async throws(BackendError) in
            var former = ServerLedger()
            if let entry { former = ServerLedger(try await decoder.ledger(in: entry, under: key)) }
            var ledger = former
            if policy == .verified { _ = ledger.set(.verified, at: Timestamp(milliseconds: now())) }
            try await change(&ledger)
            guard ledger != former else { return nil }
            if let facade { try await apply(facade, to: account, in: &ledger) }
            if isLimited { try check(ledger.ledger, former.ledger, key) }
            mayHaveWritten = true
            return LedgerDocument(ledger: ledger.ledger).encoded()
        }
        guard mayHaveWritten else { return stored?.version }
        return try await confirm(account) ? stored?.version : nil
    }

    private func apply(
        _ facade: FacadeRule, to account: Account, in server: inout ServerLedger
    ) async throws(BackendError) {
        let key = try LedgerKeys(account).ledger
        guard case .found(let entry) = try await records.backend.read(key).outcome else { return }
        let ledger = try await decoder.ledger(in: entry, under: key)
        if facade.concerns(ledger) { facade.decide(&server, ledger, Timestamp(milliseconds: now())) }
    }

    /// Checks that the server ledger of `account` has room for `facts`. Writes nothing.
    ///
    /// - Throws: ``LedgerFull`` as the cause if it has not.
    func checkRoom(for facts: [Fact], of account: Account) async throws(BackendError) {
        let former = try await read(account)
        var ledger = former
        _ = ledger.add(facts, catalog: catalog, at: Timestamp(milliseconds: now()))
        try check(ledger.ledger, former.ledger, try LedgerKeys(account).serverLedger)
    }

    /// Makes the server ledger of `account` state the configured policy. Returns like ``update(_:isLimited:_:)``.
    func statePolicy(to account: Account) async throws(BackendError) -> EntryVersion? {
        try await update(account) { (ledger) async throws(BackendError) in
            if let policy { _ = ledger.set(policy, at: Timestamp(milliseconds: now())) }
        }
    }

    /// Checks the limits of a changed ledger.
    ///
    /// Updates of known records, revocations and the server's own decisions need no room. So a full ledger still loses
    /// what a refund or a transfer takes away.
    private func check(_ ledger: Ledger, _ former: Ledger, _ key: EntryKey) throws(BackendError) {
        let limits = LedgerLimits.standard
        guard ledger.count > former.count,
            ledger.count > limits.recordCount || ledger.byteCount > limits.byteCount
        else { return }
        let known = Set(former.records.map(\.key))
        guard ledger.records.contains(where: { !known.contains($0.key) && Fact($0).needsRoom }) else { return }
        throw BackendError(
            .tooLarge, operation: .write, key: key,
            message: "a server ledger can have at most \(limits.recordCount) records and \(limits.byteCount) bytes",
            cause: LedgerFull())
    }

    /// Lets the erasure be repeated if the account was erased while the ledger was written.
    ///
    /// The ledger may have a refund of another writer that the erasure has not kept yet, so it is not removed here.
    private func confirm(_ account: Account) async throws(BackendError) -> Bool {
        if try await records.isActive(account) { return true }
        try await Erasure.schedule(account, in: records)
        return false
    }
}

extension Fact {
    /// False for statements that give nothing: revocations, decisions and the policy.
    fileprivate var needsRoom: Bool {
        switch self {
        case .revocation(let revocation): revocation.revokedAt == nil
        case .acceptance, .policy: false
        default: true
        }
    }
}

/// The cause of the error of a server ledger that has reached its limits.
struct LedgerFull: Error {}
