import EntitlementSync
import Entitlements
import SyncCore

// The claims of clients.
//
// An account claims the transactions of a ledger before the ledger is stored. If the ledger is not stored, the claims
// are removed or become free, by these rules:
//
// 1. Every attempt to store a ledger holds each of its claims by a write of its own: it creates the claim, or renews
//    one of its account. A ledger is stored only if its key still has the version that was read before the claims were
//    made. Proofs need no renewal, because no claim takes them over.
// 2. An attempt whose ledger certainly was not and will not be stored removes the claims that it created, each only if
//    the record is unchanged. A renewed claim stays, because an earlier attempt may rely on it. It is removed once
//    another ledger of the account is stored, because no earlier attempt can be stored after that.
// 3. Another account may take over a claim that is older than ``Ownership/freeAfter`` and whose ledger does not hold
//    the transaction. It reads the claim, reads the owner's ledger, stores that ledger again under the condition that
//    it is unchanged, and finally replaces the claim under the condition that it is unchanged. If all steps succeed, no
//    attempt can rely on the claim: such an attempt would have written the record before it was read, and would have
//    read the ledger's version even earlier, but this version no longer exists. The proof needs no clock; the age only
//    spares the owner needless conflicts.
//
// The claims of a server that crashed wait for rule 3.
extension Owners {
    /// The number of other accounts' ledgers that one request may decode. For this request, the claims of further
    /// accounts are not free.
    static let ledgerCount = 4

    /// One attempt to store a ledger.
    struct Attempt: Sendable {
        let account: Account
        let owner: Ownership.Owner
        /// The transactions that it has claimed, or may have claimed.
        fileprivate(set) var transactions: [TransactionReference] = []

        /// A new attempt of `account`; `id` is random.
        init(of account: Account, at now: Int64, id: UInt64) {
            self.account = account
            owner = Ownership.Owner(
                account: AccountIdentity(account), since: now, attempt: String(id, radix: 16))
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
        guard attempt.account.name != nil else { return [] }
        guard policy != .share else {
            try await addReporter(attempt.account, since: attempt.owner.since, of: transactions)
            return []
        }
        let bytes = try records.bytes(of: Ownership(claim: attempt.owner))
        var refused: Set<TransactionReference> = []
        var claims: [TransactionReference: Stored] = [:]
        for start in stride(from: 0, to: transactions.count, by: Self.chunkCount) {
            let chunk = transactions[start..<min(start + Self.chunkCount, transactions.count)]
            let requests = try chunk.map { (transaction) throws(BackendError) in
                WriteRequest(try Self.key(of: transaction), value: bytes, if: .absent)
            }
            // Recorded before the write, which may take effect although it fails.
            attempt.transactions += chunk
            let results = try await records.backend.write(requests).outcome
            guard results.count == chunk.count else { throw LedgerRules.incomplete }
            for (transaction, result) in zip(chunk, results) {
                if case .success(.written) = result { continue }
                guard let (stored, claim) = try await claim(transaction, for: attempt.owner, others) else { continue }
                refused.insert(transaction)
                if claim != nil { claims[transaction] = stored }
            }
        }
        return refused.subtracting(try await takeOver(claims, for: attempt.owner, others))
    }

    /// Adds an account to the reporters of those of `transactions` that a store may refund.
    ///
    /// The account's own list is written first, so that an erasure finds the transactions.
    private func addReporter(
        _ account: Account, since: Int64, of transactions: [TransactionReference]
    ) async throws(BackendError) {
        let reporter = Ownership.Owner(account: AccountIdentity(account), since: since)
        let transactions = transactions.filter { StoreID.notifying.contains($0.store) }
        for transaction in transactions {
            try await Self.list(transaction, for: account, in: records)
            try await change(transaction) { $0.report(by: reporter) }
        }
        // An erasure that ran in the meantime did not find them.
        if transactions.isEmpty { return }
        guard try await !records.isActive(account) else { return }
        try await release(transactions, of: account)
        for transaction in transactions {
            _ = try await records.backend.delete(try Self.listKey(of: transaction, account), if: .any)
        }
    }

    /// Claims one transaction that already had a record, or whose outcome was unknown.
    ///
    /// - Returns: The record by which another account holds it, and that account's claim; `nil` on success.
    private func claim(
        _ transaction: TransactionReference, for new: Ownership.Owner, _ others: Others
    ) async throws(BackendError) -> (Stored, Ownership.Owner?)? {
        let key = try Self.key(of: transaction)
        for _ in 0..<32 {
            let (stored, verdict) = try await verdict(on: new, about: transaction, others)
            switch verdict {
            case .held: return nil
            case .refused(let claim): return stored.map { ($0, claim) }
            case .claimed(let next):
                // The line that the record names may have got an owner in the meantime.
                if try await records.replace(key, with: next, if: stored?.version), next.line == nil { return nil }
            }
        }
        throw BackendError(.busy, key: key, message: "other servers keep changing this claim; try again")
    }

    /// The verdict on the claim `new` to `transaction`, and the record.
    private func verdict(
        on new: Ownership.Owner, about transaction: TransactionReference, _ others: Others
    ) async throws(BackendError) -> (Stored?, Ownership.ClaimVerdict) {
        let stored = try await read(transaction)
        let record = stored?.value ?? Ownership()
        var owners: [Ownership.Owner] = []
        if let line = record.line { owners = await living(try await read(line.reference)?.value.owners, new, others) }
        if owners.isEmpty { owners = await living(record.owners, new, others) }
        let isErased = owners.isEmpty ? await living(record.claim.map { [$0] }, new, others).isEmpty : false
        return (stored, record.claim(new, owners: owners, isErased: isErased))
    }

