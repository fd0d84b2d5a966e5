import EntitlementSync
import Entitlements
import HTTPTypes
import SyncCore
import SyncService

/// A user with a valid session.
struct ParseCaller: Sendable {
    let account: AccountCaller
    /// The digest of the session's token.
    let session: String
    /// The id under which the dates of the device are kept.
    let installation: String
    /// The anonymous id with which the session began; `nil` if it is not known.
    let anonymousID: String?
}

// Accounts and sessions.
extension ParseServer {
    /// The caller of a request with a session token.
    ///
    /// - Throws: ``ParseError/invalidSession``, also if there is no token.
    func caller(of request: ParseRequest) async throws -> ParseCaller {
        guard let token = request.sessionToken else {
            try gateway.admit(.other, request.peer)
            throw ParseError.invalidSession
        }
        let digest = gateway.digest(of: token)
        guard let entry = try await gateway.records.read(try ParseEntry.sessionKey(digest), as: ParseEntry.self)?.value,
            entry.expires > gateway.host.now(), let account = entry.account,
            let caller = try await gateway.caller(account, epoch: entry.epoch)
        else {
            try gateway.admit(.other, request.peer)
            throw ParseError.invalidSession
        }
        request.noted.set(caller.name)
        return ParseCaller(
            account: caller, session: digest, installation: request.installationID ?? digest,
            anonymousID: entry.sealedID.flatMap { opened($0, by: token) })
    }

    /// Runs `body` for the caller of a request, under the limits of its account.
    func withCaller<Value>(_ request: ParseRequest, _ body: (ParseCaller) async throws -> Value) async throws -> Value {
        let caller = try await caller(of: request)
        let isRead = request.method == "GET"
        return try await gateway.serving(caller.account, isRead: isRead, byteCount: request.byteCount) {
            try await body(caller)
        }
    }

    /// Begins a session and returns its token.
    ///
    /// - Parameters:
    ///   - action: The request that begins the session, `login` or `signup`.
    ///   - anonymousID: The anonymous id that the request names.
    func beginSession(
        _ caller: AccountCaller, _ request: ParseRequest, action: String, anonymousID: String? = nil
    ) async throws -> (String, ParseCaller) {
        let token = "r:" + Hexadecimal.text(gateway.host.randomBytes(16))
        let digest = gateway.digest(of: token)
        request.noted.set(caller.name)
        let expires = gateway.host.now() + Self.sessionLifetime
        var entry = ParseEntry(caller.account, epoch: caller.epoch, expires: expires)
        (entry.installation, entry.action) = (request.installationID, action)
        entry.sealedID = anonymousID.map { sealed($0, by: token) }
        try await write(entry, try ParseEntry.sessionKey(digest), "sessions/", caller.account)
        // The epoch may have ended since the credential was checked. The entry is void then.
        guard try await gateway.caller(caller.account, epoch: caller.epoch) != nil else {
            throw ParseError.invalidSession
        }
        let installation = request.installationID ?? digest
        return (
            token,
            ParseCaller(account: caller, session: digest, installation: installation, anonymousID: anonymousID)
        )
    }

    /// Writes an entry of an account in the server's own keys.
    private func write(_ entry: ParseEntry, _ key: EntryKey, _ kind: String, _ account: Account) async throws {
        let entries = AccountEntries(records: gateway.records)
        try await entries.add(key, of: account, under: ParseEntry.prefix + kind)
        _ = try await gateway.records.update(key) { (_: ParseEntry?) in entry }
        guard try await gateway.epoch(of: account) != nil else {
            try await entries.remove(key, of: account)
            throw ParseError.invalidSession
        }
    }

    func logIn(_ request: ParseRequest, _: [String]) async throws -> Reply {
        try gateway.admit(.logIn, request.peer)
        let values = request.parameters.merging(request.body) { $1 }
        guard try providers(in: values) == nil else { throw ParseError.unsupportedProvider }
        guard let name = values["username"]?.string ?? values["email"]?.string, !name.isEmpty else {
            throw ParseError(200, "username/email is required.")
        }
        guard let password = values["password"]?.string, !password.isEmpty else {
            throw ParseError(201, "password is required.")
        }
        guard let account = try await gateway.logIn(name, password: password, peer: request.peer) else {
            throw ParseError.wrongCredentials
        }
        let (token, caller) = try await beginSession(account, request, action: "login")
        return try await answerUser(caller, token: token)
    }

    func logOut(_ request: ParseRequest, _: [String]) async throws -> Reply {
        // A repeated log-out has nothing left to do.
        let caller: ParseCaller
        do { caller = try await self.caller(of: request) } catch let error as ParseError
            where error.code == ParseError.invalidSession.code
        {
            return Reply(body: .object([:]))
        }
        try await endSession(caller.session, of: caller)
        return Reply(body: .object([:]))
    }

    /// Ends the session with a digest of its token.
    func endSession(_ digest: String, of caller: ParseCaller) async throws {
        let key = try ParseEntry.sessionKey(digest)
        let ended = try await gateway.records.update(key) { (known: ParseEntry?) in
            guard var entry = known, entry.isImported == true else { return nil }
            entry.expires = 0
            return entry
        }
        guard ended == nil else { return }
        try await AccountEntries(records: gateway.records).remove(key, of: caller.account.account)
    }

    /// The text that ``opened(_:by:)`` reads. An anonymous id is a password, so the store must not contain it.
    private func sealed(_ id: String, by token: String) -> String {
        Hexadecimal.text(zip(id.utf8, gateway.derivedBytes(for: "anonymous id", from: token)).map { $0 ^ $1 })
    }

    private func opened(_ text: String, by token: String) -> String? {
        guard let bytes = Hexadecimal.bytes(text.utf8) else { return nil }
        let id = zip(bytes, gateway.derivedBytes(for: "anonymous id", from: token)).map { $0 ^ $1 }
        return String(validating: id, as: UTF8.self)
    }
}
