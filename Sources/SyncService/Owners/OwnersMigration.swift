import EntitlementSync
import Entitlements
import SyncCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Moves the records of owners that earlier versions wrote to ``Owners``, once for each store.
///
/// Earlier versions kept claims of transactions under `tx/…`, owners of lines under `lines/…`, and unfinished transfers
/// in full under `server/transfers/…`. Each of these records is deleted once its content is in a new one, so a
/// repetition continues with the records that are left. `server/layout` exists from the end of the migration.
///
/// Several servers of this version may migrate a store at the same time. Servers of earlier versions must be stopped.
struct OwnersMigration: Sendable {
    let records: RecordStore
    /// Receives the error of a record that cannot be read. It is moved as it is, so its purchase stays reserved.
    let onError: @Sendable (BackendError) -> Void

    /// The record `server/layout`.
    private struct Layout: Codable, Hashable, Sendable { var version: Int }

    private static let version = 2

    /// The record of a transaction in an earlier version.
    private struct Claim: Codable, Hashable, Sendable {
        var account: String
        var incarnation: String
        var since: Int64
        var attempt: String?
        var isVerified: Bool?
        var displaced: AccountIdentity?

        var owner: Account? { try? Account(account, incarnation: incarnation) }
    }

    /// The record of an unfinished transfer in an earlier version.
    private struct Journal: Codable, Hashable, Sendable {
        var line: LineName
        var loser: AccountIdentity
        var version: String
        var record: Ownership
        var isRestore: Bool
        var actor: String?
        var facts: Data
    }

    /// Checks that the store needs no migration, for programs that work beside a server.
    ///
    /// - Throws: ``SupportError`` of kind `notAServer`, or the store's error.
    func check() async throws {
        guard try await layout() == nil else { return }
        for prefix in ["tx/", "lines/"] where try await !isEmpty(prefix) {
            throw SupportError(
                .notAServer, "this store is that of an earlier version: start a server of this version on it first")
        }
    }

    /// Migrates the store unless that has happened.
    ///
    /// - Throws: `BackendError.Kind.unsupported` for the store of a later version.
    func run() async throws(BackendError) {
        if let known = try await layout() {
            guard known.version <= Self.version else {
                throw BackendError(
                    .unsupported, operation: .open,
                    message: "the store has layout \(known.version); this version reads layout \(Self.version)")
            }
            return
        }
        try await moveTransfers()
        try await moveAll(under: "lines/") { (items) async throws(BackendError) in
            for index in items.indices {
                items[index].merge(onError) { (entry, key, record) throws(BackendError) in
                    let line: Ownership = try records.decode(entry, key)
                    // A transfer that was moved before has decided already.
                    if record.owners.isEmpty { (record.owners, record.transferred) = (line.owners, line.transferred) }
                }
            }
        }
        try await moveAll(under: "tx/") { (items) async throws(BackendError) in try await mergeClaims(into: &items) }
        _ = try await records.update(try Self.key()) { (_: Layout?) in Layout(version: Self.version) }
    }

    private static func key() throws(BackendError) -> EntryKey { try EntryKey(KeyScope.serverPrefix + "layout") }

    private func layout() async throws(BackendError) -> Layout? {
        try await records.read(try Self.key(), as: Layout.self)?.value
    }

    private func isEmpty(_ prefix: String) async throws(BackendError) -> Bool {
        try await records.backend.list(prefix: prefix, after: nil, limit: 1).outcome.items.isEmpty
    }
}

extension OwnersMigration {
    /// A record of an earlier version, and the one that replaces it.
    private struct Item {
        let key: EntryKey
        let entry: Entry
        let newKey: EntryKey
        let newEntry: Entry?
        /// The new record; `nil` if one of the two cannot be read.
        var record: Ownership?

        mutating func merge(
            _ onError: (BackendError) -> Void,
            _ body: (Entry, EntryKey, inout Ownership) throws(BackendError) -> Void
        ) {
            guard var new = record else { return }
            do throws(BackendError) {
                try body(entry, key, &new)
                record = new
            } catch {
                onError(error)
                record = nil
            }
        }
    }

    /// Moves all records under `prefix`.
    ///
    /// - Parameter merge: Adds the content of records to those that replace them.
    private func moveAll(
        under prefix: String, _ merge: (inout [Item]) async throws(BackendError) -> Void
    ) async throws(BackendError) {
        // Another server may change a record in between.
        for _ in 0..<32 {
            if try await isEmpty(prefix) { return }
            try await records.backend.forEachPage(under: prefix, limit: Owners.chunkCount) {
                (page) async throws(BackendError) in
                var items = try await items(page.items.map(\.key), prefix)
                try await merge(&items)
                try await write(items)
            }
        }
        throw BackendError(.busy, operation: .open, message: "another server migrates the store; try again")
    }

    private func items(_ keys: [EntryKey], _ prefix: String) async throws(BackendError) -> [Item] {
        let newKeys = try keys.map { (key) throws(BackendError) in
            try EntryKey(Owners.prefix + key.text.dropFirst(prefix.count))
        }
        let results = try await records.backend.read((keys + newKeys).map { ReadRequest($0) }).outcome
        guard results.count == 2 * keys.count else { throw LedgerRules.incomplete }
        var items: [Item] = []
        for (index, key) in keys.enumerated() {
            guard let entry = try results[index].get().entry else { continue }
            let newEntry = try results[keys.count + index].get().entry
            var item = Item(key: key, entry: entry, newKey: newKeys[index], newEntry: newEntry, record: Ownership())
            if let newEntry {
                item.merge(onError) { (_, _, record) throws(BackendError) in
                    record = try records.decode(newEntry, newKeys[index])
                }
            }
            items.append(item)
        }
        return items
    }

