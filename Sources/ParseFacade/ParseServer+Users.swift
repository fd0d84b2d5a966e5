import EntitlementSync
import Entitlements
import SyncCore
import SyncService

// Users, as their owners see them.
extension ParseServer {
    /// The user of an account. An account that was created under `/v1` becomes a user at the first request.
    func user(of account: Account) async throws -> ParseUser {
        let key = try ParseUser.key(of: account)
        if let known = try await gateway.records.read(key, as: ParseUser.self)?.value { return known }
        let (id, now) = (randomText(10), gateway.host.now())
        // The id is an alias of the account, so that no other account can get it.
        guard try await gateway.reserve(id, for: account) else {
            throw BackendError(.busy, message: "the id of the new user is taken; try again")
        }
        let made = try await gateway.records.update(key) { (known: ParseUser?) in
            known ?? ParseUser(objectID: id, username: account.name ?? "", createdAt: now, updatedAt: now)
        }
        guard let made else { throw ParseError.notFound }
        if made.objectID != id { try await gateway.release(id, of: account) }
        return made
    }

    /// The members of a user that an answer shows. The dates of the groups are remembered as served to the
    /// installation.
    func members(
        of user: ParseUser, for caller: ParseCaller, _ selection: FindSelection = FindSelection()
    ) async throws -> [String: JSON] {
        var members = try fields(of: user)
        members["objectId"] = .string(user.objectID)
        members["username"] = .string(user.username)
        members["createdAt"] = .string(Timestamp(milliseconds: user.createdAt).iso)
        members["updatedAt"] = .string(Timestamp(milliseconds: user.updatedAt).iso)
        members["ACL"] = .object([
            "*": .object(["read": .bool(true)]),
            user.objectID: .object(["read": .bool(true), "write": .bool(true)]),
        ])
        if user.anonymous != nil {
            let id = caller.anonymousID.map { ["id": JSON.string($0)] } ?? [:]
            members["authData"] = .object(["anonymous": .object(id)])
        }
        let ends = try await ends(for: caller.account)
        var served: [GroupID: Timestamp] = [:]
        for (name, field) in configuration.fields where selection.shows(name) {
            members[name] = ends[field.group].map { field.shape == .date ? .date($0) : .array([.date($0)]) }
            served[field.group] = ends[field.group]
        }
        try await rememberServed(served, to: caller)
        return selection.shown(members)
    }

    func fields(of user: ParseUser) throws -> [String: JSON] {
        guard let members = (try? JSON(parsing: user.fields.utf8))?.members else {
            throw BackendError(.damaged, message: "the fields of a user cannot be read")
        }
        return members
    }

    /// The answer that shows the caller's user.
    ///
    /// - Parameter token: The session's token. Without it, the SDK of JavaScript ends its session in `fetch`.
    func answerUser(
        _ caller: ParseCaller, token: String?, _ selection: FindSelection = FindSelection()
    ) async throws -> Reply {
        var members = try await members(of: try await user(of: caller.account.account), for: caller, selection)
        members["sessionToken"] = token.map(JSON.string)
        return Reply(body: .object(members))
    }

    /// The user with an id, or the caller (`me`). Others look as if they did not exist.
    func getUser(_ request: ParseRequest, _ path: [String]) async throws -> Reply {
        let id = path[0]
        return try await withCaller(request) { caller in
            if id != "me" {
                guard try await user(of: caller.account.account).objectID == id else { throw ParseError.notFound }
            }
            return try await answerUser(caller, token: request.sessionToken, try request.objectSelection())
        }
    }

    /// The users that meet a condition: the caller, or none.
    func findUsers(_ request: ParseRequest, _: [String]) async throws -> Reply {
        let condition = try request.condition()
        let selection = try request.selection()
        guard request.sessionToken != nil else {
            try gateway.admit(.other, request.peer)
            return Reply(body: selection.answer([]))
        }
        return try await withCaller(request) { caller in
            let user = try await user(of: caller.account.account)
            let known = ["objectId": JSON.string(user.objectID), "username": .string(user.username)]
            for name in condition.names.sorted() where known[name] == nil {
                throw ParseError(102, "users can be found by objectId and username only, not by \(name.prefix(64))")
            }
            guard condition.holds(for: known) else { return Reply(body: selection.answer([])) }
            // A date counts as served only if it is in the answer.
            let isShown = selection.limit > 0 && selection.skip == 0
            let shown = isShown ? try await members(of: user, for: caller, selection) : known
            return Reply(body: selection.answer([shown]))
        }
    }

