package import EntitlementSync
import Entitlements
import HTTPTypes
package import SyncCore

/// The ids that an app's own users have in the app's backend, in `server/external/ID`. An account has at most one.
///
/// Ids are compared as bytes: unlike names they have no spellings. Only an operator attaches them, because an account
/// that could choose one would be taken for another user.
///
/// An attachment first adds the key of the id to the account's ``AccountEntries``. Then it writes the record of the id
/// by compare-and-swap. An id counts if its record names the account and if the account lists it; the last one counts.
/// So an erasure finds every record, an interrupted attachment is completed by its repetition, and a later account of
/// the same name inherits nothing. Each attachment writes the record anew, so that a server that has found the record
/// without its listing cannot give the id to another account in between.
package struct ExternalIDs: Sendable {
    private let records: RecordStore
    private let host: HostServices
    private var entries: AccountEntries { AccountEntries(records: records) }

    /// The prefix of the keys of all records. A change under it may change the id of the account in the record, and of
    /// the account that had the id before.
    package static let prefix = KeyScope.serverPrefix + "external/"

    /// The length of an id, in bytes.
    package static let byteCounts = 1...255

    private static let attemptCount = 8

    /// The ids in a store.
    package init(records: RecordStore, host: HostServices = .system) { (self.records, self.host) = (records, host) }

    /// The record of an id. It has the members of ``AccountIdentity``, by which an erasure recognizes it.
    private struct Holder: Codable, Hashable, Sendable {
        var name: String
        var incarnation: String
        /// Differs in each attachment.
        var attachment: String

        var account: Account? { try? Account(name, incarnation: incarnation) }
    }

    /// The reason for which an account cannot have an id; `nil` if it can.
    package static func objection(to id: String) -> String? {
        guard byteCounts.contains(id.utf8.count) else {
            return "an external id must have 1 to 255 bytes, not \(id.utf8.count)"
        }
        let isPrintable = id.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
        return isPrintable ? nil : "an external id cannot have control characters"
    }

    /// The key of an id's record.
    package static func key(of id: String) throws(BackendError) -> EntryKey {
        try EntryKey(prefix + LedgerKeys.escaped(id))
    }

    /// The id whose record is stored under `key`; `nil` for any other key.
    package static func id(of key: EntryKey) -> String? {
        guard key.hasPrefix(prefix) else { return nil }
        return LedgerKeys.unescaped(String(decoding: key.text.utf8.dropFirst(prefix.utf8.count), as: UTF8.self))
    }

    /// The account with an id; `nil` if no account has it.
    package func resolve(_ id: String) async throws(BackendError) -> Account? {
        guard Self.objection(to: id) == nil else { return nil }
        let key = try Self.key(of: id)
        guard let account = try await records.read(key, as: Holder.self)?.value.account,
            try await records.isActive(account), let own = try await ids(of: [account])[account],
            own.utf8.elementsEqual(id.utf8)
        else { return nil }
        return account
    }

    /// The account that an operator means by `text`: the one with exactly this name, or with this alias, or with this
    /// external id.
    ///
    /// - Throws: ``RequestError`` if there is no such account or it was erased, or if `text` is the name of one account
    ///   and the external id of another. Otherwise a customer who signs up with the id of another user would be taken
    ///   for that user.
    func customer(_ text: String) async throws -> Account {
        let identified = try await resolve(text)
        let named: Account?
        do { named = try await account(named: text) } catch let error as RequestError {
            // The erased account of this name is no longer meant.
            guard let identified else { throw error }
            return identified
        }
        if let identified, let named, identified != named {
            throw RequestError(
                .conflict,
                "\"\(text.singleLine)\" is the name of an account and the external id of the account "
                    + "\(identified.quoted): give the latter another external id")
        }
        guard let account = named ?? identified else {
            throw RequestError(
                .notFound, "there is no account with the name, alias or external id \"\(text.singleLine)\"")
        }
        return account
    }

    private func account(named text: String) async throws -> Account? {
        if AccountName.canExist(text), let record = try await records.account(text)?.value, !record.isUnused {
            guard let account = record.activeAccount else {
                throw RequestError(.gone, "the account \"\(text.singleLine)\" was erased")
            }
            return account
        }
        let name = try await AccountAliases(records: records).resolveExactly(text)
        return name.utf8.elementsEqual(text.utf8) ? nil : try await records.account(name)?.value.activeAccount
    }

    /// The ids of those accounts that have one. Reads all accounts at once.
    package func ids(of accounts: [Account]) async throws(BackendError) -> [Account: String] {
        let lists = try await entries.keys(of: accounts, under: Self.prefix)
        let requests = lists.flatMap { $0.map { ReadRequest($0) } }
        guard !requests.isEmpty else { return [:] }
        var answers = try await records.backend.read(requests).outcome[...]
        guard answers.count == requests.count else { throw LedgerRules.incomplete }
        var ids: [Account: String] = [:]
        for (account, keys) in zip(accounts, lists) {
            for key in keys {
                guard case .found(let entry)? = try answers.popFirst()?.get() else { continue }
                let holder: Holder = try records.decode(entry, key)
                if holder.account == account { ids[account] = Self.id(of: key) }
            }
        }
        return ids
    }

    /// The id of each account; `.some(nil)` for one that has none. Accounts whose records are damaged are left out.
    ///
    /// - Parameter onDamage: Receives the error of each damaged record.
    func ids(
        of accounts: [Account], onDamage: (BackendError) -> Void
    ) async throws(BackendError) -> [Account: String?] {
        var ids: [Account: String?] = [:]
        do throws(BackendError) {
            let known = try await self.ids(of: accounts)
            for account in accounts { ids[account] = .some(known[account]) }
        } catch {
            guard error.kind == .damaged else { throw error }
            for account in accounts {
                do throws(BackendError) { ids[account] = .some(try await self.ids(of: [account])[account]) } catch {
                    guard error.kind == .damaged else { throw error }
                    onDamage(error)
                }
            }
        }
        return ids
    }

    /// Gives `id` to an account, in place of the one that it has. Repeating it changes nothing.
    ///
    /// - Throws: ``RequestError`` for an id that is not allowed or that another account has, and for an account that
    ///   was erased.
    package func attach(_ id: String, to account: Account) async throws {
        if let objection = Self.objection(to: id) { throw RequestError(.badRequest, objection) }
        let key = try Self.key(of: id)
        for _ in 0..<Self.attemptCount {
            try await checkIsFree(id, for: account)
            try await checkIsActive(account)
            try await entries.append(key, of: account)
            var other: Account?
            _ = try await records.update(key) { (held: Holder?) async throws(BackendError) in
                other = nil
                if let known = held?.account, known != account, try await isListed(key, by: known) {
                    other = known
                    return nil
                }
                return Holder(
                    name: account.name ?? "", incarnation: account.incarnation, attachment: host.randomUUID())
            }
            if let other {
                try await remove(key, of: account)
                throw Self.conflict(id, other)
            }
            // The account may have been erased in between, or another server may have detached the id.
            guard try await records.isActive(account) else {
                try await remove(key, of: account)
                try await checkIsActive(account)
                continue
            }
            let keys = try await entries.keys(of: account, under: Self.prefix)
            guard let place = keys.firstIndex(of: key) else { continue }
            for former in keys[..<place] { try await remove(former, of: account) }
            return
        }
        throw BackendError(.busy, operation: .write, key: key, message: "this external id keeps changing; try again")
    }

    /// Checks that no other account has an id.
    func checkIsFree(_ id: String, for account: Account) async throws {
        if let other = try await resolve(id), other != account { throw Self.conflict(id, other) }
    }

    /// Takes its id from an account.
    ///
    /// - Returns: The id; `nil` if the account had none.
    package func detach(_ account: Account) async throws(BackendError) -> String? {
        let id = try await ids(of: [account])[account]
        for key in try await entries.keys(of: account, under: Self.prefix) { try await remove(key, of: account) }
        return id
    }

    /// Returns `true` if an account exists and lists the id, so that no other account can have it.
    private func isListed(_ key: EntryKey, by account: Account) async throws(BackendError) -> Bool {
        guard try await records.isActive(account) else { return false }
        return try await entries.keys(of: account, under: Self.prefix).contains(key)
    }

    private func remove(_ key: EntryKey, of account: Account) async throws(BackendError) {
        try await entries.remove(key, of: account)
        // Another server may have written the record before the listing was removed.
        try await records.remove(key, as: Holder.self) { $0.account == account }
    }

    private func checkIsActive(_ account: Account) async throws {
        guard try await records.isActive(account) else {
            throw RequestError(.notFound, "the account \"\("\(account)".singleLine)\" was erased")
        }
    }

    private static func conflict(_ id: String, _ other: Account) -> RequestError {
        let name = "\(other)".singleLine
        return RequestError(
            .conflict,
            "the external id \"\(id.singleLine)\" belongs to the account \"\(name)\"; transfer the purchases of one "
                + "account to the other, or detach the id first (DELETE /v1/customers/{account}/external-id)")
    }
}
