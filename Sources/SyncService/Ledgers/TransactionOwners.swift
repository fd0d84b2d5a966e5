import EntitlementSync
import Entitlements
import SyncCore

/// The owners of transactions: one entry per transaction, `tx/STORE/ENVIRONMENT/ID`, written by compare-and-swap.
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
///    transaction. It reads the claim, reads the owner's ledger, stores that ledger again under the condition that it
///    is unchanged, and finally replaces the claim under the condition that it is unchanged. If all steps succeed, no
///    attempt can rely on the claim: such an attempt would have written the entry before it was read, and would have
///    read the ledger's version even earlier, but this version no longer exists. The proof needs no clock; the age only
///    spares the owner needless conflicts.
///
/// Rule 2 does not apply to a renewed claim, because an earlier attempt may rely on it. Such a claim is removed
/// once another ledger of the account is stored, because no earlier attempt can be stored after that. The claims of a
/// server that crashed wait for rule 3.
struct TransactionOwners: Sendable {
    let records: RecordStore
    let policy: ServiceConfiguration.Ownership

    /// The age from which a claim whose ledger does not hold the transaction is free, in milliseconds.
    static let freeAfter: Int64 = 60_000
    /// The number of other accounts' ledgers that one request may decode. For this request, the claims of further
    /// accounts are not free.
    static let ledgerCount = 4
    private static let chunkCount = 256
    /// The reasons of refusals that end once the other account does not own the transaction.
    static let (recordedByAnother, provedByAnother) = (
        "another account recorded this transaction first", "another account has proved this purchase"
    )

    /// The claim of the account that recorded a transaction first.
    struct Owner: Codable, Hashable, Sendable {
        var account: String
        var incarnation: String
        /// The time at which it was written, in milliseconds since 1970 UTC.
        var since: Int64
        /// The attempt that wrote it; `nil` in claims that older servers wrote.
        var attempt: String?
        /// True if a store's signature proves the claim. Such a claim never becomes free while its account lives.
        var isVerified: Bool?
        /// The account whose claim it replaced, until that account's refusal is written.
        var displaced: AccountIdentity?

        /// Returns `true` if the claim belongs to this incarnation of an account.
        func isOf(_ other: Account) -> Bool { (try? Account(account, incarnation: incarnation)) == other }
    }

    /// One attempt to store a ledger.
    struct Attempt: Sendable {
        let account: Account
        let owner: Owner
        /// The transactions whose claims it has created, or may have created.
        fileprivate(set) var created: [TransactionReference] = []
        /// The transactions whose claims it has renewed, or may have renewed.
        fileprivate(set) var renewed: [TransactionReference] = []

        /// A new attempt of `account`; `id` is random.
        init(of account: Account, at now: Int64, id: UInt64) {
            self.account = account
            owner = Owner(
                account: account.name ?? "", incarnation: account.incarnation, since: now,
                attempt: String(id, radix: 16))
        }
    }

    /// Access to other accounts' records and ledgers. An error that concerns one of them is reported to `onError` and
    /// never thrown, because it may name the account. The claim in question is then not free.
    struct Others: Sendable {
        let decoder: LedgerDecoder
        /// Receives the number of bytes that must be decoded.
        let charge: @Sendable (Int) -> Void
        let onError: @Sendable (BackendError) -> Void
    }

    /// Claims `transactions` for an attempt.
    ///
    /// - Returns: The transactions that belong to other accounts.
    func claim(
        _ transactions: [TransactionReference], for attempt: inout Attempt, beside others: Others
    ) async throws(BackendError) -> Set<TransactionReference> {
        guard policy != .share, attempt.account.name != nil else { return [] }
        let bytes = try records.bytes(of: attempt.owner)
        var held: [OtherClaim] = []
        for start in stride(from: 0, to: transactions.count, by: Self.chunkCount) {
            let chunk = transactions[start..<min(start + Self.chunkCount, transactions.count)]
            let requests = try chunk.map { (transaction) throws(BackendError) in
                WriteRequest(try Self.key(of: transaction), value: bytes, if: .absent)
            }
            // Until the outcome is known, the attempt may have created all of them.
            attempt.created += chunk
            let results = try await records.backend.write(requests).outcome
            guard results.count == chunk.count else { throw LedgerRules.incomplete }
            for (transaction, result) in zip(chunk, results) {
                if case .success(.written) = result { continue }
                if let other = try await claim(transaction, for: &attempt, others) { held.append(other) }
            }
        }
        return try await takeOver(held, for: &attempt, others)
    }