    func saveUser(_ request: ParseRequest, _ path: [String]) async throws -> Reply {
        let id = path[0]
        guard request.sessionToken != nil else {
            try gateway.admit(.other, request.peer)
            throw ParseError(206, "Cannot modify user \(id.prefix(32)).")
        }
        return try await withCaller(request) { caller in
            let user = try await user(of: caller.account.account)
            guard user.objectID == id else { throw ParseError(206, "Cannot modify user \(id.prefix(32)).") }
            var fields = request.body
            let (name, password) = (fields.removeValue(forKey: "username"), fields.removeValue(forKey: "password"))
            // Everything is checked before anything changes.
            if let name { try check(username: name) }
            if let password { try check(password: password) }
            try check(providers: try providers(in: fields), of: user)
            let (save, account) = (try userSave(fields), caller.account.account)
            let isRepeated = user.applied.index(repeatedBy: mark(of: request)) != nil
            try save.check(against: try self.fields(of: user), isRepeated: isRepeated)
            let newName = name.flatMap { $0 == .string(user.username) ? nil : $0.string }
            if let newName, try await !gateway.isFree(newName, for: account) { throw ParseError.nameTaken }
            if let mail = save.mail, try await !gateway.isFree(mail, for: account) { throw ParseError.mailTaken }
            try await record(save.dates, caller)
            if let newName { try await rename(user, to: newName, caller) }
            if let mail = save.mail, try await !gateway.reserve(mail, for: account) { throw ParseError.mailTaken }
            var (current, token) = (caller, String?.none)
            if let text = password?.string {
                let changed = try await gateway.setPassword(text, of: caller.account, peer: request.peer)
                guard let changed else { throw ParseError.invalidSession }
                (token, current) = try await beginSession(changed, request, action: "login")
            }
            if fields["authData"]?["anonymous"] == .null || token != nil { try await unlink(current) }
            var members = try await apply(save, request, current)
            if let token { members["sessionToken"] = .string(token) }
            return Reply(body: .object(members))
        }
    }

    /// Erases the account of the caller's user. Its sessions end with this request.
    func deleteUser(_ request: ParseRequest, _ path: [String]) async throws -> Reply {
        let id = path[0]
        guard request.sessionToken != nil else {
            try gateway.admit(.other, request.peer)
            throw ParseError(206, "Insufficient auth to delete user")
        }
        return try await withCaller(request) { caller in
            guard try await user(of: caller.account.account).objectID == id else {
                throw ParseError(206, "Insufficient auth to delete user \(id.prefix(32)).")
            }
            guard try await gateway.beginErasure(of: caller.account) else { throw ParseError.invalidSession }
            request.noted.set(erased: caller.account.account)
            return Reply(body: .object([:]))
        }
    }

    /// Checks the providers that a save sets. The anonymous id of the user itself is an echo.
    private func check(providers: [String: JSON]?, of user: ParseUser) throws {
        for (name, value) in providers ?? [:] {
            guard name == "anonymous", let anonymous = user.anonymous, let members = value.members else {
                throw ParseError.unsupportedProvider
            }
            guard let id = members["id"] else { continue }
            let key = try id.string.map { try ParseEntry.anonymousKey(gateway.digest(of: $0.lowercased())) }
            guard key?.text == anonymous else {
                throw ParseError(252, "the anonymous id of a user cannot be changed")
            }
        }
    }

    func check(username: JSON) throws(ParseError) {
        guard let name = username.string, !name.isEmpty else { throw ParseError(200, "bad or missing username") }
        do throws(RequestError) { try gateway.check(name: name) } catch { throw ParseError(200, error.detail) }
    }

    func check(password: JSON) throws(ParseError) {
        guard let text = password.string, !text.isEmpty else { throw ParseError(201, "password is required") }
        do throws(RequestError) { try gateway.check(password: text) } catch { throw ParseError(142, error.detail) }
    }

