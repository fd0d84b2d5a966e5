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
    /// The end of the session, in milliseconds since 1970 UTC.
    let expires: Int64
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
            account: caller, session: digest, installation: request.installationID ?? digest, expires: entry.expires)
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
        let expires = gateway.host.now() + Self.sessionLifetime
        let entry = ParseEntry(caller.account, epoch: caller.epoch, expires: expires)
        try await write(entry, try ParseEntry.sessionKey(digest), "sessions/", caller.account)
        // The epoch may have ended since the credential was checked. The entry is void then.
        guard try await gateway.caller(caller.account, epoch: caller.epoch) != nil else {
            throw ParseError.invalidSession
        }
        let installation = request.installationID ?? digest
        return (
            token, ParseCaller(account: caller, session: digest, installation: installation, expires: expires)
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
        let (user, expires) = try await withCaller(request) {
            (try await self.user(of: $0.account.account), $0.expires)
        }
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
                "expiresAt": .date(Timestamp(milliseconds: expires)),
            ]))
    }

    func signUp(_ request: ParseRequest) async throws -> Reply {
        if let data = request.body["authData"], data != .null { return try await signUpAnonymously(request, data) }
        let name = request.body["username"] ?? .null
        try check(username: name)
        try check(password: request.body["password"] ?? .null)
        let save = try save(of: request)
        try gateway.admit(.signUp, request.peer)
        let (text, password) = (name.string ?? "", request.body["password"]?.string)
        let isRepetition = try await !gateway.isFree(text, for: nil)
        if !isRepetition, let mail = save.mail, try await !gateway.isFree(mail, for: nil) {
            throw ParseError.mailTaken
        }
        guard let account = try await create(text, password: password, request) else {
            return try await repeatSignUp(text, password ?? "", save, request)
        }
        return try await finishSignUp(account, save, request)
    }

    /// The fields of a sign-up, which are checked before an account is created.
    private func save(of request: ParseRequest) throws(ParseError) -> UserSave {
        let save = try userSave(request.body.filter { !["username", "password", "authData"].contains($0.key) })
        try save.check(against: [:])
        return save
    }

    /// Answers a sign-up whose answer was lost: the account was created just now, with this password.
    private func repeatSignUp(
        _ name: String, _ password: String, _ save: UserSave, _ request: ParseRequest
    ) async throws -> Reply {
        let known: AccountCaller?
        do { known = try await gateway.logIn(name, password: password, peer: request.peer) } catch let error
            as RequestError where error.code == "invalid_grant"
        { throw ParseError.nameTaken }
        guard let account = known else { throw ParseError.nameTaken }
        let user = try await user(of: account.account)
        guard isRecent(user) else { throw ParseError.nameTaken }
        return try await finishSignUp(account, save, request)
    }

    /// Returns `true` for a user whose sign-up may be repeated.
    private func isRecent(_ user: ParseUser) -> Bool {
        (0...Self.repetition).contains(gateway.host.now() - user.createdAt)
    }

    /// Creates an account with its user, which exists before the account can be used under its name.
    ///
    /// - Parameter anonymous: The key of the entry of the anonymous id; `nil` for a user with a password.
    /// - Returns: `nil` if the name or the anonymous id is taken.
    private func create(
        _ name: String, password: String?, anonymous: EntryKey? = nil, _ request: ParseRequest
    ) async throws -> AccountCaller? {
        let (id, now) = (randomText(10), gateway.host.now())
        let user = ParseUser(objectID: id, username: name, createdAt: now, updatedAt: now, anonymous: anonymous?.text)
        return try await gateway.signUp(id, alias: name, password: password, peer: request.peer) { account in
            _ = try await gateway.records.update(try ParseUser.key(of: account)) { (_: ParseUser?) in user }
        } publish: { account, epoch in
            guard let anonymous else { return true }
            return try await link(anonymous, ParseEntry(account, epoch: epoch))
        }
    }

    /// Writes the entry of an anonymous id, unless it belongs to another user.
    private func link(_ key: EntryKey, _ entry: ParseEntry) async throws -> Bool {
        guard let account = entry.account else { return false }
        try await AccountEntries(records: gateway.records)
            .note(key, of: account, under: ParseEntry.prefix + "anonymous/")
        let holder = try await gateway.records.update(key) { (known: ParseEntry?) async throws(BackendError) in
            if let known, let holder = known.account, holder != account,
                try await gateway.caller(holder, epoch: known.epoch) != nil
            {
                return known
            }
            return entry
        }
        return holder?.account == account
    }

    private func finishSignUp(
        _ account: AccountCaller, _ save: UserSave, _ request: ParseRequest
    ) async throws -> Reply {
        if let mail = save.mail, try await !gateway.claim(mail, for: account.account) { throw ParseError.mailTaken }
        let (token, caller) = try await beginSession(account, request)
        try await record(save.dates, caller)
        _ = try await apply(save, request, caller)
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
        let (key, save) = (try ParseEntry.anonymousKey(gateway.digest(of: id.lowercased())), try save(of: request))
        try gateway.admit(.logIn, request.peer)
        if let reply = try await logInAnonymously(key, save, request) { return reply }
        try gateway.admit(.signUp, request.peer)
        let made = try await create(randomText(25), password: nil, anonymous: key, request)
        if let account = made { return try await finishSignUp(account, save, request) }
        // Another request has just created the user.
        guard let reply = try await logInAnonymously(key, save, request) else { throw ParseError(252, "try again") }
        return reply
    }

    /// The answer to a known anonymous id; `nil` for a new one. A sign-up whose answer was lost is completed.
    private func logInAnonymously(_ key: EntryKey, _ save: UserSave, _ request: ParseRequest) async throws -> Reply? {
        guard let entry = try await gateway.records.read(key, as: ParseEntry.self)?.value, let account = entry.account,
            let known = try await gateway.caller(account, epoch: entry.epoch)
        else { return nil }
        if !save.isEmpty, isRecent(try await user(of: account)) {
            return try await finishSignUp(known, save, request)
        }
        let (token, caller) = try await beginSession(known, request)
        return try await answerUser(caller, token: token)
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
