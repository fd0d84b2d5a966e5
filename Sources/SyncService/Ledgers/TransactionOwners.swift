import EntitlementSync
import Entitlements
import SyncCore

/// Who owns a transaction: one entry a transaction, `tx/STORE/ENVIRONMENT/ID`, written by compare-and-swap.
struct TransactionOwners: Sendable {
    let records: RecordStore
    let policy: ServiceConfiguration.Ownership

    /// The account that came first.
    private struct Owner: Codable, Hashable, Sendable {
        var account: String
        var incarnation: String
        /// When it came, in milliseconds since 1970 UTC.
        var since: Int64

        /// Whether it is `life`.
        func isOf(_ life: Account) -> Bool { (try? Account(account, incarnation: incarnation)) == life }
    }

    /// Claims `transactions` for `account`, as many as are nobody's by one commit. An owner that was erased owns
    /// nothing any more.
    ///
    /// - Returns: those that are another account's.
    func claim(
        _ transactions: [TransactionReference], for account: Account, at now: Int64
    ) async throws(BackendError) -> Set<TransactionReference> {
        guard policy == .keepWithFirst, let name = account.name else { return [] }
        let owner = Owner(account: name, incarnation: account.incarnation, since: now)
        let bytes = try records.bytes(of: owner)
        var others: Set<TransactionReference> = []
        var rest = transactions[...]
        while !rest.isEmpty {
            let chunk = rest.prefix(Self.chunkCount)
            rest = rest.dropFirst(Self.chunkCount)
            let requests = try chunk.map { (transaction) throws(BackendError) in
                WriteRequest(try Self.key(of: transaction), value: bytes, if: .absent)
            }
            let results = try await records.backend.write(requests).outcome
            guard results.count == chunk.count else {
                throw BackendError(.other, message: "the store answered half of a question")
            }
            for (transaction, result) in zip(chunk, results) {
                if case .success(.written) = result { continue }
                if try await !claim(transaction, for: account, owner) { others.insert(transaction) }
            }
        }
        return others
    }

    /// Whether nobody has `transaction`, or only somebody who was erased.
    func isFree(_ transaction: TransactionReference) async throws(BackendError) -> Bool {
        guard let held = try await records.read(try Self.key(of: transaction), as: Owner.self) else { return true }
        return try await isErased(held.value)
    }

    private static let chunkCount = 256

    /// One that was there already, or about which the store was not sure.
    private func claim(
        _ transaction: TransactionReference, for account: Account, _ owner: Owner
    ) async throws(BackendError) -> Bool {
        let key = try Self.key(of: transaction)
        for _ in 0..<32 {
            let held = try await records.read(key, as: Owner.self)
            if let held {
                if held.value.isOf(account) { return true }
                guard try await isErased(held.value) else { return false }
            }
            if try await records.replace(key, with: owner, if: held?.version) { return true }
        }
        throw BackendError(.busy, key: key, message: "others claim this transaction all the time; try again")
    }

    /// Gives up `transaction` where it is `account`'s: whoever comes next with it owns it.
    func release(_ transaction: TransactionReference, of account: Account) async throws(BackendError) {
        let key = try Self.key(of: transaction)
        for _ in 0..<32 {
            guard let held = try await records.read(key, as: Owner.self), held.value.isOf(account) else { return }
            if try await records.replace(key, with: Owner?.none, if: held.version) { return }
        }
        throw BackendError(.busy, key: key, message: "others claim this transaction all the time; try again")
    }

    private func isErased(_ owner: Owner) async throws(BackendError) -> Bool {
        let record = try await records.read(try AccountRecord.key(of: owner.account), as: AccountRecord.self)?.value
        return record?.isErased(owner.incarnation) == true
    }

    /// Ids are up to 255 bytes each, which an entry's key has room for, unless slashes in them are escaped too often.
    private static func key(of transaction: TransactionReference) throws(BackendError) -> EntryKey {
        let parts = [transaction.store.rawValue, transaction.environment.rawValue, transaction.id.rawValue]
        return try EntryKey("tx/" + parts.map(LedgerKeys.escaped).joined(separator: "/"))
    }
}
