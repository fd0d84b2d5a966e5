import EntitlementSync
// `precomposedStringWithCanonicalMapping` is missing in FoundationEssentials.
import Foundation
import SyncCore

/// Further names of accounts, in `server/names/NAME`, without regard to case.
///
/// An alias is claimed by compare-and-swap. It never hides an account, because the name of an account is looked up
/// first, and no alias is given to one account that is the name of another.
struct AccountAliases: Sendable {
    let records: RecordStore

    private static let prefix = KeyScope.serverPrefix + "names/"

    private static func key(of name: String) throws(BackendError) -> EntryKey {
        try EntryKey(prefix + LedgerKeys.escaped(name.precomposedStringWithCanonicalMapping.lowercased()))
    }

    /// The name of the account that `name` means: itself if it is the name of an account, or if it means none.
    func resolve(_ name: String) async throws(BackendError) -> String {
        guard AccountName.canExist(name), try await !isAccount(name),
            let account = try await records.read(try Self.key(of: name), as: AccountIdentity.self)?.value.account,
            try await records.isActive(account)
        else { return name }
        return account.name ?? name
    }

    /// Claims `name` for `account`.
    ///
    /// - Returns: `false` if it means another account, or if the account has 100 names.
    func claim(_ name: String, for account: Account) async throws(BackendError) -> Bool {
        if name != account.name, try await isAccount(name) { return false }
        let key = try Self.key(of: name)
        let noted = try await AccountEntries(records: records).note([key], of: account, under: Self.prefix)
        guard !noted.isEmpty else { return false }
        let holder = try await records.update(key) { (held: AccountIdentity?) async throws(BackendError) in
            if let holder = held?.account, holder != account, try await records.isActive(holder) { return held }
            return AccountIdentity(account)
        }
        if holder?.account == account { return true }
        try await AccountEntries(records: records).remove(key, of: account)
        return false
    }

    /// Claims an account's own name, so that it is unique without regard to case. An account that was created without a
    /// façade has not claimed it. An alias of another account stays.
    func claimOwnName(of account: Account) async throws(BackendError) {
        guard let name = account.name else { return }
        if let holder = try await records.read(try Self.key(of: name), as: AccountIdentity.self)?.value.account,
            try await records.isActive(holder)
        {
            return
        }
        _ = try await claim(name, for: account)
    }

    /// Releases `name` of `account`, unless it is the account's own name.
    func release(_ name: String, of account: Account) async throws(BackendError) {
        let key = try Self.key(of: name)
        if let own = account.name, try Self.key(of: own) == key { return }
        try await AccountEntries(records: records).remove(key, of: account)
    }

    private func isAccount(_ name: String) async throws(BackendError) -> Bool {
        guard AccountName.canExist(name) else { return false }
        return try await records.read(try AccountRecord.key(of: name), as: AccountRecord.self)?.value.incarnation != nil
    }
}
