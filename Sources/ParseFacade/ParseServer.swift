import Entitlements
import HTTPTypes
import SyncCore
import SyncProtocol
package import SyncService

/// Answers the requests of Parse SDKs from the accounts of a service.
package struct ParseServer: Sendable {
    let configuration: ParseConfiguration
    let gateway: AccountGateway
    /// Receives a line for each written date that no sum of products explains.
    let onConflict: @Sendable (String) -> Void

    /// The lifetime of a session, in milliseconds.
    static let sessionLifetime: Int64 = 365 * 86_400_000

    /// A façade over the accounts of `service`.
    package init(
        _ configuration: ParseConfiguration, _ service: EntitlementService,
        onConflict: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        (self.configuration, gateway, self.onConflict) = (configuration, AccountGateway(service), onConflict)
    }

    /// The header fields that a page may send: those of the SDK of JavaScript, and those of the REST API.
    private static let allowedFields =
        "Authorization, Cache-Control, Content-Type, Pragma, X-Parse-Application-Id, X-Parse-Client-Key, "
        + "X-Parse-Client-Version, X-Parse-Installation-Id, X-Parse-JavaScript-Key, X-Parse-Master-Key, "
        + "X-Parse-REST-API-Key, X-Parse-Request-Id, X-Parse-Revocable-Session, X-Parse-Session-Token, "
        + "X-Requested-With"

    /// Returns `true` if the façade answers the requests for `target`.
    package func answers(_ target: String) -> Bool {
        let root = configuration.path.utf8
        guard target.utf8.starts(with: root) else { return false }
        return target.utf8.dropFirst(root.count).first == UInt8(ascii: "/")
    }

    /// The refusal of a body that is longer than the façade accepts.
    package func refusalOfLongBody() -> ServiceAnswer {
        let error = ParseError(116, "the body must have at most \(ParseRequest.byteLimit) bytes", status: 413)
        return answer(Reply(status: 413, body: error.json), route: "parse/long")
    }

    /// An answer.
    struct Reply: Sendable {
        var status = 200
        var body: JSONValue
        var location: String?
    }

    /// The answer to a request.
    package func respond(to request: ServiceRequest) async -> ServiceAnswer {
        var answer = await answer(to: request)
        gateway.noteOrigin(of: request.head, in: &answer.response.headerFields)
        return answer
    }

    private func answer(to request: ServiceRequest) async -> ServiceAnswer {
        guard request.head.method != .options else {
            let answer = gateway.preflight(
                request.head, methods: "GET, POST, PUT, DELETE, OPTIONS",
                fields: Self.allowedFields)
            return ServiceAnswer(answer, route: "parse/other")
        }
        var (route, parsed) = ("parse/other", ParseRequest?.none)
        var result: ServiceAnswer
        do {
            let request = try ParseRequest(request, root: configuration.path)
            (route, parsed) = (Self.route(of: request), request)
            guard request.applicationID == configuration.applicationID || request.path == ["health"] else {
                return answer(Reply(status: 403, body: .object(["error": .string("unauthorized")])), route: route)
            }
            let reply = try await gateway.serving(request.peer) { try await self.reply(to: request) }
            // It waits for all running requests, so it cannot be a part of one.
            if let account = request.noted.erased { try await gateway.finishErasure(of: account) }
            result = answer(reply, route: route)
        } catch {
            let error = parseError(error)
            result = answer(Reply(status: error.status, body: error.json), route: route)
            if let seconds = error.retryAfter { result.response.headerFields[.retryAfter] = String(seconds) }
        }
        result.caller = parsed?.noted.name
        return result
    }

    private func answer(_ reply: Reply, route: String) -> ServiceAnswer {
        var response = HTTPResponse(status: HTTPResponse.Status(code: reply.status))
        response.headerFields[.contentType] = "application/json; charset=utf-8"
        response.headerFields[.cacheControl] = "no-store"
        if let location = reply.location { response.headerFields[.location] = location }
        return ServiceAnswer(response, body: .bytes(Array(reply.body.text.utf8)), route: route)
    }

    func parseError(_ error: any Error) -> ParseError {
        if let error = error as? ParseError { return error }
        let refusal = gateway.refusal(error)
        if refusal.code == "invalid_grant" { return .wrongCredentials }
        let code =
            switch refusal.status.code {
            case 429: 155
            case 503: 252
            case 500...: 1
            default: 119
            }
        return ParseError(code, refusal.detail, status: refusal.status.code, retryAfter: refusal.retryAfter)
    }

    /// The name of a route in metrics and logs, which no client chooses.
    private static func route(of request: ParseRequest) -> String {
        switch request.path.first {
        case "classes" where request.path.dropFirst().first == "_User": "parse/users"
        case let name? where known.contains(name): "parse/\(name)"
        default: "parse/other"
        }
    }

    private static let known: Set = [
        "users", "login", "logout", "classes", "batch", "installations", "config", "events", "health",
        "upgradeToRevocableSession", "requestPasswordReset", "sessions", "roles", "functions",
    ]

    func reply(to request: ParseRequest) async throws -> Reply {
        let (path, method) = (request.path, request.method)
        switch (path.first, path.count, method) {
        case ("health", 1, _): return Reply(body: .object(["status": .string("ok")]))
        case ("config", 1, "GET"): return Reply(body: .object(["params": .object([:])]))
        case ("events", 2, "POST"): return Reply(body: .object([:]))
        case ("batch", 1, "POST"): return try await batch(request)
        case ("login", 1, "GET"), ("login", 1, "POST"): return try await logIn(request)
        case ("logout", 1, "POST"): return try await logOut(request)
        case ("upgradeToRevocableSession", 1, "POST"): return try await upgrade(request)
        case ("requestPasswordReset", 1, "POST"): return try resetPassword(request)
        case ("functions", 2, "POST"): throw ParseError(141, "Invalid function: \"\(path[1].prefix(64))\"")
        case ("sessions", _, _): return try await sessions(request, Array(path.dropFirst()))
        case ("roles", _, _): return try await roles(request, Array(path.dropFirst()))
        case ("users", _, _): return try await users(request, Array(path.dropFirst()))
        case ("installations", _, _): return try installations(request, Array(path.dropFirst()))
        case ("classes", 2..., _): return try await classes(request, path[1], Array(path.dropFirst(2)))
        default: throw ParseError(119, "there is nothing at this path for \(method.prefix(16))", status: 404)
        }
    }

    private func users(_ request: ParseRequest, _ rest: [String]) async throws -> Reply {
        switch (request.method, rest.count) {
        case ("POST", 0): return try await signUp(request)
        case ("GET", 0): return try await findUsers(request)
        case ("GET", 1): return try await getUser(request, rest[0])
        case ("PUT", 1): return try await saveUser(request, rest[0])
        case ("DELETE", 1): return try await deleteUser(request, rest[0])
        default: throw ParseError(119, "this operation on users is not supported")
        }
    }

    private func classes(_ request: ParseRequest, _ name: String, _ rest: [String]) async throws -> Reply {
        switch name {
        case "_User": return try await users(request, rest)
        case "_Installation": return try installations(request, rest)
        case "_Session": return try await sessions(request, rest)
        case "_Role": return try await roles(request, rest)
        case _ where configuration.classes.contains(name): return try await objects(request, name, rest)
        default:
            throw ParseError(119, "This user is not allowed to access non-existent class: \(name.prefix(64))")
        }
    }

    /// Installations have no record: their ids name them, and nothing is pushed to them.
    private func installations(_ request: ParseRequest, _ rest: [String]) throws -> Reply {
        let now = JSONValue.string(Timestamp(milliseconds: gateway.host.now()).iso)
        let name = request.installationID ?? request.body["installationId"]?.string
        switch (request.method, rest.count) {
        case ("POST", 0):
            let id = name.map { String(gateway.digest(of: "installation " + $0).prefix(10)) } ?? randomText(10)
            return Reply(
                status: 201, body: .object(["objectId": .string(id), "createdAt": now]),
                location: "\(configuration.path)/installations/\(id)")
        case ("GET", 1):
            let selection = try request.objectSelection()
            var members = ["objectId": JSONValue.string(rest[0])]
            members["installationId"] = name.map(JSONValue.string)
            return Reply(body: .object(selection.shown(members)))
        case ("PUT", 1): return Reply(body: .object(["updatedAt": now]))
        case (let method, _):
            let operation = method == "DELETE" ? "delete" : "find"
            throw ParseError(
                119, "Clients aren't allowed to perform the \(operation) operation on the installation collection.")
        }
    }

    /// There are no roles.
    private func roles(_ request: ParseRequest, _ rest: [String]) async throws -> Reply {
        if request.sessionToken == nil {
            try gateway.admit(.other, request.peer)
        } else {
            try await withCaller(request) { _ in }
        }
        switch (request.method, rest.count) {
        case ("GET", 0): return Reply(body: try request.selection().answer([]))
        case ("GET", 1): throw ParseError.notFound
        default: throw ParseError(119, "this server has no roles")
        }
    }

    private func resetPassword(_ request: ParseRequest) throws -> Reply {
        guard let mail = request.body["email"]?.string, !mail.isEmpty else {
            throw ParseError(204, "you must provide an email")
        }
        throw ParseError(119, "this server sends no mail; ask its operator for a recovery code")
    }
}
