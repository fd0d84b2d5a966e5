import EntitlementSync
import Entitlements
import StoreEvidence
import SyncCore

/// The owners of purchases: one record for each line and transaction, `owners/STORE/ENVIRONMENT/ID`, written by
/// compare-and-swap. ``Ownership`` decides.
///
/// The owner's server ledger is read before the record and written under the version that was read. So a writer that
/// lost the line cannot write: a transfer writes the former owner's ledger after the record.
struct Owners: Sendable {
    let records: RecordStore
    let policy: ServiceConfiguration.Ownership
    let writer: ServerLedgerWriter

    typealias Stored = RecordStore.Versioned<Ownership>

    static let prefix = "owners/"
    /// The number of records that are read or written at once.
    static let chunkCount = 256

    /// Ids are up to 255 bytes long. They fit into a key unless too many slashes must be escaped.
    static func key(of transaction: TransactionReference) throws(BackendError) -> EntryKey {
        try EntryKey(prefix + transaction.path)
    }

    func read(_ transaction: TransactionReference) async throws(BackendError) -> Stored? {
        try await records.read(try Self.key(of: transaction))
    }

    /// The records of at most ``chunkCount`` transactions, in one call.
    func read(
        _ transactions: [TransactionReference]
    ) async throws(BackendError) -> [TransactionReference: Stored] {
        guard !transactions.isEmpty else { return [:] }
        let requests = try transactions.map { (name) throws(BackendError) in ReadRequest(try Self.key(of: name)) }
        let results = try await records.backend.read(requests).outcome
        guard results.count == requests.count else { throw LedgerRules.incomplete }
        var found: [TransactionReference: Stored] = [:]
        for (index, result) in results.enumerated() {
            guard case .found(let entry) = try result.get() else { continue }
            let value: Ownership = try records.decode(entry, requests[index].key)
            found[transactions[index]] = Stored(value: value, version: entry.version)
        }
        return found
    }

    /// Changes a record by compare-and-swap. An empty record is deleted.
    func change(
        _ transaction: TransactionReference, _ next: (Ownership) async throws(BackendError) -> Ownership
    ) async throws(BackendError) {
        let key = try Self.key(of: transaction)
        for _ in 0..<32 {
            let held = try await read(transaction)
            let next = try await next(held?.value ?? Ownership())
            guard next != held?.value ?? Ownership() else { return }
            if try await records.replace(key, with: next.isEmpty ? nil : next, if: held?.version) { return }
        }
        throw BackendError(.busy, operation: .write, key: key, message: "this record keeps changing; try again")
    }

    /// The record of `line` without its erased owners, and the version of the stored record.
    func living(_ line: TransactionReference) async throws(BackendError) -> (record: Ownership, version: EntryVersion?)
    {
        guard let held = try await read(line) else { return (Ownership(), nil) }
        var record = held.value
        record.owners = try await living(record.owners)
        return (record, held.version)
    }

    /// Those of `owners` whose accounts exist.
    func living(_ owners: [Ownership.Owner]) async throws(BackendError) -> [Ownership.Owner] {
        var living: [Ownership.Owner] = []
        for owner in owners {
            guard let account = owner.account.account, try await records.isActive(account) else { continue }
            living.append(owner)
        }
        return living
    }

    /// The living accounts that have proved `line`.
    func accounts(of line: TransactionReference) async throws(BackendError) -> [Account] {
        try await living(line).record.owners.compactMap(\.account.account)
    }

    /// The living accounts to which `transaction` belongs: by proof, or else by a claim.
    func holders(of transaction: TransactionReference) async throws(BackendError) -> [Account] {
        guard let record = try await read(transaction)?.value else { return [] }
        var holders: [Ownership.Owner] = []
        if let line = record.line { holders = try await living(line.reference).record.owners }
        if holders.isEmpty { holders = try await living(record.owners) }
        if holders.isEmpty, let claim = record.claim { holders = try await living([claim]) }
        return holders.compactMap(\.account.account)
    }

