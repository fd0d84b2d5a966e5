import EntitlementSync
import Entitlements
import SyncCore
import SyncService

// New users, with a name and a password or with an anonymous id.
extension ParseServer {
    func signUp(_ request: ParseRequest, _: [String]) async throws -> Reply {
        if let data = try providers(in: request.body) { return try await signUpAnonymously(request, data) }
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

    /// The providers that `authData` sets; `nil` if it sets none.
    ///
    /// - Throws: ``ParseError`` for a value that is no object.
    func providers(in body: [String: JSON]) throws(ParseError) -> [String: JSON]? {
        guard let value = body["authData"] else { return nil }
        guard let members = value.members?.filter({ $0.value != .null }) else { throw ParseError.unsupportedProvider }
        return members.isEmpty ? nil : members
    }

    /// The fields of a sign-up, which are checked before an account is created.
    private func save(of request: ParseRequest) throws(ParseError) -> UserSave {
        let save = try userSave(request.body.filter { !["username", "password", "authData"].contains($0.key) })
        try save.check(against: [:])
        return save
    }

    /// Answers a sign-up whose answer was lost: the same request created the account just now. Another installation
    /// with the same name and password is refused, because its user has not logged in.
    private func repeatSignUp(
        _ name: String, _ password: String, _ save: UserSave, _ request: ParseRequest
    ) async throws -> Reply {
        let known: AccountCaller?
        do { known = try await gateway.logIn(name, password: password, peer: request.peer) } catch let error
            as RequestError where error.code == "invalid_grant"
        { throw ParseError.nameTaken }
        guard let account = known else { throw ParseError.nameTaken }
        guard isSignUp(request, of: try await user(of: account.account)) else { throw ParseError.nameTaken }
        return try await finishSignUp(account, save, request)
    }

    /// Returns `true` for a repetition of the sign-up of a user.
    private func isSignUp(_ request: ParseRequest, of user: ParseUser) -> Bool {
        user.signUp.map { [$0].index(repeatedBy: mark(of: request)) != nil } ?? false
    }

    /// Creates an account with its user, which exists before the account can be used under its name.
    ///
    /// - Parameter anonymous: The key of the entry of the anonymous id; `nil` for a user with a password.
    /// - Returns: `nil` if the name or the anonymous id is taken.
    private func create(
        _ name: String, password: String?, anonymous: EntryKey? = nil, _ request: ParseRequest
    ) async throws -> AccountCaller? {
        let (id, now) = (randomText(10), gateway.host.now())
        let user = ParseUser(
            objectID: id, username: name, createdAt: now, updatedAt: now, anonymous: anonymous?.text,
            signUp: mark(of: request))
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
            .add(key, of: account, under: ParseEntry.prefix + "anonymous/")
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
        _ account: AccountCaller, _ save: UserSave, _ request: ParseRequest, anonymousID: String? = nil
    ) async throws -> Reply {
        if let mail = save.mail, try await !gateway.reserve(mail, for: account.account) { throw ParseError.mailTaken }
        let (token, caller) = try await beginSession(account, request, action: "signup", anonymousID: anonymousID)
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
    private func signUpAnonymously(_ request: ParseRequest, _ data: [String: JSON]) async throws -> Reply {
        guard data.count == 1, let id = data["anonymous"]?["id"]?.string else {
            throw ParseError.unsupportedProvider
        }
        guard request.body["username"] == nil, request.body["password"] == nil else {
            throw ParseError(252, "a user with a name and a password has no anonymous id; leave authData out")
        }
        guard id.utf8.count == 36 else { throw ParseError(251, "the id of an anonymous user must be a UUID") }
        let (key, save) = (try ParseEntry.anonymousKey(gateway.digest(of: id.lowercased())), try save(of: request))
        try gateway.admit(.logIn, request.peer)
        if let reply = try await logInAnonymously(id, key, save, request) { return reply }
        try gateway.admit(.signUp, request.peer)
        let made = try await create(randomText(25), password: nil, anonymous: key, request)
        if let account = made { return try await finishSignUp(account, save, request, anonymousID: id) }
        // Another request has just created the user.
        guard let reply = try await logInAnonymously(id, key, save, request) else {
            throw ParseError(252, "try again")
        }
        return reply
    }

    /// The answer to a known anonymous id; `nil` for a new one. A sign-up whose answer was lost is completed.
    private func logInAnonymously(
        _ id: String, _ key: EntryKey, _ save: UserSave, _ request: ParseRequest
    ) async throws -> Reply? {
        guard let entry = try await gateway.records.read(key, as: ParseEntry.self)?.value, let account = entry.account,
            let known = try await gateway.caller(account, epoch: entry.epoch)
        else { return nil }
        if !save.isEmpty, isSignUp(request, of: try await user(of: account)) {
            return try await finishSignUp(known, save, request, anonymousID: id)
        }
        let (token, caller) = try await beginSession(known, request, action: "login", anonymousID: id)
        return try await answerUser(caller, token: token)
    }

    /// Letters and digits, each from a random byte.
    func randomText(_ count: Int) -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".utf8)
        var text: [UInt8] = []
        while text.count < count {
            text += gateway.host.randomBytes(count).filter { $0 < 248 }.map { alphabet[Int($0) % alphabet.count] }
        }
        return String(decoding: text.prefix(count), as: UTF8.self)
    }
}
