import EntitlementSync
import Entitlements
import SyncCore

/// The documents of an active account from which its rows are derived.
struct AccountDocuments: Sendable {
    let record: AccountRecord
    let account: Account
    let keys: LedgerKeys
    let recordVersion: EntryVersion
    let entries: LedgerEntries

    var versions: ProjectedAccount.Versions {
        ProjectedAccount.Versions(
            record: "\(recordVersion)", ledger: entries.ledger.map { "\($0.version)" },
            serverLedger: entries.serverLedger.map { "\($0.version)" })
    }

    /// The documents of the accounts with these names that exist and were not erased, by the bytes of the name.
    static func read(
        _ names: [String], in store: any KeyValueBackend
    ) async throws(BackendError) -> [[UInt8]: AccountDocuments] {
        let records = RecordStore(backend: store)
        var requests: [ReadRequest] = []
        for name in names { requests.append(ReadRequest(try AccountRecord.key(of: name))) }
        var found: [(record: AccountRecord, account: Account, keys: LedgerKeys, version: EntryVersion)] = []
        let answers = try await store.read(requests).outcome
        guard answers.count == requests.count else { throw LedgerRules.incomplete }
        for (request, answer) in zip(requests, answers) {
            guard case .found(let entry) = try answer.get() else { continue }
            let record: AccountRecord = try records.decode(entry, request.key)
            guard let account = record.activeAccount else { continue }
            found.append((record, account, try LedgerKeys(account), entry.version))
        }
        let ledgers = try await store.read(
            found.flatMap { [ReadRequest($0.keys.ledger), ReadRequest($0.keys.serverLedger)] }
        ).outcome
        guard ledgers.count == 2 * found.count else { throw LedgerRules.incomplete }
        var documents: [[UInt8]: AccountDocuments] = [:]
        for (index, item) in found.enumerated() {
            let entries = LedgerEntries(
                ledger: try ledgers[2 * index].get().entry, serverLedger: try ledgers[2 * index + 1].get().entry)
            documents[Array(item.record.name.utf8)] = AccountDocuments(
                record: item.record, account: item.account, keys: item.keys, recordVersion: item.version,
                entries: entries)
        }
        return documents
    }

    /// The rows of the account; `nil` if its ledger has the marker of an erasure.
    func projected(
        _ catalog: Catalog, at instant: Timestamp, former: ProjectedAccount?
    ) async throws(BackendError) -> ProjectedAccount? {
        // A large ledger takes half a second.
        try await withTaskExecutorPreference(LongWork.executor) { () async throws(BackendError) in
            let ledger = try entries.ledger.map { (entry) throws(BackendError) in
                try LedgerRules.stored(entry, keys.ledger)
            }
            guard ledger?.isErased != true else { return nil }
            let server = try entries.serverLedger.map { (entry) throws(BackendError) in
                try LedgerRules.stored(entry, keys.serverLedger)
            }
            return ProjectedAccount(
                record, account, versions: versions,
                facts: Facts(account: ledger ?? Ledger(), server: server ?? Ledger()), catalog: catalog, at: instant,
                former: former)
        }
    }
}
