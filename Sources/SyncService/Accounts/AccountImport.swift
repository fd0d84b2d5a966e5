package import EntitlementSync
import Entitlements
import StoreEvidence
package import SyncCore

/// Creates the accounts of another system, each under the id that it had there and with a further name.
///
/// The incarnation of such an account is derived from the id and from a secret of the store:
/// - An interrupted import recognizes its own accounts and completes them.
/// - An account that was erased since does not return.
/// - Pseudonyms, which are made of the incarnation, cannot be computed from the id.
package struct AccountImport: Sendable {
    private let records: RecordStore
    private let secret: String

    /// The stored form of the secret.
    private struct Secret: Codable, Hashable, Sendable { var text: String }

    /// The credential epoch of an imported account. It ends with the first change of the password.
    package static let epoch: Int64 = 1

    /// Imports into the store of a server. The first import creates the store's secret.
    ///
    /// - Parameters:
    ///   - isPreview: True if nothing is written.
    ///   - host: The source of randomness.
    package init(
        _ store: any KeyValueBackend, isPreview: Bool = false, host: HostServices = .system
    ) async throws(BackendError) {
        records = RecordStore(backend: store)
        let (key, new) = (
            try EntryKey(KeyScope.serverPrefix + "imports/secret"), Hexadecimal.text(host.randomBytes(16))
        )
        let held =
            isPreview
            ? try await records.read(key, as: Secret.self)?.value
            : try await records.update(key) { (known: Secret?) in known ?? Secret(text: new) }
        secret = held?.text ?? new
    }

    /// The state of an id in the store.
    package enum State: Hashable, Sendable {
        /// There is no such account.
        case absent
        /// The account was imported, at least in part.
        case imported
        /// The account was erased. It is not imported again.
        case erased
        /// Another account has this name.
        case taken
    }

    /// Checks that a store is that of a server, and not of a device.
    ///
    /// - Throws: `SupportError` of kind `notAServer`, or the store's error.
    package static func checkServer(_ store: any KeyValueBackend) async throws {
        try await RecordStore(backend: store).checkServer()
    }

    /// The account that an import creates for `id`.
    ///
    /// - Throws: ``AccountRefusal`` if no account can have this name.
    package func account(_ id: String) throws(AccountRefusal) -> Account {
        if let objection = AccountName.objection(to: id) { throw AccountRefusal("the object id: \(objection)") }
        let incarnation = String(hexadecimalDigest(of: "imported account \(secret) \(id)").prefix(32))
        do throws(EntitlementError) { return try Account(id, incarnation: incarnation) } catch {
            throw AccountRefusal("the object id: \(error)")
        }
    }

    /// The reason for which an account is not imported.
    package struct AccountRefusal: Error, Hashable, Sendable {
        /// One line.
        package var reason: String

        init(_ reason: String) { self.reason = reason }
    }

    /// The state of an account.
    package func state(of account: Account) async throws(BackendError) -> State {
        guard let name = account.name else { return .absent }
        let record = try await records.account(name)?.value
        return Self.state(of: account, record)
    }

    private static func state(of account: Account, _ record: AccountRecord?) -> State {
        guard let record else { return .absent }
        if record.activeAccount == account { return .imported }
        if record.isUnused, !record.isErased(account.incarnation) { return .absent }
        if record.isErased(account.incarnation) || record.issuer == nil && record.incarnation == nil { return .erased }
        return .taken
    }

    /// The credential epoch of an imported account; `nil` if the account is not there.
    package func epoch(of account: Account) async throws(BackendError) -> Int64? {
        try await records.epoch(of: account)
    }

    /// The reason for which an account cannot have a name, as far as the store shows without a change.
    package func objection(to alias: String, for account: Account) async throws(BackendError) -> String? {
        if let objection = Self.objection(to: alias) { return objection }
        for name in [account.name ?? "", alias] {
            let holder = try await AccountAliases(records: records).resolve(name)
            let isTaken = holder != name && !holder.utf8.elementsEqual((account.name ?? "").utf8)
            if isTaken { return Self.clash(of: name, account) }
        }
        guard alias != account.name, try await records.account(alias)?.value.incarnation != nil else { return nil }
        return Self.clash(of: alias, account)
    }

    private static func objection(to alias: String) -> String? {
        AccountName.objection(to: AccountName.composed(alias)).map { "the username: \($0)" }
    }

    private static func clash(of name: String, _ account: Account) -> String {
        let kind = name == account.name ? "the object id" : "the username"
        return "\(kind) is already the name of another account; names are compared without regard to case"
    }

    /// Creates an account, or completes one that an interrupted import created.
    ///
    /// - Parameters:
    ///   - alias: The further name.
    ///   - password: A hash by bcrypt; `nil` for an account that needs a new password.
    ///   - created: The creation in the other system, in milliseconds since 1970 UTC.
    ///   - issuer: The issuer of its tokens, whose accounts reserve no name; `nil` for this server.
    /// - Returns: The state before the call.
    /// - Throws: ``AccountRefusal`` if a name is taken or not allowed. Nothing remains then of an account that this
    ///   call has created.
    package func create(
        _ account: Account, alias: String, password: String?, created: Int64, issuer: String? = nil
    ) async throws -> State {
        if let objection = Self.objection(to: alias) { throw AccountRefusal(objection) }
        let id = account.name ?? ""
        var before = State.absent
        _ = try await records.updateAccount(id) { known in
            before = Self.state(of: account, known)
            guard before == .absent else { return nil }
            var record = known ?? AccountRecord(name: id, created: created)
            (record.incarnation, record.password, record.epoch) = (account.incarnation, password, Self.epoch)
            (record.created, record.issuer) = (created, issuer)
            return record
        }
        switch before {
        case .absent, .imported: break
        case .erased: return .erased
        case .taken: throw AccountRefusal(Self.clash(of: id, account))
        }
        let aliases = AccountAliases(records: records)
        for name in issuer == nil ? [id, alias] : [] where try await !aliases.reserve(name, for: account) {
            // An account of an earlier import may be in use.
            if before == .absent { try await undo(account) }
            throw AccountRefusal(Self.clash(of: name, account))
        }
        try await AccountDirectory(backend: records.backend).adopt(account, isRevivable: false)
        return before
    }

    /// Removes an account that was just created, and its names.
    package func undo(_ account: Account) async throws(BackendError) {
        guard let name = account.name else { return }
        try await AccountEntries(records: records).discard(account)
        try await AccountDirectory(backend: records.backend).forget(account)
        let key = try AccountRecord.key(of: name)
        // If the password was changed since, the user has logged in.
        func isNew(_ record: AccountRecord) -> Bool { record.activeAccount == account && record.epoch == Self.epoch }
        try await records.remove(key, as: AccountRecord.self) { isNew($0) && $0.erased.isEmpty }
        // The incarnations that can never be created stay listed.
        _ = try await records.updateAccount(name) { known in
            guard let known, isNew(known) else { return nil }
            return AccountRecord(name: name, erased: known.erased, created: 0)
        }
    }
}
