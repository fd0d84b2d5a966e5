import EntitlementSync
import Entitlements
import SyncCore

// Claims that a store's signature proves. They end the claims of clients.
extension TransactionOwners {
    private static let evidenceChunkCount = 256

    /// Makes `account` the owner of `transactions`, whose line it owns by verified evidence.
    ///
    /// A claim that a client of another account has made ends, and that account gets a refusal. The new claim names the
    /// former account until the refusal is written, so that a repetition finishes what was interrupted.
    ///
    /// - Parameter mayReplace: Returns `true` if `account` may replace a verified claim of another account.
    func own(
        _ transactions: [TransactionReference], for account: Account, writer: ServerLedgerWriter,
        mayReplace: (TransactionReference) async throws(BackendError) -> Bool
    ) async throws(BackendError) {
        guard policy != .share else { return }
        let owner = Owner(
            account: account.name ?? "", incarnation: account.incarnation, since: writer.now(), isVerified: true)
        let bytes = try records.bytes(of: owner)
        for start in stride(from: 0, to: transactions.count, by: Self.evidenceChunkCount) {
            let chunk = transactions[start..<min(start + Self.evidenceChunkCount, transactions.count)]
            let reads = try chunk.map { (transaction) throws(BackendError) in
                ReadRequest(try Self.key(of: transaction))
            }
            let found = try await records.backend.read(reads).outcome
            guard found.count == chunk.count else { throw LedgerRules.incomplete }
            var absent: [EntryKey] = []
            for (read, result) in zip(reads, found) where try result.get() == .absent { absent.append(read.key) }
            var done: Set<EntryKey> = []
            if !absent.isEmpty {
                let requests = absent.map { WriteRequest($0, value: bytes, if: .absent) }
                for (key, result) in zip(absent, try await records.backend.write(requests).outcome) {
                    if case .success(.written) = result { done.insert(key) }
                }
            }
            for (transaction, read) in zip(chunk, reads) where !done.contains(read.key) {
                try await own(transaction, read.key, owner, account, writer, mayReplace)
            }
        }
    }

    private func own(
        _ transaction: TransactionReference, _ key: EntryKey, _ owner: Owner, _ account: Account,
        _ writer: ServerLedgerWriter, _ mayReplace: (TransactionReference) async throws(BackendError) -> Bool
    ) async throws(BackendError) {
        for _ in 0..<32 {
            let held = try await records.read(key, as: Owner.self)
            var next = owner
            if let value = held?.value {
                if value.isOf(account) {
                    if let displaced = value.displaced?.account { try await refuse(transaction, to: displaced, writer) }
                    if value.isVerified == true, value.displaced == nil { return }
                } else if let other = try? Account(value.account, incarnation: value.incarnation) {
                    if value.isVerified == true, try await !mayReplace(transaction) { return }
                    next.displaced = AccountIdentity(other)
                }
            }
            guard try await records.replace(key, with: next, if: held?.version) else { continue }
            if next.displaced == nil { return }
        }
        throw BackendError(.busy, operation: .write, key: key, message: "this claim keeps changing; try again")
    }

    private func refuse(
        _ transaction: TransactionReference, to account: Account, _ writer: ServerLedgerWriter
    ) async throws(BackendError) {
        let now = Timestamp(milliseconds: writer.now())
        try await writer.update(account) { (ledger) async throws(BackendError) in
            switch ledger.decision(about: transaction) {
            case .refused, .transferred: break
            case .accepted, .countsAsOf, nil:
                ledger.decide(.refused(Self.provedByAnother), about: CollectionOfOne(transaction), at: now)
            }
        }
    }
}