    /// The fields of a save, checked. A mail address is an alias of the account, which can log in with it.
    func userSave(_ fields: [String: JSON]) throws(ParseError) -> UserSave {
        let save = try UserSave(fields, configuration)
        guard let mail = save.mail else { return save }
        do throws(RequestError) { try gateway.check(name: mail) } catch { throw ParseError.malformedMail }
        return save
    }

    private func rename(_ user: ParseUser, to name: String, _ caller: ParseCaller) async throws {
        guard try await gateway.reserve(name, for: caller.account.account) else { throw ParseError.nameTaken }
        _ = try await gateway.records.update(try ParseUser.key(of: caller.account.account)) { (known: ParseUser?) in
            guard var user = known else { return nil }
            user.username = name
            return user
        }
        // The same name in another spelling is the same entry.
        guard AccountGateway.folded(name) != AccountGateway.folded(user.username) else { return }
        try await release(user.username, of: caller.account.account)
    }

    /// Releases an alias of an account, unless it still is the name or the mail address of the user.
    private func release(_ name: String, of account: Account) async throws {
        guard try await !isUsed(name, by: account) else { return }
        try await gateway.release(name, of: account)
        // Another request may have set it again meanwhile.
        if try await isUsed(name, by: account) { _ = try await gateway.reserve(name, for: account) }
    }

    /// Returns `true` for the name or the mail address of the account's user.
    private func isUsed(_ name: String, by account: Account) async throws -> Bool {
        let user = try await user(of: account)
        let names = [user.username, try fields(of: user)["email"]?.string ?? ""]
        return names.contains { AccountGateway.folded($0) == AccountGateway.folded(name) }
    }

    /// Makes the anonymous id of a user invalid, once the user has a password.
    private func unlink(_ caller: ParseCaller) async throws {
        let account = caller.account.account
        guard let key = try await user(of: account).anonymous else { return }
        try await AccountEntries(records: gateway.records).remove(try EntryKey(key), of: account)
        _ = try await gateway.records.update(try ParseUser.key(of: account)) { (known: ParseUser?) in
            guard var user = known else { return nil }
            user.anonymous = nil
            return user
        }
    }

    /// Records the dates of a save.
    func record(_ dates: [UserSave.Dates], _ caller: ParseCaller) async throws {
        for written in dates {
            for date in written.dates { try await record(date, written.field, caller) }
        }
    }

    /// Applies a save to the caller's user, after its dates were recorded.
    ///
    /// - Returns: The members of the answer.
    func apply(_ save: UserSave, _ request: ParseRequest, _ caller: ParseCaller) async throws -> [String: JSON] {
        let mark = mark(of: request)
        var (answer, failure, formerMail) = ([String: JSON](), ParseError?.none, String?.none)
        let saved = try await gateway.records.update(try ParseUser.key(of: caller.account.account)) {
            (known: ParseUser?) in
            guard var user = known, var members = (try? JSON(parsing: user.fields.utf8))?.members else {
                return nil
            }
            let isRepeated = user.applied.index(repeatedBy: mark) != nil
            formerMail = members["email"]?.string
            do throws(ParseError) { answer = try save.apply(to: &members, isRepeated: isRepeated) } catch {
                failure = error
                return nil
            }
            if save.change.isRelative { user.applied.remember(mark) }
            if user.signUp?.digest == mark.digest { user.signUp?.addRepetition(at: mark.at) }
            user.fields = JSON.object(members).canonicalText
            user.updatedAt = mark.at
            return user
        }
        if let failure { throw failure }
        guard let saved else { throw ParseError.notFound }
        if save.changesMail, let formerMail { try await release(formerMail, of: caller.account.account) }
        for written in save.dates where written.isOperation {
            guard let end = try await ends(for: caller.account)[written.field.group] else { continue }
            answer[written.name] = written.field.shape == .date ? .date(end) : .array([.date(end)])
            try await rememberServed([written.field.group: end], to: caller)
        }
        answer["updatedAt"] = .string(Timestamp(milliseconds: saved.updatedAt).iso)
        return answer
    }
}