    /// A claim of another account that is not erased.
    private struct OtherClaim: Sendable {
        var transaction: TransactionReference
        var claim: RecordStore.Versioned<Owner>
    }

    /// Claims one transaction that already had a claim, or whose outcome was unknown.
    ///
    /// - Returns: The claim of another account; `nil` if the attempt holds the claim now.
    private func claim(
        _ transaction: TransactionReference, for attempt: inout Attempt, _ others: Others
    ) async throws(BackendError) -> OtherClaim? {
        let key = try Self.key(of: transaction)
        for _ in 0..<32 {
            let held = try await records.read(key, as: Owner.self)
            if held?.value == attempt.owner { return nil }
            let isOwn = held?.value.isOf(attempt.account) ?? false
            // No other account can take over a verified claim, so it needs no renewal.
            if isOwn, held?.value.isVerified == true {
                attempt.created.removeLast(transaction)
                return nil
            }
            if let held, !isOwn, await !isErased(held.value, others) {
                attempt.created.removeLast(transaction)
                return OtherClaim(transaction: transaction, claim: held)
            }
            // Recorded before the write, which may take effect although it fails.
            if isOwn, attempt.created.removeLast(transaction) { attempt.renewed.append(transaction) }
            if try await records.replace(key, with: attempt.owner, if: held?.version) { return nil }
        }
        throw BackendError(.busy, key: key, message: "other servers keep changing this claim; try again")
    }

    /// Takes over the claims that are free, by rule 3.
    ///
    /// - Returns: The transactions whose claims remain with other accounts.
    private func takeOver(
        _ claims: [OtherClaim], for attempt: inout Attempt, _ others: Others
    ) async throws(BackendError) -> Set<TransactionReference> {
        var refused = Set(claims.map(\.transaction))
        let aged = claims.filter { Self.isAged($0.claim.value, at: attempt.owner.since) }
        for (ledgerKey, claims) in Self.byLedger(aged).prefix(Self.ledgerCount) {
            guard let ledger = await ownerLedger(ledgerKey, others) else { continue }
            let free = claims.filter { !ledger.transactions.contains($0.transaction) }
            guard !free.isEmpty, await fence(ledger, ledgerKey, others) else { continue }
            for held in free {
                let key = try Self.key(of: held.transaction)
                // Recorded before the write, which may take effect although it fails.
                attempt.created.append(held.transaction)
                if try await records.replace(key, with: attempt.owner, if: held.claim.version) {
                    refused.remove(held.transaction)
                } else {
                    attempt.created.removeLast()
                }
            }
        }
        return refused
    }

    /// The subset of `transactions` that `account` can claim now.
    func free(
        among transactions: some Sequence<TransactionReference>, for account: Account, at now: Int64,
        beside others: Others
    ) async throws(BackendError) -> Set<TransactionReference> {
        var free: Set<TransactionReference> = []
        var aged: [OtherClaim] = []
        for transaction in transactions {
            guard let held = try await records.read(try Self.key(of: transaction), as: Owner.self) else {
                free.insert(transaction)
                continue
            }
            let isErased = await isErased(held.value, others)
            if isErased || held.value.isOf(account) {
                free.insert(transaction)
            } else if Self.isAged(held.value, at: now) {
                aged.append(OtherClaim(transaction: transaction, claim: held))
            }
        }
        for (ledgerKey, claims) in Self.byLedger(aged).prefix(Self.ledgerCount) {
            guard let ledger = await ownerLedger(ledgerKey, others) else { continue }
            free.formUnion(claims.map(\.transaction).filter { !ledger.transactions.contains($0) })
        }
        return free
    }

