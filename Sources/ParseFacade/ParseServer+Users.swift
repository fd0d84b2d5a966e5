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
        // The id is one of the account's names, so that no other account can get it.
        guard try await gateway.claim(id, for: account) else {
            throw BackendError(.busy, message: "the id of the new user is taken; try again")
        }
        let made = try await gateway.records.update(key) { (known: ParseUser?) in
            known ?? ParseUser(objectID: id, username: account.name ?? "", createdAt: now, updatedAt: now)
        }
        guard let made else { throw ParseError.notFound }
        if made.objectID != id { try await gateway.release(id, of: account) }
        return made
    }

    /// The members of a user, with the dates of the groups, which are noted as served to the installation.
    func members(of user: ParseUser, for caller: ParseCaller) async throws -> [String: JSONValue] {
        var members = try fields(of: user)
        members["objectId"] = .string(user.objectID)
        members["username"] = .string(user.username)
        members["createdAt"] = .string(Timestamp(milliseconds: user.createdAt).iso)
        members["updatedAt"] = .string(Timestamp(milliseconds: user.updatedAt).iso)
        members["ACL"] = .object([
            "*": .object(["read": .bool(true)]),
            user.objectID: .object(["read": .bool(true), "write": .bool(true)]),
        ])
        let ends = try await ends(for: caller.account)
        for (name, field) in configuration.fields {
            members[name] = ends[field.group].map { field.shape == .date ? .date($0) : .array([.date($0)]) }
        }
        try await noteServed(ends, to: caller)
        return members
    }

    func fields(of user: ParseUser) throws -> [String: JSONValue] {
        guard let members = (try? JSONValue(parsing: user.fields.utf8))?.members else {
            throw BackendError(.damaged, message: "the fields of a user cannot be read")
        }
        return members
    }

    /// The answer that shows the caller's user.
    func answerUser(_ caller: ParseCaller, token: String?) async throws -> Reply {
        var members = try await members(of: try await user(of: caller.account.account), for: caller)
        if let token { members["sessionToken"] = .string(token) }
        return Reply(body: .object(members))
    }

    func me(_ request: ParseRequest) async throws -> Reply {
        try await withCaller(request) { try await answerUser($0, token: request.sessionToken) }
    }

    /// The user with an id. Others look as if they did not exist.
    func getUser(_ request: ParseRequest, _ id: String) async throws -> Reply {
        try await withCaller(request) { caller in
            guard try await user(of: caller.account.account).objectID == id else { throw ParseError.notFound }
            return try await answerUser(caller, token: nil)
        }
    }

    /// The users that meet a condition: the caller, or none.
    func findUsers(_ request: ParseRequest) async throws -> Reply {
        let condition = try request.condition()
        guard request.sessionToken != nil else {
            try gateway.admit(.other, request.peer)
            return Reply(body: .object(["results": .array([])]))
        }
        return try await withCaller(request) { caller in
            let user = try await user(of: caller.account.account)
            let known = ["objectId": JSONValue.string(user.objectID), "username": .string(user.username)]
            for name in condition.keys where known[name] == nil {
                throw ParseError(102, "users can be found by objectId and username only, not by \(name.prefix(64))")
            }
            guard condition.allSatisfy({ known[$0.key] == $0.value }) else {
                return Reply(body: .object(["results": .array([])]))
            }
            let members = try await members(of: user, for: caller)
            return Reply(body: .object(["results": .array([.object(members)])]))
        }
    }

    func saveUser(_ request: ParseRequest, _ id: String) async throws -> Reply {
        guard request.sessionToken != nil else {
            try gateway.admit(.other, request.peer)
            throw ParseError(206, "Cannot modify user \(id.prefix(32)).")
        }
        return try await withCaller(request) { caller in
            let user = try await user(of: caller.account.account)
            guard user.objectID == id else { throw ParseError(206, "Cannot modify user \(id.prefix(32)).") }
            var (fields, caller, token) = (request.body, caller, String?.none)
            if let name = fields.removeValue(forKey: "username"), name != .string(user.username) {
                try await rename(user, to: name.string, caller)
            }
            if let password = fields.removeValue(forKey: "password") {
                guard let text = password.string, !text.isEmpty else { throw ParseError(201, "password is required") }
                let changed = try await gateway.setPassword(text, of: caller.account, peer: request.peer)
                guard let changed else { throw ParseError.invalidSession }
                (token, caller) = try await beginSession(changed, request)
            }
            if fields["authData"]?.members?["anonymous"] == .null || token != nil { try await unlink(caller) }
            fields["authData"] = nil
            var members = try await save(fields, request, caller)
            if let token { members["sessionToken"] = .string(token) }
            return Reply(body: .object(members))
        }
    }

    private func rename(_ user: ParseUser, to name: String?, _ caller: ParseCaller) async throws {
        guard let name, !name.isEmpty else { throw ParseError(200, "bad or missing username") }
        guard try await gateway.claim(name, for: caller.account.account) else { throw ParseError.nameTaken }
        _ = try await gateway.records.update(try ParseUser.key(of: caller.account.account)) { (known: ParseUser?) in
            guard var user = known else { return nil }
            user.username = name
            return user
        }
        // The same name in another case is the same entry.
        guard name.lowercased() != user.username.lowercased() else { return }
        try await gateway.release(user.username, of: caller.account.account)
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

    /// Applies a save to the caller's user.
    ///
    /// - Returns: The members of the answer.
    func save(
        _ body: [String: JSONValue], _ request: ParseRequest, _ caller: ParseCaller
    ) async throws -> [String: JSONValue] {
        for name in body.keys where !ParseName.isField(name) {
            throw ParseError(105, "Invalid field name: \(name.prefix(64)).")
        }
        var written: [String: [Timestamp]] = [:]
        for name in configuration.fields.keys {
            guard let value = body[name], let dates = try dates(in: value, name) else { continue }
            written[name] = dates
        }
        let ownFields = body.filter { name, _ in
            configuration.fields[name] == nil && (!ParseName.reserved.contains(name) || name == "email")
        }
        let change = FieldChange(ownFields)
        let now = gateway.host.now()
        let digest = gateway.digest(
            of: request.requestID ?? "\(caller.installation) \(JSONValue.object(request.body).text)")
        let limit = request.requestID == nil ? Self.repetition : .max
        var answer: [String: JSONValue] = [:]
        var failure: ParseError?
        let saved = try await gateway.records.update(try ParseUser.key(of: caller.account.account)) {
            (known: ParseUser?) in
            guard var user = known, var members = (try? JSONValue(parsing: user.fields.utf8))?.members else {
                return nil
            }
            let isRepeated = user.applied.contains { $0.digest == digest && now - $0.at <= limit }
            do throws(ParseError) { answer = try change.apply(to: &members, isRepeated: isRepeated) } catch {
                failure = error
                return nil
            }
            if change.isRelative, !isRepeated {
                user.applied = user.applied.suffix(15) + [ParseUser.Applied(digest: digest, at: now)]
            }
            user.fields = JSONValue.object(members).text
            guard user.fields.utf8.count <= ParseUser.byteLimit else {
                failure = ParseError(116, "the fields of a user can have at most \(ParseUser.byteLimit) bytes")
                return nil
            }
            user.updatedAt = now
            return user
        }
        if let failure { throw failure }
        guard let saved else { throw ParseError.notFound }
        for (name, dates) in written.sorted(by: { $0.key < $1.key }) {
            guard let field = configuration.fields[name] else { continue }
            for date in dates { try await record(date, field, caller) }
            let isOperation = body[name]?.members?["__op"] != nil
            if isOperation, let end = try await ends(for: caller.account)[field.group] {
                answer[name] = field.shape == .date ? .date(end) : .array([.date(end)])
                try await noteServed([field.group: end], to: caller)
            }
        }
        answer["updatedAt"] = .string(Timestamp(milliseconds: saved.updatedAt).iso)
        return answer
    }

    /// The dates that a save writes to an expiry field; `nil` for a deletion, which is never obeyed.
    private func dates(in value: JSONValue, _ name: String) throws(ParseError) -> [Timestamp]? {
        let mismatch = ParseError(111, "schema mismatch for _User.\(name); expected Date")
        if let date = value.date { return [date] }
        var elements: [JSONValue]
        switch value {
        case .null: return nil
        case .array(let list): elements = list
        case .object(let members):
            switch members["__op"]?.string {
            case "Delete", "Remove": return nil
            case "Add", "AddUnique":
                guard case .array(let list)? = members["objects"] else { throw mismatch }
                elements = list
            default: throw mismatch
            }
        default: throw mismatch
        }
        guard elements.count <= 64 else { throw ParseError(111, "\(name) can have at most 64 dates at once") }
        var dates: [Timestamp] = []
        for element in elements {
            guard let date = element.date else { throw mismatch }
            dates.append(date)
        }
        return dates
    }
}
