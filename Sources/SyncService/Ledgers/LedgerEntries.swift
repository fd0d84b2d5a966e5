import EntitlementSync
import SyncCore

/// An account's ledger and its server ledger as they are stored, read in one call; `nil` for an absent entry.
struct LedgerEntries: Sendable {
    let ledger: Entry?
    let serverLedger: Entry?

    /// The total size of both, in bytes.
    var byteCount: Int { (ledger?.value.count ?? 0) + (serverLedger?.value.count ?? 0) }
}

extension KeyValueBackend {
    /// Reads an account's two ledgers.
    func ledgerEntries(_ keys: LedgerKeys) async throws(BackendError) -> LedgerEntries {
        let (ledger, serverLedger) = try await read(ReadRequest(keys.ledger), ReadRequest(keys.serverLedger))
        return LedgerEntries(ledger: ledger.entry, serverLedger: serverLedger.entry)
    }
}
