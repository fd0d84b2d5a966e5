import Entitlements
package import HTTPTypes
import SyncCore
import SyncProtocol
package import SyncService

/// Answers the requests of Parse SDKs from the accounts of a service.
package struct ParseServer: RequestHandler {
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

    /// Returns `true` for targets under the path of the façade.
    package func answers(_ target: String) -> Bool {
        let root = configuration.path.utf8
        guard target.utf8.starts(with: root) else { return false }
        return target.utf8.dropFirst(root.count).first == UInt8(ascii: "/")
    }

    /// Refuses every long body.
    package func refusal(ofLongBodyAfter head: HTTPRequest, peer: String) -> ServiceResponse? {
        let error = ParseError(116, "the body must have at most \(ParseRequest.byteLimit) bytes", status: 413)
        return response(Reply(status: 413, body: error.json), route: "parse/long")
    }

    /// An answer.
    struct Reply: Sendable {
        var status = 200
        var body: JSON
        var location: String?
    }

    /// The response to a request.
    package func respond(to request: ServiceRequest) async -> ServiceResponse {
        var response = await route(request)
        gateway.crossOrigin.addFields(to: &response.head.headerFields, for: request.head)
        return response
    }

    private func route(_ request: ServiceRequest) async -> ServiceResponse {
        guard request.head.method != .options else {
            var response = gateway.crossOrigin.preflight(
                request.head, methods: "GET, POST, PUT, DELETE, OPTIONS", fields: Self.allowedFields)
            response.route = "parse/other"
            return response
        }
        var (route, parsed) = ("parse/other", ParseRequest?.none)
        var result: ServiceResponse
        do {
            let request = try ParseRequest(request, root: configuration.path)
            (route, parsed) = (Self.route(of: request), request)
            guard request.applicationID == configuration.applicationID || request.path == ["health"] else {
                return response(Reply(status: 403, body: .object(["error": .string("unauthorized")])), route: route)
            }
            let reply = try await gateway.serving(request.peer) { try await self.reply(to: request) }
            // It waits for all running requests, so it cannot be a part of one.
            if let account = request.noted.erased { try await gateway.finishErasure(of: account) }
            result = response(reply, route: route)
        } catch {
            let error = parseError(error)
            result = response(Reply(status: error.status, body: error.json), route: route)
            if let seconds = error.retryAfter { result.head.headerFields[.retryAfter] = String(seconds) }
        }
        result.caller = parsed?.noted.name
        return result
    }

    private func response(_ reply: Reply, route: String) -> ServiceResponse {
        var response = HTTPResponse(status: HTTPResponse.Status(code: reply.status))
        response.headerFields[.contentType] = "application/json; charset=utf-8"
        response.headerFields[.cacheControl] = "no-store"
        if let location = reply.location { response.headerFields[.location] = location }
        return ServiceResponse(response, body: .bytes(Array(reply.body.canonicalText.utf8)), route: route)
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

    private static let known = Set(routes.resources.compactMap { $0.path.split(separator: "/").first.map(String.init) })
        .union(["health"])

    typealias Handler = @Sendable (ParseServer) -> @Sendable (ParseRequest, [String]) async throws -> Reply

    /// All routes, below the path of the façade. Each handler gets the request and the parameters in its path.
    private static let routes = RouteTable<Handler>([
        Route(.get, "/config") { _ in { _, _ in Reply(body: .object(["params": .object([:])])) } },
        Route(.post, "/events/{name}") { _ in { _, _ in Reply(body: .object([:])) } },
        Route(.post, "/batch", ParseServer.batch),
        Route(.get, "/login", ParseServer.logIn),
        Route(.post, "/login", ParseServer.logIn),
        Route(.post, "/logout", ParseServer.logOut),
        Route(.post, "/upgradeToRevocableSession", ParseServer.upgrade),
        Route(.post, "/requestPasswordReset", ParseServer.resetPassword),
        Route(.post, "/functions/{name}") { _ in
            { throw ParseError(141, "Invalid function: \"\($1[0].prefix(64))\"") }
        },
        Route(.get, "/sessions", ParseServer.findSessions),
        Route(.get, "/sessions/{id}", ParseServer.getSession),
        Route(.delete, "/sessions/{id}", ParseServer.deleteSession),
        Route(.get, "/roles", ParseServer.findRoles),
        Route(.get, "/roles/{id}", ParseServer.getRole),
        Route(.get, "/users", ParseServer.findUsers),
        Route(.post, "/users", ParseServer.signUp),
        Route(.get, "/users/{id}", ParseServer.getUser),
        Route(.put, "/users/{id}", ParseServer.saveUser),
        Route(.delete, "/users/{id}", ParseServer.deleteUser),
        Route(.post, "/installations", ParseServer.makeInstallation),
        Route(.get, "/installations/{id}", ParseServer.getInstallation),
        Route(.put, "/installations/{id}", ParseServer.saveInstallation),
        Route(.get, "/classes/{class}", ParseServer.findObjects),
        Route(.post, "/classes/{class}", ParseServer.makeObject),
        Route(.get, "/classes/{class}/{id}", ParseServer.getObject),
        Route(.put, "/classes/{class}/{id}", ParseServer.saveObject),
        Route(.delete, "/classes/{class}/{id}", ParseServer.deleteObject),
    ])

    /// The classes that are also reached without `classes`.
    private static let collections = [
        "_User": "users", "_Installation": "installations", "_Session": "sessions", "_Role": "roles",
    ]

    func reply(to request: ParseRequest) async throws -> Reply {
        var parts = request.path
        if parts == ["health"] { return Reply(body: .object(["status": .string("ok")])) }
        if parts.count > 1, parts[0] == "classes", let collection = Self.collections[parts[1]] {
            parts.replaceSubrange(..<2, with: [collection])
        }
        let path = "/" + parts.joined(separator: "/")
        guard let resource = Self.routes.resource(at: path),
            let handler = HTTPRequest.Method(request.method).flatMap({ resource.handler(of: $0) })
        else { return try await refuse(request, parts) }
        return try await handler(self)(request, resource.parameters(in: path).map(String.init))
    }

    /// Refuses a request without a route.
    private func refuse(_ request: ParseRequest, _ path: [String]) async throws -> Reply {
        switch (path.first, path.count) {
        case ("users", _): throw ParseError(119, "this operation on users is not supported")
        case ("sessions", _):
            try await withCaller(request) { _ in }
            throw ParseError(119, "sessions begin with a log-in, and cannot be changed")
        case ("roles", _):
            try await admitUnlessCaller(request)
            throw ParseError(119, "this server has no roles")
        case ("installations", _):
            let operation = request.method == "DELETE" ? "delete" : "find"
            throw ParseError(
                119, "Clients aren't allowed to perform the \(operation) operation on the installation collection.")
        case ("classes", 2...):
            try await withObjects(path[1], request) { _, _ in }
            throw ParseError(119, "this operation on \(path[1]) is not supported")
        default: throw ParseError(119, "there is nothing at this path for \(request.method.prefix(16))", status: 404)
        }
    }

    // Installations have no record: their ids name them, and nothing is pushed to them.

    private func makeInstallation(_ request: ParseRequest, _: [String]) -> Reply {
        let name = request.installationID ?? request.body["installationId"]?.string
        let id = name.map { String(gateway.digest(of: "installation " + $0).prefix(10)) } ?? randomText(10)
        return Reply(
            status: 201, body: .object(["objectId": .string(id), "createdAt": now]),
            location: "\(configuration.path)/installations/\(id)")
    }

    private func getInstallation(_ request: ParseRequest, _ path: [String]) throws -> Reply {
        let name = request.installationID ?? request.body["installationId"]?.string
        let selection = try request.objectSelection()
        var members = ["objectId": JSON.string(path[0])]
        members["installationId"] = name.map(JSON.string)
        return Reply(body: .object(selection.shown(members)))
    }

    private func saveInstallation(_ request: ParseRequest, _: [String]) -> Reply {
        Reply(body: .object(["updatedAt": now]))
    }

    /// The time in a reply.
    private var now: JSON { .string(Timestamp(milliseconds: gateway.host.now()).iso) }

    // There are no roles.

    private func findRoles(_ request: ParseRequest, _: [String]) async throws -> Reply {
        try await admitUnlessCaller(request)
        return Reply(body: try request.selection().answer([]))
    }

    private func getRole(_ request: ParseRequest, _: [String]) async throws -> Reply {
        try await admitUnlessCaller(request)
        throw ParseError.notFound
    }

    /// Counts a request with a token as one of its account, and another one as one of its address.
    private func admitUnlessCaller(_ request: ParseRequest) async throws {
        if request.sessionToken == nil {
            try gateway.admit(.other, request.peer)
        } else {
            try await withCaller(request) { _ in }
        }
    }

    private func resetPassword(_ request: ParseRequest, _: [String]) throws -> Reply {
        guard let mail = request.body["email"]?.string, !mail.isEmpty else {
            throw ParseError(204, "you must provide an email")
        }
        throw ParseError(119, "this server sends no mail; ask its operator for a recovery code")
    }
}
