import EntitlementSync
import Entitlements
// `precomposedStringWithCanonicalMapping` is missing in FoundationEssentials.
import Foundation
import HTTPTypes
package import SyncCore

/// The names by which accounts are found beside their exact own names, in `server/names/NAME`: their own names and
/// further names, each folded (``AccountName/folded(_:)``).
///
/// A folded name belongs to the account that has reserved it by compare-and-swap. A sign-up reserves the name first and
/// creates the account then. A reservation by an account that does not exist yet can be taken over, because its
/// sign-up may have been interrupted. First, that incarnation is marked as erased in the record of its name, by
/// compare-and-swap like its creation. So either the account exists, and the reservation stays, or it will never exist.
/// Of two sign-ups for one folded name at two servers exactly one creates an account.
///
/// Accounts of earlier versions may share a folded name. The oldest of them owns it, and each is found by its exact
/// name, which is looked up first. The reservation lists the others, and passes to the oldest of them when its owner is
/// erased. The accounts of another issuer reserve no name.
package struct AccountAliases: Sendable {
    let records: RecordStore

    static let prefix = KeyScope.serverPrefix + "names/"

    /// The name that a key reserves; `nil` for any other key. ``TransactionNames`` have the same prefix and more parts.
    static func name(of key: EntryKey) -> String? {
        let part = key.text.dropFirst(prefix.count)
        return key.hasPrefix(prefix) && !part.contains("/") ? LedgerKeys.unescaped(String(part)) : nil
    }

    /// The key of the reservation of a name.
    static func key(of name: String) throws(BackendError) -> EntryKey {
        let folded = AccountName.folded(name)
        // A character can fold to many. An account of an earlier version has only its exact name then.
        return try key(storing: folded.utf8.count <= maximumIdentifierByteCount ? folded : name)
    }

    /// The key under which earlier versions stored an alias: composed, and in lower case. If that is no folded name,
    /// then no reservation has this key.
    private static func earlierKey(of name: String) throws(BackendError) -> EntryKey {
        try key(storing: name.precomposedStringWithCanonicalMapping.lowercased())
    }

    private static func key(storing text: String) throws(BackendError) -> EntryKey {
        try EntryKey(prefix + LedgerKeys.escaped(text))
    }

    /// The name of the account that `name` means in the store of a server.
    package static func resolve(_ name: String, in store: any KeyValueBackend) async throws(BackendError) -> String {
        try await AccountAliases(records: RecordStore(backend: store)).resolve(name)
    }

    /// The name of the account that `name` means: itself if it is the name of an account, or if it means none.
    func resolve(_ name: String) async throws(BackendError) -> String {
        guard AccountName.canExist(name), try await !isAccount(name) else { return name }
        let (earlier, key) = (try Self.earlierKey(of: name), try Self.key(of: name))
        // The earlier key is closer to what the user has typed.
        for key in earlier == key ? [key] : [earlier, key] {
            if let account = try await records.read(key, as: AccountIdentity.self)?.value.account,
                try await records.isActive(account)
            {
                return account.name ?? name
            }
        }
        return name
    }

    /// The name of the account that an operator means by `name`: exactly this one if such an account exists or was
    /// erased. So a repeated erasure reaches no account of another spelling.
    ///
    /// - Throws: ``RequestError`` if accounts of several other spellings may be meant, or the store's error.
    func resolveExactly(_ name: String) async throws -> String {
        guard AccountName.canExist(name) else { return name }
        if let record = try await records.account(name)?.value, !record.isUnused { return name }
        let account = try await resolve(name)
        if let others = try await records.read(try Self.key(of: name), as: AccountIdentity.self)?.value.others {
            let names = Set(others + [account]).sorted().map(\.singleLine).joined(separator: ", ")
            throw RequestError(
                .notFound, "there is no account of this exact name; use the exact one of these instead: \(names)")
        }
        return account
    }

    /// Reserves `name` for `account`, which exists or is about to be created.
    ///
    /// - Returns: `false` if it means another account, or if the account has 100 further names.
    func reserve(_ name: String, for account: Account) async throws(BackendError) -> Bool {
        if name != account.name, try await isAccount(name) { return false }
        let key = try Self.key(of: name)
        let entries = AccountEntries(records: records)
        // An erasure finds the reservation of the own name without an entry.
        let isOwn = try Self.isOwn(key, of: account)
        if !isOwn, try await entries.add([key], of: account, under: Self.prefix).isEmpty { return false }
        let holder = try await records.update(key) { (held: AccountIdentity?) async throws(BackendError) in
            if let holder = held?.account {
                if holder == account { return held }
                if try await exists(holder) { return held }
            }
            return try await heir(of: held) ?? AccountIdentity(account)
        }
        if holder?.account == account { return true }
        if !isOwn { try await entries.remove(key, of: account) }
        return false
    }

    /// Reserves an account's own name, unless it is an alias of another account, or the name of an older one.
    ///
    /// A server of an earlier version may have created the account without a reservation.
    func reserveOwnName(of account: Account) async throws(BackendError) {
        guard let name = account.name else { return }
        let key = try Self.key(of: name)
        _ = try await records.update(key) { (held: AccountIdentity?) async throws(BackendError) in
            guard let held, let holder = held.account else { return AccountIdentity(account) }
            guard holder != account else { return nil }
            guard try await exists(holder) else { return AccountIdentity(account, others: held.others) }
            guard try await isOlder(account, than: holder, key) else { return held.adding(name) }
            return AccountIdentity(account, others: held.adding(holder.name ?? "").others)
        }
    }

    /// Passes a reservation of `account` on to the oldest other account of the folded name, or deletes it if there is
    /// none.
    func end(_ key: EntryKey, of account: Account) async throws(BackendError) {
        _ = try await records.update(key) { (held: AccountIdentity?) async throws(BackendError) in
            held?.account == account ? try await heir(of: held) : nil
        }
        try await records.remove(key, as: AccountIdentity.self) { $0.account == account }
    }

    /// The reservation by the oldest active account among the others of a reservation; `nil` if there is none.
    private func heir(of reservation: AccountIdentity?) async throws(BackendError) -> AccountIdentity? {
        var oldest: AccountRecord?
        for name in reservation?.others ?? [] {
            guard let record = try await records.account(name)?.value, let account = record.activeAccount,
                record.issuer == nil,
                account != reservation?.account, record.created < oldest?.created ?? .max
            else { continue }
            oldest = record
        }
        return oldest?.activeAccount.map { AccountIdentity($0, others: reservation?.others) }
    }

    /// Releases `name` of `account`, unless it is the account's own name.
    func release(_ name: String, of account: Account) async throws(BackendError) {
        let key = try Self.key(of: name)
        guard try !Self.isOwn(key, of: account) else { return }
        let earlier = try Self.earlierKey(of: name)
        for key in earlier == key ? [key] : [earlier, key] {
            try await AccountEntries(records: records).remove(key, of: account)
        }
    }

    private static func isOwn(_ key: EntryKey, of account: Account) throws(BackendError) -> Bool {
        guard let name = account.name else { return false }
        return try Self.key(of: name) == key
    }

    private func isAccount(_ name: String) async throws(BackendError) -> Bool {
        guard AccountName.canExist(name) else { return false }
        return try await records.account(name)?.value.incarnation != nil
    }

    /// Returns `true` if `account` is active. Otherwise it can never be created from now on.
    private func exists(_ account: Account) async throws(BackendError) -> Bool {
        guard let name = account.name else { return false }
        var isActive = false
        _ = try await records.updateAccount(name) { known in
            isActive = known?.activeAccount == account
            guard !isActive, known?.issuer == nil, known?.isErased(account.incarnation) != true else { return nil }
            var record = known ?? AccountRecord(name: name, created: 0)
            record.erased.append(account.incarnation)
            return record
        }
        return isActive
    }

    /// Returns `true` if both accounts are called by the name of `key`, and `account` was created first.
    private func isOlder(
        _ account: Account, than holder: Account, _ key: EntryKey
    ) async throws(BackendError) -> Bool {
        guard let name = account.name, let other = holder.name, try Self.isOwn(key, of: holder),
            let own = try await records.account(name)?.value, let others = try await records.account(other)?.value
        else { return false }
        return own.created < others.created
    }
}

