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

    /// The documents of several accounts.
    struct Batch: Sendable {
        /// The number of names whose accounts were looked up, from the first one.
        var count = 0
        /// The documents of those that exist and were not erased, by the bytes of the name. An error if a document is
        /// damaged.
        var documents: [[UInt8]: Result<AccountDocuments, BackendError>] = [:]
    }

    /// The size of ledgers after which a batch takes no more, in bytes.
    private static let byteLimit = 8 << 20

    /// Reads the documents of accounts, of as many as fit into a batch.
    static func read(
        _ names: ArraySlice<String>, in store: any KeyValueBackend
    ) async throws(BackendError) -> Batch {
        var (batch, byteCount) = (Batch(), 0)
        // The sizes of ledgers are not known before they are read.
        var size = 16
        while batch.count < names.count, byteCount < byteLimit {
            let part = names.dropFirst(batch.count).prefix(size)
            let found = try await read(Array(part), in: store)
            let bytes = found.reduce(0) { $0 + ((try? $1.value.get().entries.byteCount) ?? 0) }
            byteCount += bytes
            batch.count += part.count
            batch.documents.merge(found) { $1 }
            size = bytes < byteLimit / 8 ? size * 4 : max(1, size / 4)
        }
        return batch
    }

    private static func read(
        _ names: [String], in store: any KeyValueBackend
    ) async throws(BackendError) -> [[UInt8]: Result<AccountDocuments, BackendError>] {
        let records = RecordStore(backend: store)
        var requests: [ReadRequest] = []
        for name in names { requests.append(ReadRequest(try AccountRecord.key(of: name))) }
        var found: [(record: AccountRecord, account: Account, keys: LedgerKeys, version: EntryVersion)] = []
        let answers = try await store.read(requests).outcome
        guard answers.count == requests.count else { throw LedgerRules.incomplete }
        var documents: [[UInt8]: Result<AccountDocuments, BackendError>] = [:]
        for (name, (request, answer)) in zip(names, zip(requests, answers)) {
            do throws(BackendError) {
                guard case .found(let entry) = try answer.get() else { continue }
                let record: AccountRecord = try records.decode(entry, request.key)
                guard let account = record.activeAccount else { continue }
                found.append((record, account, try LedgerKeys(account), entry.version))
            } catch {
                guard error.kind == .damaged else { throw error }
                documents[Array(name.utf8)] = .failure(error)
            }
        }
        guard !found.isEmpty else { return documents }
        let ledgers = try await store.read(
            found.flatMap { [ReadRequest($0.keys.ledger), ReadRequest($0.keys.serverLedger)] }
        ).outcome
        guard ledgers.count == 2 * found.count else { throw LedgerRules.incomplete }
        for (index, item) in found.enumerated() {
            let name = Array(item.record.name.utf8)
            do throws(BackendError) {
                let entries = LedgerEntries(
                    ledger: try ledgers[2 * index].get().entry, serverLedger: try ledgers[2 * index + 1].get().entry)
                documents[name] = .success(
                    AccountDocuments(
                        record: item.record, account: item.account, keys: item.keys, recordVersion: item.version,
                        entries: entries))
            } catch {
                guard error.kind == .damaged else { throw error }
                documents[name] = .failure(error)
            }
        }
        return documents
    }

    /// The facts of the account; `nil` if its ledger has the marker of an erasure.
    func facts() throws(BackendError) -> Facts? {
        let ledger = try entries.ledger.map { (entry) throws(BackendError) in
            try LedgerRules.stored(entry, keys.ledger)
        }
        guard ledger?.isErased != true else { return nil }
        let server = try entries.serverLedger.map { (entry) throws(BackendError) in
            try LedgerRules.stored(entry, keys.serverLedger)
        }
        return Facts(account: ledger ?? Ledger(), server: server ?? Ledger())
    }

    /// The rows of the account; `nil` if its ledger has the marker of an erasure.
    func projected(_ catalog: Catalog, at instant: Timestamp) throws(BackendError) -> ProjectedAccount? {
        guard let facts = try facts() else { return nil }
        return ProjectedAccount(record, account, versions: versions, facts: facts, catalog: catalog, at: instant)
    }
}
