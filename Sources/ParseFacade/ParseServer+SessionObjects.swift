import Entitlements
import SyncCore
import SyncService

// Sessions as objects of the class `_Session`, as their owners see them.
extension ParseServer {
    /// A valid session of an account.
    private typealias OwnSession = (digest: String, members: [String: JSONValue])

    func sessions(_ request: ParseRequest, _ rest: [String]) async throws -> Reply {
        try await withCaller(request) { caller in
            switch (request.method, rest.count) {
            case ("GET", 0):
                let (condition, selection) = (try request.condition(), try request.selection())
                let found = try await ownSessions(caller, request).map(\.members).filter(condition.holds)
                return Reply(body: selection.answer(found))
            case ("GET", 1) where rest[0] == "me":
                return Reply(body: .object(try await currentSession(caller, request)))
            case ("GET", 1):
                let selection = try request.objectSelection()
                let session = try await ownSession(rest[0], caller, request)
                return Reply(body: .object(selection.shown(session.members)))
            case ("DELETE", 1):
                try await endSession(try await ownSession(rest[0], caller, request).digest, of: caller)
                return Reply(body: .object([:]))
            default: throw ParseError(119, "sessions begin with a log-in, and cannot be changed")
            }
        }
    }

    func upgrade(_ request: ParseRequest) async throws -> Reply {
        try await withCaller(request) { Reply(body: .object(try await currentSession($0, request))) }
    }

    private func currentSession(_ caller: ParseCaller, _ request: ParseRequest) async throws -> [String: JSONValue] {
        let key = try ParseEntry.sessionKey(caller.session)
        guard let entry = try await gateway.records.read(key, as: ParseEntry.self)?.value else {
            throw ParseError.invalidSession
        }
        let user = try await user(of: caller.account.account)
        return members(of: entry, caller.session, user, caller, request)
    }

    private func ownSession(
        _ id: String, _ caller: ParseCaller, _ request: ParseRequest
    ) async throws -> OwnSession {
        let all = try await ownSessions(caller, request)
        guard let found = all.first(where: { $0.members["objectId"] == .string(id) }) else {
            throw ParseError.notFound
        }
        return found
    }

    /// The valid sessions of the caller's account, the oldest first.
    private func ownSessions(_ caller: ParseCaller, _ request: ParseRequest) async throws -> [OwnSession] {
        let (account, prefix) = (caller.account.account, ParseEntry.prefix + "sessions/")
        let user = try await user(of: account)
        var sessions: [OwnSession] = []
        for key in try await AccountEntries(records: gateway.records).keys(of: account, under: prefix) {
            guard let entry = try await gateway.records.read(key, as: ParseEntry.self)?.value,
                entry.account == account, entry.epoch == caller.account.epoch, entry.expires > gateway.host.now()
            else { continue }
            let digest = String(key.text.dropFirst(prefix.count))
            sessions.append((digest, members(of: entry, digest, user, caller, request)))
        }
        return sessions
    }

    /// The members of a session. The token is known for the caller's own session only, because the store has digests.
    private func members(
        of entry: ParseEntry, _ digest: String, _ user: ParseUser, _ caller: ParseCaller, _ request: ParseRequest
    ) -> [String: JSONValue] {
        var members: [String: JSONValue] = [
            "objectId": .string(String(gateway.digest(of: "session " + digest).prefix(10))),
            "restricted": .bool(false), "expiresAt": .date(Timestamp(milliseconds: entry.expires)),
            "user": .object([
                "__type": .string("Pointer"), "className": .string("_User"), "objectId": .string(user.objectID),
            ]),
        ]
        if entry.isImported != true {
            let start = JSONValue.string(Timestamp(milliseconds: entry.expires - Self.sessionLifetime).iso)
            (members["createdAt"], members["updatedAt"]) = (start, start)
        }
        members["installationId"] = entry.installation.map(JSONValue.string)
        if let action = entry.action {
            let provider = user.anonymous == nil ? "password" : "anonymous"
            members["createdWith"] = .object(["action": .string(action), "authProvider": .string(provider)])
        }
        if digest == caller.session { members["sessionToken"] = request.sessionToken.map(JSONValue.string) }
        return members
    }
}
