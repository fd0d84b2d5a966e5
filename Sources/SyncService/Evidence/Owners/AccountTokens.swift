package import EntitlementSync
import HTTPTypes
import SyncCore

/// The tokens by which stores name accounts: `appAccountToken`, `obfuscatedAccountId`, `client_reference_id`.
///
/// The server issues one random token to each account at its first request. Apps that have tokens of their own may
/// register them. The index `server/tokens/TOKEN` finds the account, so that a notification of a store needs no report
/// by a device. The account's own list is written first, so that an erasure finds every token.
struct AccountTokens: Sendable {
    let records: RecordStore
    let host: HostServices

    /// The number of tokens of an account.
    static let capacity = 8

    /// The tokens of an account, under ``Holdings/tokensKey(of:)``.
    struct Tokens: Codable, Hashable, Sendable {
        /// The token that the server has issued.
        var issued: String?
        /// The tokens that the app has registered.
        var registered: [String] = []

        var all: [String] { (issued.map { [$0] } ?? []) + registered }
    }

    /// The token that the server has issued to `account`. It is created at the first call.
    func issued(to account: Account) async throws -> String {
        let new = host.randomUUID()
        let tokens = try await records.update(try Holdings.tokensKey(of: account)) { (known: Tokens?) in
            var tokens = known ?? Tokens()
            tokens.issued = tokens.issued ?? new
            return tokens
        }
        let token = tokens?.issued ?? new
        // Also repairs an index whose write was interrupted.
        guard try await insert(token, account) else { throw Self.taken }
        try await confirm(account)
        return token
    }

    /// Registers a token that the app has chosen. Registering it again changes nothing.
    ///
    /// - Throws: ``RequestError`` for a malformed token, a token of another account, and a ninth token.
    func register(_ text: String, for account: Account) async throws {
        guard let token = Self.normalized(text) else {
            throw RequestError(.badRequest, "a token must be a UUID, as text with hyphens")
        }
        // Before the list is changed, because a refused token must not take a place in it.
        if let holder = try await holder(of: token), holder != account { throw Self.taken }
        var isFull = false
        _ = try await records.update(try Holdings.tokensKey(of: account)) { (known: Tokens?) in
            var tokens = known ?? Tokens()
            guard !tokens.all.contains(token) else { return tokens }
            // One place stays free for the token that the server issues.
            isFull = tokens.registered.count >= Self.capacity - 1
            guard !isFull else { return nil }
            tokens.registered.append(token)
            return tokens
        }
        if isFull {
            throw RequestError(.conflict, "an account can have at most \(Self.capacity) tokens")
        }
        guard try await insert(token, account) else {
            _ = try await records.update(try Holdings.tokensKey(of: account)) { (known: Tokens?) in
                guard var tokens = known else { return nil }
                tokens.registered.removeAll { $0 == token }
                return tokens
            }
            throw Self.taken
        }
        try await confirm(account)
    }

    private static let taken = RequestError(.conflict, "this token is taken; register another one")

    /// All tokens of `account`.
    func all(of account: Account) async throws(BackendError) -> [String] {
        try await records.read(try Holdings.tokensKey(of: account), as: Tokens.self)?.value.all ?? []
    }

    /// The living account to which `text` belongs; `nil` for an unknown token, a token of an erased account, and a text
    /// that is no token.
    func holder(of text: String?) async throws(BackendError) -> Account? {
        guard let text, let token = Self.normalized(text),
            let held = try await records.read(try Self.key(of: token), as: AccountIdentity.self)?.value.account,
            try await records.isActive(held)
        else { return nil }
        return held
    }

    /// Removes the tokens of `account` from the index.
    func erase(_ account: Account) async throws(BackendError) {
        for token in try await all(of: account) { try await remove(token, of: account) }
    }

    /// Enters a token into the index.
    ///
    /// - Returns: `false` if the token belongs to another living account.
    private func insert(_ token: String, _ account: Account) async throws(BackendError) -> Bool {
        let holder = try await records.update(try Self.key(of: token)) {
            (held: AccountIdentity?) async throws(BackendError) in
            guard let holder = held?.account, holder != account, try await records.isActive(holder) else {
                return AccountIdentity(account)
            }
            return held
        }
        return holder?.account == account
    }

    /// Removes the tokens again if the account was erased in the meantime.
    private func confirm(_ account: Account) async throws {
        guard try await !records.isActive(account) else { return }
        try await erase(account)
        throw RequestError(.forbidden, "the account was erased")
    }

    private func remove(_ token: String, of account: Account) async throws(BackendError) {
        try await records.remove(try Self.key(of: token), as: AccountIdentity.self) { $0.account == account }
    }

    /// The canonical spelling of a token: a UUID in lower case with hyphens. `nil` for any other text.
    static func normalized(_ text: String) -> String? {
        let bytes = Array(text.lowercased().utf8)
        guard bytes.count == 36 else { return nil }
        for (index, byte) in bytes.enumerated() {
            let isHyphen = [8, 13, 18, 23].contains(index)
            let isDigit =
                (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
                || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
            guard isHyphen ? byte == UInt8(ascii: "-") : isDigit else { return nil }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func key(of token: String) throws(BackendError) -> EntryKey {
        try EntryKey(KeyScope.serverPrefix + "tokens/" + token)
    }
}

/// An account and its incarnation in a record of the server.
package struct AccountIdentity: Codable, Hashable, Sendable {
    private var name: String
    private var incarnation: String
    /// In the claim of a name: the names of the other accounts that fold to it, see ``AccountAliases``.
    private(set) var others: [String]?

    package init(_ account: Account) { (name, incarnation) = (account.name ?? "", account.incarnation) }

    init(_ account: Account, others: [String]?) {
        self.init(account)
        self.others = others
    }

    /// The record with a further name in ``others``.
    func adding(_ name: String) -> AccountIdentity {
        var record = self
        let isKnown = others?.contains { $0.utf8.elementsEqual(name.utf8) } == true
        if !isKnown { record.others = (others ?? []) + [name] }
        return record
    }

    /// The account; `nil` for a record that names none.
    package var account: Account? { try? Account(name, incarnation: incarnation) }
}

/// The keys under which the server keeps what it holds about an account outside the account's own keys. An erasure
/// deletes all of them.
package enum Holdings {
    package static func prefix(of account: Account) -> String {
        let parts = [account.name ?? "", account.incarnation].map(LedgerKeys.escaped)
        return KeyScope.serverPrefix + "holdings/" + parts.joined(separator: "/") + "/"
    }

    static func tokensKey(of account: Account) throws(BackendError) -> EntryKey {
        try EntryKey(prefix(of: account) + "tokens")
    }

    static func linesPrefix(of account: Account) -> String { prefix(of: account) + "lines/" }
}
