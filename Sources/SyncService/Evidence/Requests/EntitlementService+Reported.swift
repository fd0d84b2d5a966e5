import EntitlementSync
import Entitlements
import HTTPTypes
import SyncCore

extension EntitlementService {
    /// Records what a client reports: all items are checked, then written together.
    ///
    /// The rules for ledgers of clients apply: transactions are claimed for the account, and dates in the future do not
    /// count. Recording the same items again writes nothing.
    ///
    /// - Returns: One result for each item, in order.
    /// - Throws: `BackendError.Kind.busy` if other writers keep changing the ledger, and ``RequestError`` for an
    ///   erased account, or one that must wait.
    func record(
        _ items: [Result<ReportedItem, RecordingError>], of caller: AccountCaller
    ) async throws -> [EvidenceResult] {
        guard let catalog = configuration.catalog else { return items.map { _ in .noCatalog } }
        var outcomes: [ReportedRecording.Outcome] = []
        var cost = 0
        try await AccountGateway(self).record(for: caller) { account, server in
            guard !account.isErased else { throw RequestError(.forbidden, "the account was erased") }
            let now = host.now()
            let byteCount = account.byteCount + server.byteCount
            try limiter.takeReads(byteCount >> RequestLimiter.replayShift, account: caller.account.name ?? "", now: now)
            var recording = ReportedRecording(
                account: account, server: server, catalog: catalog, policy: configuration.policy,
                now: Timestamp(milliseconds: now))
            for item in items { recording.add(item) }
            guard !recording.isTooLong else {
                throw RequestError(
                    .contentTooLarge, "the items are too many for a ledger of \(account.byteCount) bytes; send fewer")
            }
            cost += recording.cost
            outcomes = recording.outcomes
            return recording.facts
        }
        // Charged at the end, so that the account's debt does not stop the write.
        limiter.charge(account: caller.account.name ?? "", reads: cost, writes: 0, now: host.now())
        let refused = try await refused(among: outcomes.compactMap(\.transaction), of: caller)
        return outcomes.map { outcome in
            outcome.transaction.map(refused.contains) ?? false ? .reportedByAnother : outcome.result
        }
    }

    /// The transactions that count for another account, which recorded them first.
    private func refused(
        among transactions: [TransactionReference], of caller: AccountCaller
    ) async throws(BackendError) -> Set<TransactionReference> {
        let rules = ledgerRules(of: caller)
        func refused() async throws(BackendError) -> Set<TransactionReference> {
            guard case .found(let entry) = try await store.read(caller.keys.serverLedger).outcome else { return [] }
            return Set(try await rules.decode(entry).refused).intersection(transactions)
        }
        guard !transactions.isEmpty, try await !refused().isEmpty else { return [] }
        // A read of the ledger reconsiders refusals whose transactions have become free.
        _ = try await rules.read(caller.keys.ledger)
        return try await refused()
    }
}
