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
    /// The largest number of requests of a batch.
    static let batchLimit = 50
    /// The time for which an equal request of an installation is a repetition, in milliseconds.
    static let repetition: Int64 = 60_000

    /// A façade over the accounts of `service`.
    package init(
        _ configuration: ParseConfiguration, _ service: EntitlementService,
        onConflict: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        (self.configuration, gateway, self.onConflict) = (configuration, AccountGateway(service), onConflict)
    }

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
                fields: "Content-Type, X-Parse-Application-Id, X-Parse-Client-Key, X-Parse-JavaScript-Key, "
                    + "X-Parse-REST-API-Key, X-Parse-Session-Token, X-Parse-Installation-Id, X-Parse-Request-Id")
            return ServiceAnswer(answer, route: "parse/other")
        }
        var (route, parsed) = ("parse/other", ParseRequest?.none)
        var result: ServiceAnswer
        do {
            let request = try ParseRequest(request, root: configuration.path)
            (route, parsed) = (Self.route(of: request), request)
            guard request.applicationID == configuration.applicationID else {
                return answer(Reply(status: 403, body: .object(["error": .string("unauthorized")])), route: route)
            }
            result = answer(try await gateway.serving(request.peer) { try await reply(to: request) }, route: route)
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
        "upgradeToRevocableSession", "requestPasswordReset",
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
        case ("GET", 1) where rest[0] == "me": return try await me(request)
        case ("GET", 1): return try await getUser(request, rest[0])
        case ("PUT", 1): return try await saveUser(request, rest[0])
        default: throw ParseError(119, "this operation on users is not supported")
        }
    }

    private func classes(_ request: ParseRequest, _ name: String, _ rest: [String]) async throws -> Reply {
        switch name {
        case "_User": return try await users(request, rest)
        case "_Installation": return try installations(request, rest)
        case _ where configuration.classes.contains(name): return try await objects(request, name, rest)
        default:
            throw ParseError(119, "This user is not allowed to access non-existent class: \(name.prefix(64))")
        }
    }

    /// Installations need no record: their ids name them.
    private func installations(_ request: ParseRequest, _ rest: [String]) throws -> Reply {
        let now = JSONValue.string(Timestamp(milliseconds: gateway.host.now()).iso)
        switch (request.method, rest.count) {
        case ("POST", 0):
            let id = String(gateway.digest(of: "installation " + (request.installationID ?? "")).prefix(10))
            return Reply(
                status: 201, body: .object(["objectId": .string(id), "createdAt": now]),
                location: "\(configuration.path)/installations/\(id)")
        case ("PUT", 1): return Reply(body: .object(["updatedAt": now]))
        default:
            throw ParseError(
                119, "Clients aren't allowed to perform the find operation on the installation collection.")
        }
    }

    private func resetPassword(_ request: ParseRequest) throws -> Reply {
        guard let mail = request.body["email"]?.string, !mail.isEmpty else {
            throw ParseError(204, "you must provide an email")
        }
        throw ParseError(119, "this server sends no mail; ask its operator for a recovery code")
    }

    private func batch(_ request: ParseRequest) async throws -> Reply {
        guard case .array(let items)? = request.body["requests"] else {
            throw ParseError(107, "requests must be an array")
        }
        guard items.count <= Self.batchLimit else {
            throw ParseError(107, "a batch can have at most \(Self.batchLimit) requests, not \(items.count)")
        }
        var inner: [ParseRequest] = []
        for item in items {
            guard let members = item.members, let method = members["method"]?.string,
                let target = members["path"]?.string, let path = parts(of: target), path.first != "batch"
            else {
                throw ParseError(107, "each request of a batch needs a method and a path below \(configuration.path)")
            }
            let body = members["body"]?.members ?? [:]
            inner.append(ParseRequest(method: method.uppercased(), path: path, body: body, in: request))
        }
        var answers: [JSONValue] = []
        for (index, one) in inner.enumerated() {
            var one = one
            one.requestID = request.requestID.map { "\($0) \(index)" }
            do {
                if index > 0 { try gateway.count(request.peer) }
                answers.append(.object(["success": try await reply(to: one).body]))
            } catch {
                answers.append(.object(["error": parseError(error).json]))
            }
        }
        return Reply(body: .array(answers))
    }

    /// The parts of a path below that of the API. SDKs write `/1/…` for the API of parse.com.
    private func parts(of target: String) -> [String]? {
        for root in [configuration.path + "/", "/1/"] where target.utf8.starts(with: root.utf8) {
            let rest = target.dropFirst(root.count)
            guard !rest.contains("?") else { return nil }
            return rest.split(separator: "/").map(String.init)
        }
        return nil
    }
}