    /// The living accounts whose clients have reported `transaction`.
    func reporters(of transaction: TransactionReference) async throws(BackendError) -> [Account] {
        guard let record = try await read(transaction)?.value else { return [] }
        let reporters = (record.claim.map { [$0] } ?? []) + (record.reporters ?? [])
        return try await living(reporters).compactMap(\.account.account)
    }

    /// Returns those of `lines` that `account` has proved.
    func lines(
        of account: Account, among lines: [TransactionReference]
    ) async throws(BackendError) -> Set<TransactionReference> {
        var owned: Set<TransactionReference> = []
        for line in lines where try await read(line)?.value.owners.contains(where: { $0.isOf(account) }) == true {
            owned.insert(line)
        }
        return owned
    }

    /// The lines that `account` has proved, with the times of its claims.
    func all(of account: Account) async throws(BackendError) -> [(line: TransactionReference, since: Int64)] {
        var lines: [(line: TransactionReference, since: Int64)] = []
        try await records.forEach(under: Holdings.linesPrefix(of: account), as: LineName.self) {
            (_, held) async throws(BackendError) in
            let line = held.value.reference
            if let owner = try await read(line)?.value.owners.first(where: { $0.isOf(account) }) {
                lines.append((line, owner.since))
            }
        }
        return lines.sorted { $0.line < $1.line }
    }

    /// Adds `account` to the owners of `line`, whose `record` must have no erased owners, if it still has `version`.
    ///
    /// The account's own list is written first, so that an erasure finds the line.
    func add(
        _ account: Account, to line: TransactionReference, _ record: Ownership, if version: EntryVersion?, now: Int64
    ) async throws(BackendError) -> Bool {
        try await Self.list(line, for: account, in: records)
        var record = record
        record.owners.append(Ownership.Owner(account: AccountIdentity(account), since: now))
        guard try await records.replace(try Self.key(of: line), with: record, if: version) else { return false }
        // An erasure that ran in the meantime did not find the line.
        if try await !records.isActive(account) {
            try await release([line], of: account)
            _ = try await records.backend.delete(try Self.listKey(of: line, account), if: .any)
            return false
        }
        return true
    }

    /// Enters `line` into the account's own list.
    static func list(
        _ line: TransactionReference, for account: Account, in records: RecordStore
    ) async throws(BackendError) {
        let bytes = try records.bytes(of: LineName(line))
        _ = try await records.backend.write(bytes, to: try listKey(of: line, account), if: .absent)
    }

    static func listKey(of line: TransactionReference, _ account: Account) throws(BackendError) -> EntryKey {
        try EntryKey(Holdings.linesPrefix(of: account) + name(of: line))
    }

    /// The digest of `line`, in hexadecimal, for keys that must be short.
    static func name(of line: TransactionReference) -> String { hexadecimalDigest(of: "\(line)") }

    /// Gives up those of `transactions` that belong to `account`. The next account that records one becomes its owner.
    func release(_ transactions: [TransactionReference], of account: Account) async throws(BackendError) {
        for transaction in transactions {
            try await change(transaction) { (record) async throws(BackendError) in
                var isLineFree = false
                if let line = record.line?.reference, line != transaction {
                    isLineFree = try await read(line)?.value.owners.allSatisfy { $0.isOf(account) } ?? true
                }
                return record.release(account, isLineFree: isLineFree)
            }
        }
    }

    /// Removes `account` from the owners and the reporters of all its lines. Transfers from and to it are finished
    /// first.
    ///
    /// - Returns: The lines that have no owner now.
    func erase(_ account: Account) async throws(BackendError) -> [TransactionReference] {
        var freed: [TransactionReference] = []
        try await records.forEach(under: Holdings.linesPrefix(of: account), as: LineName.self) {
            (_, held) async throws(BackendError) in
            let line = held.value.reference
            try await finishTransfer(of: line)
            let isOwned = try await lines(of: account, among: [line]).contains(line)
            try await release([line], of: account)
            if isOwned, try await read(line)?.value.owners.isEmpty ?? true { freed.append(line) }
        }
        return freed
    }
}