    /// Writes the new records, and then deletes those that they replace.
    private func write(_ items: [Item]) async throws(BackendError) {
        let writes = try items.map { (item) throws(BackendError) in
            let damaged = item.newEntry?.value ?? item.entry.value
            let bytes = try item.record.map { (record) throws(BackendError) in try records.bytes(of: record) }
            return WriteRequest(
                item.newKey, value: bytes ?? damaged, if: item.newEntry.map { .matches($0.version) } ?? .absent)
        }
        var deletes: [WriteRequest] = []
        let written = try await records.backend.write(writes).outcome
        guard written.count == items.count else { throw LedgerRules.incomplete }
        for (item, result) in zip(items, written) {
            guard case .written = try result.get() else { continue }
            deletes.append(WriteRequest(item.key, value: nil, if: .matches(item.entry.version)))
        }
        guard !deletes.isEmpty else { return }
        for result in try await records.backend.write(deletes).outcome { _ = try result.get() }
    }

    /// Adds the claims of transactions. A proof becomes the name of the line, whose record has the owners.
    private func mergeClaims(into items: inout [Item]) async throws(BackendError) {
        // By account, so that each server ledger is read once for a page.
        var proofs: [Account: [Int]] = [:]
        for index in items.indices {
            items[index].merge(onError) { (entry, key, record) throws(BackendError) in
                let claim: Claim = try records.decode(entry, key)
                guard let account = claim.owner else {
                    throw BackendError(.damaged, operation: .read, key: key, message: "the claim names no account")
                }
                if claim.isVerified == true {
                    proofs[account, default: []].append(index)
                    guard let loser = claim.displaced else { return }
                    record.claim = Ownership.Owner(account: loser, since: claim.since)
                } else if record.claim == nil {
                    record.claim = Ownership.Owner(
                        account: AccountIdentity(account), since: claim.since, attempt: claim.attempt)
                }
            }
        }
        for (account, indices) in proofs.sorted(by: { $0.key < $1.key }) {
            let key = try LedgerKeys(account).serverLedger
            var lines: [EntryKey: TransactionReference] = [:]
            do throws(BackendError) {
                if let entry = try await records.backend.read(key).outcome.entry {
                    for purchase in try LedgerRules.stored(entry, key).records.compactMap(\.purchase) {
                        lines[try Owners.key(of: purchase.transaction)] = purchase.line
                    }
                }
            } catch {
                // The lines are unknown, so each transaction becomes one, and stays with the account.
                guard error.kind == .damaged else { throw error }
                onError(error)
                for index in indices where items[index].record?.owners.isEmpty == true {
                    items[index].record?.owners = [Ownership.Owner(account: AccountIdentity(account), since: 0)]
                }
                continue
            }
            for index in indices {
                let (line, newKey) = (lines[items[index].newKey], items[index].newKey)
                if let line, try Owners.key(of: line) != newKey {
                    items[index].record?.line = LineName(line)
                } else if items[index].record?.owners.isEmpty == true, items[index].record?.claim == nil {
                    // The proof was not recorded: its server ledger was not written.
                    items[index].record?.claim = Ownership.Owner(account: AccountIdentity(account), since: 0)
                }
            }
        }
    }

    /// Moves the unfinished transfers, each with the record of its line.
    private func moveTransfers() async throws(BackendError) {
        try await records.backend.forEachPage(under: Owners.transfersPrefix, limit: Owners.chunkCount) {
            (page) async throws(BackendError) in
            for item in page.items {
                do throws(BackendError) { try await moveTransfer(item.key) } catch {
                    guard error.kind == .damaged else { throw error }
                    onError(error)
                }
            }
        }
    }

    private func moveTransfer(_ key: EntryKey) async throws(BackendError) {
        guard let entry = try await records.backend.read(key).outcome.entry,
            (try? records.decode(entry, key) as LineName) == nil
        else { return }
        let journal: Journal = try records.decode(entry, key)
        let line = journal.line.reference
        let former = try await records.read(try EntryKey("lines/" + line.path), as: Ownership.self)
        let newKey = try Owners.key(of: line)
        let stored = try await records.read(newKey, as: Ownership.self)
        var next = journal.record
        next.transfer = Ownership.Transfer(
            from: [journal.loser], isRestore: journal.isRestore, actor: journal.actor, facts: journal.facts)
        // The transfer has happened, or happens now, unless another one came first.
        if let former, former.value == journal.record || "\(former.version)" == journal.version, stored == nil {
            for winner in next.owners.compactMap(\.account.account) {
                try await Owners.list(line, for: winner, in: records)
            }
            // Another server may have moved the same transfer.
            _ = try await records.replace(newKey, with: next, if: nil)
        }
        // Without a transfer the sweeper removes the entry.
        _ = try await records.replace(key, with: journal.line, if: entry.version)
    }
}
