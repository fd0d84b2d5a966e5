import EntitlementSync
import Entitlements
import SyncCore

/// The owners of transactions: one entry a transaction, `tx/STORE/ENVIRONMENT/ID`, written by compare-and-swap.
///
/// An account claims the transactions of a ledger before the ledger is stored. If the ledger is not stored, the claims
/// are removed or become free, by these rules:
///
/// 1. Every attempt to store a ledger holds each of its claims by a write of its own: it creates the entry, or renews
///    one of its account. A ledger is stored only if its key still has the version that was read before the claims were
///    made.
/// 2. An attempt whose ledger certainly was not and will not be stored removes the claims that it created, each only if
///    the entry is unchanged. If another attempt of the account relies on the claim, it has renewed the entry, by rule
///    1.
/// 3. Another account may take over a claim that is older than ``freeAfter`` and whose ledger does not hold the
///    transaction. It first reads the claim, then the owner's ledger, then stores that ledger anew under the condition
///    that it is unchanged, and then replaces the claim under the condition that it is unchanged. If all of this
///    succeeds, no attempt can rely on the claim any more: it would have written the entry before it was read, so it
///    has read its ledger's version before that, and this version is gone. No clock is needed for that; the age only
///    spares the owner needless conflicts.
///
/// Rule 2 never removes a claim that was renewed or taken over from the own account, because an earlier attempt may
/// rely on it. Such a claim, and those of a server that crashed, wait for rule 3 or for the account's next attempt.
struct TransactionOwners: Sendable {
    let records: RecordStore
    let policy: ServiceConfiguration.Ownership

    /// The age from which a claim whose ledger does not hold the transaction is free, in milliseconds.
    static let freeAfter: Int64 = 60_000
    private static let chunkCount = 256

    /// A claim: the account that came first.
    struct Owner: Codable, Hashable, Sendable {
        var account: String
        var incarnation: String
        /// When it was written, in milliseconds since 1970 UTC.
        var since: Int64
        /// The attempt that wrote it; `nil` in claims of older servers.
        var attempt: String?

        /// Whether it is `life`.
        func isOf(_ life: Account) -> Bool { (try? Account(account, incarnation: incarnation)) == life }
    }

    /// One attempt to store a ledger.
    struct Attempt: Sendable {
        let account: Account
        let owner: Owner
        /// The transactions whose claims it has created, or may have created.
        fileprivate(set) var created: [TransactionReference] = []

        /// An attempt of `account`; `id` is random.
        init(of account: Account, at now: Int64, id: UInt64) {
            self.account = account
            owner = Owner(
                account: account.name ?? "", incarnation: account.incarnation, since: now,
                attempt: String(id, radix: 16))
        }
    }

    /// Claims `transactions` for an attempt.
    ///
    /// - Parameter charge: Receives the number of bytes of other accounts' ledgers that must be decoded.
    /// - Returns: The transactions that belong to other accounts.
    func claim(
        _ transactions: [TransactionReference], for attempt: inout Attempt, charge: (Int) -> Void
    ) async throws(BackendError) -> Set<TransactionReference> {
        guard policy == .keepWithFirst, attempt.account.name != nil else { return [] }
        let bytes = try records.bytes(of: attempt.owner)
        var others: [Held] = []
        for start in stride(from: 0, to: transactions.count, by: Self.chunkCount) {
            let chunk = transactions[start..<min(start + Self.chunkCount, transactions.count)]
            let requests = try chunk.map { (transaction) throws(BackendError) in
                WriteRequest(try Self.key(of: transaction), value: bytes, if: .absent)
            }
            // Until the outcome is known, all may have been created.
            attempt.created += chunk
            let results = try await records.backend.write(requests).outcome
            guard results.count == chunk.count else { throw LedgerRules.incomplete }
            for (transaction, result) in zip(chunk, results) {
                if case .success(.written) = result { continue }
                let outcome = try await claim(transaction, for: attempt)
                if case .created = outcome { continue }
                if let index = attempt.created.lastIndex(of: transaction) { attempt.created.remove(at: index) }
                if case .other(let held) = outcome { others.append(held) }
            }
        }
        return try await takeOver(others, for: &attempt, charge)
    }