    /// Removes the claims on `transactions` that have not changed since an attempt wrote them.
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

    /// Gives up `transaction` if it belongs to `account`. The next account that records it becomes its owner.
    func release(_ transaction: TransactionReference, of account: Account) async throws(BackendError) {
        try await records.remove(try Self.key(of: transaction), as: Owner.self) { $0.isOf(account) }
    }

    /// Releases the claims of an account that is being erased on the purchases of one of its ledgers.
    func release(all ledger: Ledger, of account: Account) async throws(BackendError) {
        for transaction in ledger.transactions { try await release(transaction, of: account) }
    }

    /// Returns `true` if the account of `owner` was erased.
    func isErased(_ owner: Owner, _ others: Others) async -> Bool {
        do throws(BackendError) {
            let key = try AccountRecord.key(of: owner.account)
            return try await records.read(key, as: AccountRecord.self)?.value.isErased(owner.incarnation) == true
        } catch {
            others.onError(error)
            return false
        }
    }

    /// Ids are up to 255 bytes long. They fit into a key unless too many slashes must be escaped.
    static func key(of transaction: TransactionReference) throws(BackendError) -> EntryKey {
        try EntryKey("tx/" + transaction.path)
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

    private static func isAged(_ owner: Owner, at now: Int64) -> Bool {
        owner.isVerified != true && now - owner.since >= freeAfter
    }

    private static func byLedger(_ claims: [OtherClaim]) -> [(key: EntryKey, value: [OtherClaim])] {
        var groups: [EntryKey: [OtherClaim]] = [:]
        for held in claims {
            // Without a name that fits into a key there is no ledger to compare with, so the claim is not free.
            guard let owner = try? Account(held.claim.value.account, incarnation: held.claim.value.incarnation),
                let key = try? LedgerKeys(owner).ledger
            else { continue }
            groups[key, default: []].append(held)
        }
        return groups.sorted { $0.key < $1.key }
    }

    /// The ledger under `key`; `nil` if it cannot be read or decoded. Its account then keeps its claims.
    private func ownerLedger(_ key: EntryKey, _ others: Others) async -> OwnerLedger? {
        do throws(BackendError) {
            guard case .found(let entry) = try await records.backend.read(key).outcome else { return OwnerLedger() }
            others.charge(entry.value.count)
            let ledger = try await others.decoder.ledger(in: entry, under: key)
            return OwnerLedger(entry: entry, isErased: ledger.isErased, transactions: Set(ledger.transactions))
        } catch {
            others.onError(error)
            return nil
        }
    }

    /// Stores the ledger again, so that no attempt that has read its former version can store it afterwards.
    ///
    /// - Returns: `false` if the ledger has changed since it was read, its version stays the same, or the store fails.
    private func fence(_ ledger: OwnerLedger, _ key: EntryKey, _ others: Others) async -> Bool {
        // No ledger is ever stored in the place of the marker.
        if ledger.isErased { return true }
        let bytes = ledger.entry?.value ?? LedgerDocument().encoded()
        let precondition = ledger.entry.map { Precondition.matches($0.version) } ?? .absent
        do throws(BackendError) {
            let outcome = try await records.backend.write(bytes, to: key, if: precondition).outcome
            guard case .written(let version) = outcome else { return false }
            return version != ledger.entry?.version
        } catch {
            others.onError(error)
            return false
        }
    }
}

extension [TransactionReference] {
    /// Removes the last occurrence of `transaction`; `false` if there is none.
    @discardableResult
    fileprivate mutating func removeLast(_ transaction: TransactionReference) -> Bool {
        guard let index = lastIndex(of: transaction) else { return false }
        remove(at: index)
        return true
    }
}

extension Ledger {
    /// The transactions of its purchases.
    var transactions: [TransactionReference] {
        records.compactMap(\.purchase?.transaction)
    }
}
