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
        return ParseCaller(account: caller, session: digest, installation: request.installationID ?? digest)
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
    func beginSession(_ caller: AccountCaller, _ request: ParseRequest) async throws -> (String, ParseCaller) {
        let token = "r:" + gateway.randomBytes(16).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        let digest = gateway.digest(of: token)
        request.noted.set(caller.name)
        let entry = ParseEntry(
            caller.account, epoch: caller.epoch, expires: gateway.host.now() + Self.sessionLifetime)
        try await write(entry, try ParseEntry.sessionKey(digest), "sessions/", caller.account)
        // The epoch may have ended since the credential was checked. The entry is void then.
        guard try await gateway.caller(caller.account, epoch: caller.epoch) != nil else {
            throw ParseError.invalidSession
        }
        return (
            token, ParseCaller(account: caller, session: digest, installation: request.installationID ?? digest)
        )
    }

    /// Writes an entry of an account in the server's own keys.
    private func write(_ entry: ParseEntry, _ key: EntryKey, _ kind: String, _ account: Account) async throws {
        let entries = AccountEntries(records: gateway.records)
        try await entries.note(key, of: account, under: ParseEntry.prefix + kind)
        _ = try await gateway.records.update(key) { (_: ParseEntry?) in entry }
        guard try await gateway.epoch(of: account) != nil else {
            try await entries.remove(key, of: account)
            throw ParseError.invalidSession
        }
    }

    func logIn(_ request: ParseRequest) async throws -> Reply {
        try gateway.admit(.logIn, request.peer)
        let values = request.parameters.merging(request.body) { $1 }
        guard let name = values["username"]?.string ?? values["email"]?.string, !name.isEmpty else {
            throw ParseError(200, "username/email is required.")
        }
        guard let password = values["password"]?.string, !password.isEmpty else {
            throw ParseError(201, "password is required.")
        }
        guard let account = try await gateway.logIn(name, password: password, peer: request.peer) else {
            throw ParseError.wrongCredentials
        }
        let (token, caller) = try await beginSession(account, request)
        return try await answerUser(caller, token: token)
    }

    func logOut(_ request: ParseRequest) async throws -> Reply {
        // A repeated log-out has nothing left to do.
        let caller: ParseCaller
        do { caller = try await self.caller(of: request) } catch let error as ParseError
            where error.code == ParseError.invalidSession.code
        {
            return Reply(body: .object([:]))
        }
        let key = try ParseEntry.sessionKey(caller.session)
        let ended = try await gateway.records.update(key) { (known: ParseEntry?) in
            guard var entry = known, entry.isImported == true else { return nil }
            entry.expires = 0
            return entry
        }
        if ended == nil {
            try await AccountEntries(records: gateway.records).remove(key, of: caller.account.account)
        }
        return Reply(body: .object([:]))
    }

    func upgrade(_ request: ParseRequest) async throws -> Reply {
        let user = try await withCaller(request) { try await self.user(of: $0.account.account) }
        let now = gateway.host.now()
        return Reply(
            body: .object([
                "objectId": .string(String(gateway.digest(of: "session " + (request.sessionToken ?? "")).prefix(10))),
                "sessionToken": .string(request.sessionToken ?? ""), "restricted": .bool(false),
                "user": .object([
                    "__type": .string("Pointer"), "className": .string("_User"), "objectId": .string(user.objectID),
                ]),
                "createdWith": .object(["action": .string("upgrade")]),
                "createdAt": .string(Timestamp(milliseconds: now).iso),
                "expiresAt": .date(Timestamp(milliseconds: now + Self.sessionLifetime)),
            ]))
    }

    func signUp(_ request: ParseRequest) async throws -> Reply {
        if let data = request.body["authData"], data != .null { return try await signUpAnonymously(request, data) }
        guard let name = request.body["username"]?.string, !name.isEmpty else {
            throw ParseError(200, "bad or missing username")
        }
        guard let password = request.body["password"]?.string, !password.isEmpty else {
            throw ParseError(201, "password is required")
        }
        guard password.utf8.count <= 1_024 else { throw ParseError(142, "a password can have at most 1,024 bytes") }
        try gateway.admit(.signUp, request.peer)
        let made = try await create(name, password: password, request)
        guard let account = made else { return try await repeatSignUp(name, password, request) }
        return try await finishSignUp(account, request)
    }

    /// Answers a sign-up whose answer was lost: the account was created just now, with this password.
    private func repeatSignUp(_ name: String, _ password: String, _ request: ParseRequest) async throws -> Reply {
        let known: AccountCaller?
        do { known = try await gateway.logIn(name, password: password, peer: request.peer) } catch let error
            as RequestError where error.code == "invalid_grant"
        { throw ParseError.nameTaken }
        guard let account = known else { throw ParseError.nameTaken }
        let user = try await user(of: account.account)
        guard (0...Self.repetition).contains(gateway.host.now() - user.createdAt) else { throw ParseError.nameTaken }
        return try await finishSignUp(account, request)
    }

    private func create(
        _ name: String, password: String?, anonymous: String? = nil, _ request: ParseRequest
    ) async throws -> AccountCaller? {
        let id = randomText(10)
        let made: AccountCaller?
        do { made = try await gateway.signUp(id, alias: name, password: password, peer: request.peer) } catch {
            // The rule for names is the only reason for this status.
            if let error = error as? RequestError, error.status == .badRequest { throw ParseError(200, error.detail) }
            throw error
        }
        guard let account = made else { return nil }
        let now = gateway.host.now()
        let user = ParseUser(objectID: id, username: name, createdAt: now, updatedAt: now, anonymous: anonymous)
        _ = try await gateway.records.update(try ParseUser.key(of: account.account)) { (_: ParseUser?) in user }
        return account
    }

    private func finishSignUp(_ account: AccountCaller, _ request: ParseRequest) async throws -> Reply {
        let (token, caller) = try await beginSession(account, request)
        var fields = request.body
        for name in ["username", "password", "authData"] { fields[name] = nil }
        _ = try await save(fields, request, caller)
        let user = try await user(of: account.account)
        return Reply(
            status: 201,
            body: .object(
                [
                    "objectId": .string(user.objectID), "sessionToken": .string(token),
                    "createdAt": .string(Timestamp(milliseconds: user.createdAt).iso),
                    "username": .string(user.username),
                ].filter { $0.key != "username" || user.anonymous != nil }),
            location: "\(configuration.path)/users/\(user.objectID)")
    }

    /// Creates an anonymous user, or logs in the one with this id. The id is a password, so its length is required and
    /// only its digest is kept.
    private func signUpAnonymously(_ request: ParseRequest, _ data: JSONValue) async throws -> Reply {
        guard let members = data.members, members.count == 1, let id = members["anonymous"]?.members?["id"]?.string
        else {
            throw ParseError(252, "This authentication method is unsupported.")
        }
        guard id.utf8.count == 36 else { throw ParseError(251, "the id of an anonymous user must be a UUID") }
        let key = try ParseEntry.anonymousKey(gateway.digest(of: id.lowercased()))
        try gateway.admit(.logIn, request.peer)
        if let entry = try await gateway.records.read(key, as: ParseEntry.self)?.value, let account = entry.account,
            let known = try await gateway.caller(account, epoch: entry.epoch)
        {
            let (token, caller) = try await beginSession(known, request)
            return try await answerUser(caller, token: token)
        }
        try gateway.admit(.signUp, request.peer)
        guard let account = try await create(randomText(25), password: nil, anonymous: key.text, request) else {
            throw ParseError(252, "try again")
        }
        try await write(ParseEntry(account.account, epoch: account.epoch), key, "anonymous/", account.account)
        return try await finishSignUp(account, request)
    }

    /// Letters and digits, each from a random byte.
    func randomText(_ count: Int) -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".utf8)
        var text: [UInt8] = []
        while text.count < count {
            text += gateway.randomBytes(count).filter { $0 < 248 }.map { alphabet[Int($0) % alphabet.count] }
        }
        return String(decoding: text.prefix(count), as: UTF8.self)
    }
}
