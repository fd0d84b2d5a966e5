import EntitlementSync
import Entitlements
import HTTPTypes
import StoreEvidence
package import SyncCore

/// The tokens of the operator's people and programs, in `server/operator-tokens/ID`.
///
/// The text of a token is `est_ID_SECRET`. The store has only the digest of the secret.
package struct OperatorTokens: Sendable {
    /// A token without its secret.
    package struct Record: Codable, Hashable, Sendable {
        /// The id: 16 hexadecimal digits.
        package var id: String
        package var name: String
        /// The SHA-256 digest of the secret, in hexadecimal.
        var digest: String
        /// The name of the scope. A later version of the server may know more scopes.
        package var scope: String
        /// The dates, in milliseconds since 1970 UTC; `nil` for none.
        package var created: Int64
        package var expires: Int64?
        package var revoked: Int64?

        /// Returns `true` if the token was revoked, or has expired at `now`.
        func isOver(at now: Int64) -> Bool { revoked != nil || expires.map { $0 <= now } ?? false }
    }

    /// The largest number of tokens.
    static let capacity = 1_000
    static let prefix = KeyScope.serverPrefix + "operator-tokens/"
    private static let marker = "est_"
    private static let idLength = 16

    private let records: RecordStore
    private let host: HostServices

    /// The tokens of a server's store.
    package init(_ store: any KeyValueBackend, host: HostServices = .system) {
        (records, self.host) = (RecordStore(backend: store), host)
    }

    /// Returns `true` if `text` looks like a token of this kind.
    static func isToken(_ text: some StringProtocol) -> Bool { text.hasPrefix(marker) }

    /// The id of the token under `key`; `nil` for other keys.
    static func id(of key: EntryKey) -> String? {
        key.hasPrefix(prefix) ? String(key.text.dropFirst(prefix.count)) : nil
    }

    /// Creates a token, after the entry of the audit list.
    ///
    /// - Parameters:
    ///   - name: A name that no other valid token has: 1 to 64 visible characters.
    ///   - expires: The end of its validity, in milliseconds since 1970 UTC; `nil` for none.
    ///   - actor: The operator's name for the audit list.
    /// - Returns: The text of the token, which cannot be read again.
    /// - Throws: ``RequestError``, or the store's error.
    package func create(
        _ name: String, scope: OperatorScope, expires: Int64?, by actor: String = OperatorCaller.configured.name
    ) async throws -> (text: String, record: Record) {
        let now = host.now()
        guard (1...64).contains(name.count), name == name.singleLine, name.utf8.count <= 256,
            !name.hasPrefix(" "), !name.hasSuffix(" ")
        else { throw RequestError(.badRequest, "a token's name must have 1 to 64 visible characters on one line") }
        guard name != OperatorCaller.configured.name else {
            throw RequestError(.badRequest, "the name \"\(name)\" is reserved; choose another name")
        }
        if let expires, expires <= now {
            throw RequestError(
                .badRequest, "a token must expire in the future, not at \(Timestamp(milliseconds: expires))")
        }
        let known = try await all()
        guard !known.contains(where: { $0.name == name && !$0.isOver(at: now) }) else {
            throw RequestError(.conflict, "there is a token \"\(name)\" already; choose another name, or revoke it")
        }
        if known.count >= Self.capacity { try await makeRoom(known, now) }
        let id = Hexadecimal.text(host.randomBytes(Self.idLength / 2))
        let secret = Hexadecimal.text(host.randomBytes(32))
        let record = Record(
            id: id, name: name, digest: hexadecimalDigest(of: secret), scope: scope.rawValue, created: now,
            expires: expires)
        let end = expires.map { "until \(Timestamp(milliseconds: $0))" } ?? "without an end"
        try await enter("created token \(id) \"\(name)\" with the scope \(scope.rawValue), \(end)", by: actor)
        guard try await records.replace(try Self.key(id), with: record, if: nil) else {
            throw BackendError(.other, operation: .write, message: "the random id of a new token is taken; try again")
        }
        return (Self.marker + id + "_" + secret, record)
    }

    /// Appends an entry to the audit list.
    private func enter(_ detail: String, by actor: String) async throws(BackendError) {
        try await AuditLog(store: records.backend).append(
            AuditLog.Entry(
                date: "\(Timestamp(milliseconds: host.now()))", act: "token", account: "", actor: actor, detail: detail)
        )
    }

    /// Removes the tokens that are over.
    private func makeRoom(_ known: [Record], _ now: Int64) async throws {
        let over = known.filter { $0.isOver(at: now) }
        guard known.count - over.count < Self.capacity else {
            throw RequestError(
                .conflict, "there are \(Self.capacity) tokens, which is the limit; revoke those that are not needed")
        }
        for record in over {
            try await records.remove(try Self.key(record.id), as: Record.self) { $0.isOver(at: now) }
        }
    }

    /// All tokens, in the order of their creation.
    package func all() async throws(BackendError) -> [Record] {
        var all: [Record] = []
        try await records.forEach(under: Self.prefix, as: Record.self) { (_, held) in all.append(held.value) }
        return all.sorted { ($0.created, $0.id) < ($1.created, $1.id) }
    }

    /// Revokes the token with an id, or all valid tokens with a name, each after an entry of the audit list.
    ///
    /// - Parameter actor: The operator's name for the audit list.
    /// - Returns: The revoked tokens.
    /// - Throws: ``RequestError`` if there is no such token, or the store's error.
    package func revoke(
        _ nameOrID: String, by actor: String = OperatorCaller.configured.name
    ) async throws -> [Record] {
        let now = host.now()
        var meant: [Record] = []
        // By its id a token can be revoked although the record of another one is damaged.
        if nameOrID.utf8.count == Self.idLength, nameOrID.utf8.allSatisfy({ $0.isASCIIAlphanumeric() }),
            let record = try await records.read(try Self.key(nameOrID), as: Record.self)?.value
        {
            meant = [record]
        } else {
            meant = try await all().filter { $0.name == nameOrID }
        }
        guard !meant.isEmpty else {
            throw RequestError(.notFound, "there is no token with the name or id \"\(nameOrID.singleLine)\"")
        }
        var revoked: [Record] = []
        for record in meant where record.revoked == nil {
            try await enter("revoked token \(record.id) \"\(record.name.singleLine)\"", by: actor)
            let changed = try await records.update(try Self.key(record.id)) { (held: Record?) throws(BackendError) in
                var record = held
                if record?.revoked == nil { record?.revoked = now }
                return record
            }
            if let changed { revoked.append(changed) }
        }
        // A repetition changes nothing.
        return revoked.isEmpty ? meant : revoked
    }

    /// The caller with the token `text`.
    func verify(_ text: String) async throws(AuthenticationFailure) -> OperatorCaller {
        let parts = text.split(separator: "_", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[1].utf8.count == Self.idLength,
            parts[1].utf8.allSatisfy({ $0.isASCIIAlphanumeric() })
        else { throw .invalid("malformed") }
        let found: Record?
        do throws(BackendError) {
            found = try await records.read(try Self.key(String(parts[1])), as: Record.self)?.value
        } catch { throw .store(error) }
        let digest = hexadecimalDigest(of: String(parts[2]))
        guard let record = found, Array(record.digest.utf8).isEqual(toSecret: Array(digest.utf8)) else {
            throw .invalid("unknown")
        }
        let name = record.name.singleLine
        if let revoked = record.revoked {
            throw .ended("the token \"\(name)\" was revoked at \(Timestamp(milliseconds: revoked))")
        }
        if record.isOver(at: host.now()) {
            throw .ended("the token \"\(name)\" expired at \(Timestamp(milliseconds: record.expires ?? 0))")
        }
        guard let scope = OperatorScope(rawValue: record.scope) else {
            throw .ended("the token \"\(name)\" has the scope \"\(record.scope.singleLine)\", unknown to this server")
        }
        return OperatorCaller(name: record.name, scope: scope, token: record.id, expires: record.expires ?? .max)
    }

    private static func key(_ id: String) throws(BackendError) -> EntryKey { try EntryKey(prefix + id) }
}
