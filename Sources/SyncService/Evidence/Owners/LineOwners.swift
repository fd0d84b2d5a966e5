import EntitlementSync
import Entitlements
import StoreEvidence
import SyncCore

/// The owners of lines by verified evidence: one record per line, `lines/STORE/ENVIRONMENT/LINE`, written by
/// compare-and-swap.
///
/// A line is a purchase with all its renewals. Its first owner is the living account whose token the store signed, or
/// else the account that sent the evidence. Afterwards the ownership policy decides. The owner's server ledger is read
/// before the record and written under the version that was read, so a writer that lost the line cannot write: a
/// transfer writes the former owner's ledger after the record.
struct LineOwners: Sendable {
    let records: RecordStore
    let policy: ServiceConfiguration.Ownership

    /// The number of owners of a shared line.
    static let capacity = 8
    /// The age from which a claim is free if the owner's server ledger does not hold the line, in milliseconds.
    static let freeAfter = TransactionOwners.freeAfter
    /// The age up to which a signed transaction proves a restore, in milliseconds.
    static let restorePeriod: Int64 = 3_600_000
    /// The time between two transfers of one line, in milliseconds.
    static let transferPause: Int64 = 86_400_000

    /// The record of a line.
    struct Record: Codable, Hashable, Sendable {
        struct Owner: Codable, Hashable, Sendable {
            var account: AccountIdentity
            /// The time of the claim, in milliseconds since 1970 UTC.
            var since: Int64
        }

        /// The owners; more than one only if lines are shared.
        var owners: [Owner]
        /// The time of the last transfer by a restore, in milliseconds since 1970 UTC.
        var transferred: Int64?
    }

    /// A request for a line.
    struct Claim: Sendable {
        var line: TransactionReference
        /// The living account whose token is in the evidence.
        var named: Account?
        /// The account that sent the evidence; `nil` for a store's notification.
        var caller: Account?
        /// The date of a signed transaction that an explicit restore presents; `nil` for any other evidence.
        var restoredAt: Timestamp?
        /// True if support moves the line to the caller, whatever the policy says.
        var isTransfer = false
    }

    /// The verdict on a claim, before anything is written.
    enum Verdict: Hashable, Sendable {
        /// The line belongs to these accounts; nothing is to be written.
        case owned([Account])
        /// The line has no owner, and the claim names none.
        case unowned
        /// The line belongs to another account, and the policy keeps it there.
        case refused
        /// The account becomes the first owner.
        case claimed(by: Account)
        /// The account becomes a further owner.
        case shared([Account], with: Account)
        /// The line moves: by a restore or by support if `isRestore` is true, or else because the owner's server ledger
        /// lacks the line.
        case moved(from: Account, to: Account, isRestore: Bool)
    }

    /// Decides about a claim.
    ///
    /// - Parameters:
    ///   - record: The record of the line; its erased owners are left out.
    ///   - isHeld: True if the server ledger of the owner holds the line.
    static func verdict(
        on claim: Claim, _ record: Record?, policy: ServiceConfiguration.Ownership, now: Int64, isHeld: Bool
    ) -> Verdict {
        let owners = record?.owners.compactMap(\.account.account) ?? []
        guard let record, let first = record.owners.first, let owner = owners.first else {
            return (claim.named ?? claim.caller).map { .claimed(by: $0) } ?? .unowned
        }
        guard let caller = claim.caller, !owners.contains(caller) else { return .owned(owners) }
        if policy == .share {
            return owners.count < capacity ? .shared(owners, with: caller) : .refused
        }
        if !isHeld, now - first.since >= freeAfter {
            let claimant = claim.named ?? caller
            return claimant == owner ? .refused : .moved(from: owner, to: claimant, isRestore: false)
        }
        if claim.isTransfer, owners.count == 1 { return .moved(from: owner, to: caller, isRestore: true) }
        guard policy == .transfer, let signed = claim.restoredAt?.milliseconds, signed > first.since,
            now - signed <= restorePeriod, now - (record.transferred ?? .min / 2) >= transferPause
        else { return .refused }
        return .moved(from: owner, to: caller, isRestore: true)
    }

    /// The refusal of a claim, which advises a restore only if one can succeed.
    func refusal(isRestore: Bool) -> String {
        let advice =
            switch (policy, isRestore) {
            case (.keepWithFirst, _):
                "log in to that account, because this server keeps a purchase with its first account"
            case (.share, _): "log in to that account, because at most \(Self.capacity) accounts share a purchase"
            case (.transfer, false): "log in to that account, or restore purchases"
            case (.transfer, true):
                "log in to that account, or restore again with a transaction that the store has signed within the last "
                    + "hour; a purchase moves at most once a day"
            }
        return "this purchase belongs to another account; \(advice)"
    }

    /// The record of `line` without its erased owners, and the version of the stored record.
    func read(
        _ line: TransactionReference
    ) async throws(BackendError) -> (record: Record?, version: EntryVersion?) {
        guard let held = try await records.read(try Self.key(of: line), as: Record.self) else { return (nil, nil) }
        var record = held.value
        record.owners = []
        for owner in held.value.owners {
            guard let account = owner.account.account, try await records.isActive(account) else { continue }
            record.owners.append(owner)
        }
        return (record, held.version)
    }