    /// A claim of another account that is not erased.
    private struct Held: Sendable {
        var transaction: TransactionReference
        var claim: RecordStore.Held<Owner>
    }

    private enum Outcome {
        case created, renewed
        case other(Held)
    }

    /// Claims one transaction that had a claim already, or about which the store was not sure.
    private func claim(
        _ transaction: TransactionReference, for attempt: Attempt
    ) async throws(BackendError) -> Outcome {
        let key = try Self.key(of: transaction)
        for _ in 0..<32 {
            let held = try await records.read(key, as: Owner.self)
            if held?.value == attempt.owner { return .created }
            let isOwn = held?.value.isOf(attempt.account) ?? false
            if let held, !isOwn, try await !isErased(held.value) {
                return .other(Held(transaction: transaction, claim: held))
            }
            if try await records.replace(key, with: attempt.owner, if: held?.version) {
                return isOwn ? .renewed : .created
            }
        }
        throw BackendError(.busy, key: key, message: "other servers claim this transaction all the time; try again")
    }

    /// Takes over the claims that are free, by rule 3.
    ///
    /// - Returns: The transactions of the others.
    private func takeOver(
        _ claims: [Held], for attempt: inout Attempt, _ charge: (Int) -> Void
    ) async throws(BackendError) -> Set<TransactionReference> {
        var others = Set(claims.map(\.transaction))
        let aged = claims.filter { Self.isAged($0.claim.value, at: attempt.owner.since) }
        for (ledgerKey, claims) in try Self.byLedger(aged) {
            guard let ledger = try await ownerLedger(ledgerKey, charge) else { continue }
            let free = claims.filter { !ledger.transactions.contains($0.transaction) }
            guard !free.isEmpty, try await fence(ledger, ledgerKey) else { continue }
            for held in free {
                let key = try Self.key(of: held.transaction)
                guard try await records.replace(key, with: attempt.owner, if: held.claim.version) else { continue }
                attempt.created.append(held.transaction)
                others.remove(held.transaction)
            }
        }
        return others
    }

    /// Those of `transactions` that `account` can claim now.
    func free(
        among transactions: some Sequence<TransactionReference>, for account: Account, at now: Int64,
        charge: (Int) -> Void
    ) async throws(BackendError) -> Set<TransactionReference> {
        var free: Set<TransactionReference> = []
        var aged: [Held] = []
        for transaction in transactions {
            guard let held = try await records.read(try Self.key(of: transaction), as: Owner.self) else {
                free.insert(transaction)
                continue
            }
            let isErased = try await isErased(held.value)
            if isErased || held.value.isOf(account) {
                free.insert(transaction)
            } else if Self.isAged(held.value, at: now) {
                aged.append(Held(transaction: transaction, claim: held))
            }
        }
        for (ledgerKey, claims) in try Self.byLedger(aged) {
            guard let ledger = try await ownerLedger(ledgerKey, charge) else { continue }
            free.formUnion(claims.map(\.transaction).filter { !ledger.transactions.contains($0) })
        }
        return free
    }

    /// Removes the claims on `transactions` that an attempt has created and nobody has changed since, by rule 2.
    func release(_ transactions: [TransactionReference], of owner: Owner) async throws(BackendError) {
        let bytes = try records.bytes(of: owner)
        for start in stride(from: 0, to: transactions.count, by: Self.chunkCount) {
            let keys = try transactions[start..<min(start + Self.chunkCount, transactions.count)].map {
                (transaction) throws(BackendError) in try Self.key(of: transaction)
            }
            let found = try await records.backend.read(keys.map { ReadRequest($0) }).outcome
            var requests: [WriteRequest] = []
            for (key, result) in zip(keys, found) {
                guard case .found(let entry) = try result.get(), entry.value == bytes else { continue }
                requests.append(WriteRequest(key, value: nil, if: .matches(entry.version)))
            }
            guard !requests.isEmpty else { continue }
            for result in try await records.backend.write(requests).outcome { _ = try result.get() }
        }
    }

