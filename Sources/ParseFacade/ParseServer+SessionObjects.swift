import Entitlements
import SyncCore
import SyncService

// Sessions as objects of the class `_Session`, as their owners see them.
extension ParseServer {
    /// A valid session of an account.
    private typealias OwnSession = (digest: String, members: [String: JSON])

    func findSessions(_ request: ParseRequest, _: [String]) async throws -> Reply {
        try await withCaller(request) { caller in
            let (condition, selection) = (try request.condition(), try request.selection())
            let digests = try await sessionDigests(caller)
            gateway.charge(caller.account, reads: digests.count)
            let found = try await ownSessions(digests, caller, request).map(\.members).filter(condition.holds)
            return Reply(body: selection.answer(found))
        }
    }

    func getSession(_ request: ParseRequest, _ path: [String]) async throws -> Reply {
        guard path[0] != "me" else { return try await upgrade(request, []) }
        return try await withCaller(request) { caller in
            let selection = try request.objectSelection()
            let session = try await ownSession(path[0], caller, request)
            return Reply(body: .object(selection.shown(session.members)))
        }
    }

    func deleteSession(_ request: ParseRequest, _ path: [String]) async throws -> Reply {
        try await withCaller(request) { caller in
            try await endSession(try await ownSession(path[0], caller, request).digest, of: caller)
            return Reply(body: .object([:]))
        }
    }

    func upgrade(_ request: ParseRequest, _: [String]) async throws -> Reply {
        try await withCaller(request) { try await currentSession($0, request) }
    }

    private func currentSession(_ caller: ParseCaller, _ request: ParseRequest) async throws -> Reply {
        let selection = try request.objectSelection()
        let key = try ParseEntry.sessionKey(caller.session)
        guard let entry = try await gateway.records.read(key, as: ParseEntry.self)?.value else {
            throw ParseError.invalidSession
        }
        let user = try await user(of: caller.account.account)
        return Reply(body: .object(selection.shown(members(of: entry, caller.session, user, caller, request))))
    }

    private func ownSession(
        _ id: String, _ caller: ParseCaller, _ request: ParseRequest
    ) async throws -> OwnSession {
        let digests = try await sessionDigests(caller).filter { objectID(ofSession: $0) == id }
        guard let found = try await ownSessions(digests, caller, request).first else { throw ParseError.notFound }
        return found
    }

    /// The valid ones of the sessions with these digests, in the same order.
    private func ownSessions(
        _ digests: [String], _ caller: ParseCaller, _ request: ParseRequest
    ) async throws -> [OwnSession] {
        let account = caller.account.account
        let user = try await user(of: account)
        var sessions: [OwnSession] = []
        for digest in digests {
            let key = try ParseEntry.sessionKey(digest)
            guard let entry = try await gateway.records.read(key, as: ParseEntry.self)?.value,
                entry.account == account, entry.epoch == caller.account.epoch, entry.expires > gateway.host.now()
            else { continue }
            sessions.append((digest, members(of: entry, digest, user, caller, request)))
        }
        return sessions
    }

    /// The digests of the tokens of the account's sessions, the oldest first.
    private func sessionDigests(_ caller: ParseCaller) async throws -> [String] {
        let prefix = ParseEntry.prefix + "sessions/"
        return try await AccountEntries(records: gateway.records).keys(of: caller.account.account, under: prefix)
            .map { String($0.text.dropFirst(prefix.count)) }
    }

    private func objectID(ofSession digest: String) -> String {
        String(gateway.digest(of: "session " + digest).prefix(10))
    }

    /// The members of a session. The token is known for the caller's own session only, because the store has digests.
    private func members(
        of entry: ParseEntry, _ digest: String, _ user: ParseUser, _ caller: ParseCaller, _ request: ParseRequest
    ) -> [String: JSON] {
        var members: [String: JSON] = [
            "objectId": .string(objectID(ofSession: digest)),
            "restricted": .bool(false), "expiresAt": .date(Timestamp(milliseconds: entry.expires)),
            "user": .object([
                "__type": .string("Pointer"), "className": .string("_User"), "objectId": .string(user.objectID),
            ]),
        ]
        if entry.isImported != true {
            let start = JSON.string(Timestamp(milliseconds: entry.expires - Self.sessionLifetime).iso)
            (members["createdAt"], members["updatedAt"]) = (start, start)
        }
        members["installationId"] = entry.installation.map(JSON.string)
        if let action = entry.action {
            let provider = user.anonymous == nil ? "password" : "anonymous"
            members["createdWith"] = .object(["action": .string(action), "authProvider": .string(provider)])
        }
        if digest == caller.session { members["sessionToken"] = request.sessionToken.map(JSON.string) }
        return members
    }
}