    /// The living owners of `line`.
    func owners(of line: TransactionReference) async throws(BackendError) -> [Account] {
        try await read(line).record?.owners.compactMap(\.account.account) ?? []
    }

    /// Returns those of `lines` that belong to `account`.
    func lines(
        of account: Account, among lines: [TransactionReference]
    ) async throws(BackendError) -> Set<TransactionReference> {
        var owned: Set<TransactionReference> = []
        for line in lines {
            let record = try await records.read(try Self.key(of: line), as: Record.self)?.value
            if record?.owners.contains(where: { $0.account.account == account }) == true { owned.insert(line) }
        }
        return owned
    }

    /// Adds `account` to the owners of `line` if the record still has `version`.
    ///
    /// The account's own list is written first, so that an erasure finds the line.
    func add(
        _ account: Account, to line: TransactionReference, _ record: Record?, if version: EntryVersion?, now: Int64
    ) async throws(BackendError) -> Bool {
        try await note(line, of: account)
        var record = record ?? Record(owners: [])
        record.owners.append(Record.Owner(account: AccountIdentity(account), since: now))
        guard try await records.replace(try Self.key(of: line), with: record, if: version) else { return false }
        // An erasure that ran in the meantime did not find the line.
        if try await !records.isActive(account) {
            _ = try await remove(account, from: line)
            _ = try await records.backend.delete(try noteKey(of: line, account), if: .any)
            return false
        }
        return true
    }

    /// Replaces the record of `line` if it still has `version`.
    func replace(
        _ line: TransactionReference, with record: Record, if version: EntryVersion?
    ) async throws(BackendError) -> Bool {
        for owner in record.owners {
            if let account = owner.account.account { try await note(line, of: account) }
        }
        return try await records.replace(try Self.key(of: line), with: record, if: version)
    }

    /// Enters `line` into the account's own list.
    private func note(_ line: TransactionReference, of account: Account) async throws(BackendError) {
        let bytes = try records.bytes(of: LineName(line))
        _ = try await records.backend.write(bytes, to: try noteKey(of: line, account), if: .absent)
    }

    private func noteKey(of line: TransactionReference, _ account: Account) throws(BackendError) -> EntryKey {
        try EntryKey(Holdings.linesPrefix(of: account) + name(of: line))
    }

    /// The digest of `line`, in hexadecimal, for keys that must be short.
    func name(of line: TransactionReference) -> String { hexadecimalDigest(of: "\(line)") }

    /// The lines that `account` owns.
    func all(of account: Account) async throws(BackendError) -> [(line: TransactionReference, since: Int64)] {
        var lines: [(line: TransactionReference, since: Int64)] = []
        try await records.forEach(under: Holdings.linesPrefix(of: account), as: LineName.self) {
            (_, held) async throws(BackendError) in
            let line = held.value.reference
            let record = try await records.read(try Self.key(of: line), as: Record.self)?.value
            if let owner = record?.owners.first(where: { $0.account.account == account }) {
                lines.append((line, owner.since))
            }
        }
        return lines.sorted { $0.line < $1.line }
    }

    /// Removes `account` from the owners of all its lines.
    ///
    /// - Returns: The lines that have no owner now.
    func erase(_ account: Account) async throws(BackendError) -> [TransactionReference] {
        var freed: [TransactionReference] = []
        try await records.forEach(under: Holdings.linesPrefix(of: account), as: LineName.self) {
            (_, held) async throws(BackendError) in
            if try await remove(account, from: held.value.reference) { freed.append(held.value.reference) }
        }
        return freed
    }

    private func remove(_ account: Account, from line: TransactionReference) async throws(BackendError) -> Bool {
        let key = try Self.key(of: line)
        for _ in 0..<32 {
            guard let held = try await records.read(key, as: Record.self),
                held.value.owners.contains(where: { $0.account.account == account })
            else { return false }
            var record = held.value
            record.owners.removeAll { $0.account.account == account }
            // The date of the last transfer is kept only beside an owner. An erased owner frees the line completely.
            let next = record.owners.isEmpty ? nil : record
            if try await records.replace(key, with: next, if: held.version) { return next == nil }
        }
        throw BackendError(.busy, operation: .write, key: key, message: "this line keeps changing; try again")
    }

    static func key(of line: TransactionReference) throws(BackendError) -> EntryKey {
        try EntryKey("lines/" + line.path)
    }
}

/// A line, or a transaction, in a record of the server.
struct LineName: Codable, Hashable, Sendable {
    var store: String
    var environment: String
    var id: String

    init(store: String, environment: String, id: String) {
        (self.store, self.environment, self.id) = (store, environment, id)
    }

    init(_ line: TransactionReference) {
        (store, environment, id) = (line.store.rawValue, line.environment.rawValue, line.id.rawValue)
    }

    var reference: TransactionReference {
        TransactionReference(store: StoreID(store), environment: EnvironmentID(environment), id: TransactionID(id))
    }
}

extension TransactionReference {
    /// The levels of a key that names the transaction.
    var path: String {
        [store.rawValue, environment.rawValue, id.rawValue].map(LedgerKeys.escaped).joined(separator: "/")
    }
}