extension AccountAliases {
    /// The number of records after which the progress is stored, and of names that are reserved at once.
    private static let batchCount = 500

    /// The progress of ``reserveEarlierNames(onError:)``.
    private struct Progress: Codable, Hashable, Sendable {
        /// The key that was visited last; `nil` after the end.
        var after: String?
    }

    /// Reserves the names of the accounts that earlier versions created, once for each store. A repetition continues
    /// where an interruption was. This server creates no account before the end. A server of an earlier version may
    /// still create some: their log-ins reserve their names.
    ///
    /// - Parameter onError: Receives the error of a record that cannot be read. Its account has only its exact name
    ///   until it logs in.
    func reserveEarlierNames(onError: @Sendable (BackendError) -> Void) async throws(BackendError) {
        let marker = try EntryKey(KeyScope.serverPrefix + "claimed-names")
        let stored = try await records.read(marker, as: Progress.self)?.value
        if let stored, stored.after == nil { return }
        let last = try stored?.after.map { (text) throws(BackendError) in try EntryKey(text) }
        var count = 0
        var accounts: [Account] = []
        func advance(to key: EntryKey) async throws(BackendError) {
            count += 1
            guard count.isMultiple(of: Self.batchCount) else { return }
            try await reserveOwnNames(of: accounts, onError)
            accounts = []
            try await store(Progress(after: key.text))
        }
        func store(_ progress: Progress) async throws(BackendError) {
            _ = try await records.backend.write(try records.bytes(of: progress), to: marker, if: .any)
        }
        // First the aliases, under `server/names/`, and then the own names, under `server/accounts/`.
        if last?.hasPrefix(AccountRecord.prefix) != true {
            try await records.forEach(
                under: Self.prefix, as: AccountIdentity.self, after: last, where: { Self.name(of: $0) != nil },
                onError: onError
            ) { (key, held) async throws(BackendError) in
                if let name = Self.name(of: key), try Self.key(of: name) != key, let account = held.value.account,
                    try await records.isActive(account)
                {
                    _ = try await reserve(name, for: account)
                }
                try await advance(to: key)
            }
        }
        let first = last.flatMap { $0.hasPrefix(AccountRecord.prefix) ? $0 : nil }
        try await records.forEach(under: AccountRecord.prefix, as: AccountRecord.self, after: first, onError: onError) {
            (key, held) async throws(BackendError) in
            if held.value.issuer == nil, let account = held.value.activeAccount { accounts.append(account) }
            try await advance(to: key)
        }
        try await reserveOwnNames(of: accounts, onError)
        try await store(Progress())
    }

    private func reserveOwnNames(
        of accounts: [Account], _ onError: (BackendError) -> Void
    ) async throws(BackendError) {
        guard !accounts.isEmpty else { return }
        var requests: [WriteRequest] = []
        for account in accounts {
            let value = try records.bytes(of: AccountIdentity(account))
            requests.append(WriteRequest(try Self.key(of: account.name ?? ""), value: value, if: .absent))
        }
        let results = try await records.backend.write(requests).outcome
        for (account, (request, result)) in zip(accounts, zip(requests, results)) {
            if case .success(.written) = result { continue }
            do throws(BackendError) {
                if case .success(.conflict(let entry?)) = result {
                    // An attempt that was interrupted may have reserved the name.
                    let held: AccountIdentity = try records.decode(entry, request.key)
                    if held.account == account { continue }
                }
                try await reserveOwnName(of: account)
            } catch {
                guard error.kind == .damaged else { throw error }
                onError(error)
            }
        }
    }
}