    /// Gives up `transaction` if it is `account`'s: the next account that records it owns it.
    func release(_ transaction: TransactionReference, of account: Account) async throws(BackendError) {
        let key = try Self.key(of: transaction)
        for _ in 0..<32 {
            guard let held = try await records.read(key, as: Owner.self), held.value.isOf(account) else { return }
            if try await records.replace(key, with: Owner?.none, if: held.version) { return }
        }
        throw BackendError(.busy, key: key, message: "other servers claim this transaction all the time; try again")
    }

    private func isErased(_ owner: Owner) async throws(BackendError) -> Bool {
        let record = try await records.read(try AccountRecord.key(of: owner.account), as: AccountRecord.self)?.value
        return record?.isErased(owner.incarnation) == true
    }

    /// Ids are up to 255 bytes each. They fit into a key unless too many slashes in them must be escaped.
    private static func key(of transaction: TransactionReference) throws(BackendError) -> EntryKey {
        let parts = [transaction.store.rawValue, transaction.environment.rawValue, transaction.id.rawValue]
        return try EntryKey("tx/" + parts.map(LedgerKeys.escaped).joined(separator: "/"))
    }
}

// Claims of other accounts.
extension TransactionOwners {
    /// The ledger of a claim's account.
    private struct OwnerLedger {
        var entry: Entry?
        var isErased = false
        var transactions: Set<TransactionReference> = []
    }

    private static func isAged(_ owner: Owner, at now: Int64) -> Bool { now - owner.since >= freeAfter }

    private static func byLedger(_ claims: [Held]) throws(BackendError) -> [EntryKey: [Held]] {
        var groups: [EntryKey: [Held]] = [:]
        for held in claims {
            guard let life = try? Account(held.claim.value.account, incarnation: held.claim.value.incarnation) else {
                continue
            }
            groups[try LedgerKeys(life).ledger, default: []].append(held)
        }
        return groups
    }

    /// The ledger under `key`; `nil` for one that cannot be decoded: its account keeps its claims.
    private func ownerLedger(
        _ key: EntryKey, _ charge: (Int) -> Void
    ) async throws(BackendError) -> OwnerLedger? {
        guard case .found(let entry) = try await records.backend.read(key).outcome else { return OwnerLedger() }
        charge(entry.value.count)
        guard let ledger = try? LedgerDocument(decoding: entry.value).ledger else { return nil }
        return OwnerLedger(entry: entry, isErased: ledger.isErased, transactions: Set(ledger.transactions))
    }

    /// Makes sure that no attempt can store the ledger that has read it before.
    ///
    /// - Returns: `false` when it has changed since it was read, or its version stays the same.
    private func fence(_ ledger: OwnerLedger, _ key: EntryKey) async throws(BackendError) -> Bool {
        // Nothing is stored in the place of the marker.
        if ledger.isErased { return true }
        let bytes = ledger.entry?.value ?? LedgerDocument().encoded()
        let precondition = ledger.entry.map { Precondition.matches($0.version) } ?? .absent
        let outcome = try await records.backend.write(bytes, to: key, if: precondition).outcome
        guard case .written(let version) = outcome else { return false }
        return version != ledger.entry?.version
    }
}

extension Ledger {
    /// The transactions of its purchases.
    var transactions: [TransactionReference] {
        records.compactMap { record in
            guard record.isPurchase, case .purchase(let purchase) = Fact(record) else { return nil }
            return purchase.transaction
        }
    }
}