    /// Those of `owners` that are not erased. The account of `new` is not.
    private func living(
        _ owners: [Ownership.Owner]?, _ new: Ownership.Owner, _ others: Others
    ) async -> [Ownership.Owner] {
        guard let owners, !owners.isEmpty else { return [] }
        if let own = owners.first(where: { $0.account.account == new.account.account }) { return [own] }
        do throws(BackendError) { return try await living(owners) } catch {
            others.onError(error)
            return owners
        }
    }

    /// Takes over the claims that are free, by rule 3.
    ///
    /// - Returns: The transactions that it took over.
    private func takeOver(
        _ claims: [TransactionReference: Stored], for new: Ownership.Owner, _ others: Others
    ) async throws(BackendError) -> Set<TransactionReference> {
        var taken: Set<TransactionReference> = []
        for group in await unheld(claims, for: new, others) where await fence(group, others) {
            for transaction in group.transactions {
                guard let held = claims[transaction], let next = held.value.expire(by: new),
                    try await records.replace(try Self.key(of: transaction), with: next, if: held.version)
                else { continue }
                taken.insert(transaction)
            }
        }
        return taken
    }

    /// The subset of `transactions` that `account` can claim now.
    func free(
        among transactions: some Sequence<TransactionReference>, for account: Account, at now: Int64,
        beside others: Others
    ) async throws(BackendError) -> Set<TransactionReference> {
        let new = Ownership.Owner(account: AccountIdentity(account), since: now)
        var free: Set<TransactionReference> = []
        var claims: [TransactionReference: Stored] = [:]
        for transaction in transactions {
            let (stored, verdict) = try await verdict(on: new, about: transaction, others)
            switch verdict {
            case .held, .claimed: free.insert(transaction)
            case .refused(let claim): if claim != nil { claims[transaction] = stored }
            }
        }
        for group in await unheld(claims, for: new, others) { free.formUnion(group.transactions) }
        return free
    }

    /// Removes claims that have not changed since an attempt made them.
    ///
    /// - Parameter isComplete: True if no earlier attempt of the account can be stored any more. Otherwise claims that
    ///   the attempt renewed are kept.
    /// - Returns: The transactions whose claims are kept.
    func release(
        _ transactions: [TransactionReference], of attempt: Ownership.Owner, isComplete: Bool
    ) async throws(BackendError) -> [TransactionReference] {
        var kept: [TransactionReference] = []
        for start in stride(from: 0, to: transactions.count, by: Self.chunkCount) {
            let chunk = Array(transactions[start..<min(start + Self.chunkCount, transactions.count)])
            let stored = try await read(chunk)
            var requests: [WriteRequest] = []
            for transaction in chunk {
                // A claim beside a proof stays until its account is refused.
                guard let held = stored[transaction], let claim = held.value.claim, claim.attempt == attempt.attempt,
                    held.value == Ownership(claim: claim)
                else { continue }
                if claim.isRenewal == true, !isComplete {
                    kept.append(transaction)
                } else {
                    let key = try Self.key(of: transaction)
                    requests.append(WriteRequest(key, value: nil, if: .matches(held.version)))
                }
            }
            guard !requests.isEmpty else { continue }
            for result in try await records.backend.write(requests).outcome { _ = try result.get() }
        }
        return kept
    }

    /// Transactions that the ledger of their claims does not hold.
    private struct Unheld {
        var key: EntryKey
        var entry: Entry?
        var isErased = false
        var transactions: [TransactionReference]
    }

    /// Those of `claims` that are old enough to be replaced by `new`, and whose ledger does not hold the transaction,
    /// by ledger. An account whose ledger cannot be read or decoded keeps its claims.
    private func unheld(
        _ claims: [TransactionReference: Stored], for new: Ownership.Owner, _ others: Others
    ) async -> [Unheld] {
        var groups: [EntryKey: [TransactionReference]] = [:]
        for (transaction, held) in claims where held.value.expire(by: new) != nil {
            // Without a name that fits into a key there is no ledger to compare with, so the claim is not free.
            guard let owner = held.value.claim?.account.account, let key = try? LedgerKeys(owner).ledger else {
                continue
            }
            groups[key, default: []].append(transaction)
        }
        var unheld: [Unheld] = []
        for (key, transactions) in groups.sorted(by: { $0.key < $1.key }).prefix(Self.ledgerCount) {
            var group = Unheld(key: key, transactions: transactions.sorted())
            do throws(BackendError) {
                if let entry = try await records.backend.read(key).outcome.entry {
                    others.charge(entry.value.count)
                    let ledger = try await others.decoder.ledger(in: entry, under: key)
                    (group.entry, group.isErased) = (entry, ledger.isErased)
                    group.transactions.removeAll(where: Set(ledger.transactions).contains)
                }
                if !group.transactions.isEmpty { unheld.append(group) }
            } catch {
                others.onError(error)
            }
        }
        return unheld
    }

    /// Stores the ledger again, so that no attempt that has read its former version can store it afterwards.
    ///
    /// - Returns: `false` if the ledger has changed since it was read, its version stays the same, or the store fails.
    private func fence(_ group: Unheld, _ others: Others) async -> Bool {
        // No ledger is ever stored in the place of the marker.
        if group.isErased { return true }
        let bytes = group.entry?.value ?? LedgerDocument().encoded()
        let precondition = group.entry.map { Precondition.matches($0.version) } ?? .absent
        do throws(BackendError) {
            let outcome = try await records.backend.write(bytes, to: group.key, if: precondition).outcome
            guard case .written(let version) = outcome else { return false }
            return version != group.entry?.version
        } catch {
            others.onError(error)
            return false
        }
    }
}

extension Ledger {
    /// The transactions of its purchases.
    var transactions: [TransactionReference] {
        records.compactMap(\.purchase?.transaction)
    }
}
