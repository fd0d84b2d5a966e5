import EntitlementSync
package import HTTPTypes
import SyncCore
import SyncProtocol

extension EntitlementService {
    /// All routes of the service. The first two answer nearly all requests.
    package static let routes = RouteTable<Endpoint>(
        ownRoutes + customerRoutes + actRoutes + projectionRoutes + tokenRoutes + externalRoutes + webhookRoutes
            + catalogTrialRoutes + serverRoutes + accessSeriesRoutes + notificationRoutes + assistantRoutes)

    private static let ownRoutes: [Route<Endpoint>] = [
        Route(.get, "/v1/kv/{key...}", .values(KeyValueService.read), fastRead: { $0.fastEntry($1, $2, $3, $4) }),
        Route(
            .get, "/v1/content-check", .open(nil, EntitlementService.contentCheck),
            fastRead: { $0.fastContentCheck($1, $2, $3, $4) }),
        Route(.put, "/v1/kv/{key...}", .values(KeyValueService.change), takesLongBody: true),
        Route(.delete, "/v1/kv/{key...}", .values(KeyValueService.change)),
        Route(.get, "/v1/kv", .values(KeyValueService.list), query: ["prefix", "after", "limit"]),
        Route(.post, "/v1/batch", .values(KeyValueService.batch), takesLongBody: true),
        Route(.get, "/v1/changes", .caller(EntitlementService.changes), query: ["prefix", "after", "limit"]),
        Route(.get, "/v1/entitlements", .account(EntitlementService.entitlements)),
        Route(.get, "/v1/grants", .account(EntitlementService.grant)),
        Route(.get, "/v1/catalog", .open(.other, EntitlementService.catalog)),
        Route(.post, "/v1/transactions", .account(EntitlementService.transactions), takesLongBody: true),
        Route(.post, "/v1/sessions", .open(.logIn, EntitlementService.makeSession)),
        Route(.delete, "/v1/sessions", .account(EntitlementService.logOut)),
        Route(.get, "/v1/accounts", .operator(.read, EntitlementService.listAccounts), query: ["after", "limit"]),
        Route(.post, "/v1/accounts", .open(.signUp, EntitlementService.makeAccount)),
        Route(.get, "/v1/accounts/self", .account(EntitlementService.ownAccount)),
        Route(.put, "/v1/accounts/self/password", .account(EntitlementService.changePassword)),
        Route(.post, "/v1/accounts/self/recovery-codes", .account(EntitlementService.renewRecoveryCodes)),
        Route(.post, "/v1/accounts/self/erasure", .account(EntitlementService.eraseOwnAccount), isErasure: true),
        Route(.get, "/v1/accounts/self/token", .account(EntitlementService.issuedToken)),
        Route(.post, "/v1/accounts/self/token", .account(EntitlementService.registerToken)),
        Route(.get, "/v1/accounts/self/export", .account(EntitlementService.export)),
        Route(
            .post, "/v1/accounts/{name}/recovery-code", .operator(.admin, EntitlementService.addRecoveryCode),
            query: []),
        Route(
            .post, "/v1/accounts/{name}/erasure", .operator(.admin, EntitlementService.eraseAccount), query: [],
            isErasure: true),
        Route(.post, "/v1/devices", .open(.other, EntitlementService.beginDevice)),
        Route(.post, "/v1/devices/approvals", .account(EntitlementService.decideDevice)),
        Route(
            .post, "/v1/content-sessions",
            .accountOrOpen(EntitlementService.contentSession, EntitlementService.contentSessionByEvidence)),
        Route(.get, EntitlementService.keySetPath, .open(.other, EntitlementService.keySet)),
    ]

    private static let notificationRoutes = NotifyingStore.allCases.map { store in
        Route<Endpoint>(
            .post, "/v1/notifications/\(store.rawValue)",
            .open(nil) { service in { try await service.notification(of: store, $0) } })
    }

    /// The path of the server's public keys (RFC 8615), which is outside of `/v1`.
    package static let keySetPath = "/.well-known/jwks.json"

    /// The handler of a route, and the rules for its requests.
    package struct Endpoint: Sendable {
        typealias Open = @Sendable (EntitlementService) -> @Sendable (Call) async throws -> ServiceResponse
        typealias ForCaller = @Sendable (EntitlementService) -> @Sendable (Call, Caller) async throws -> ServiceResponse
        typealias ForAccount =
            @Sendable (EntitlementService) -> @Sendable (Call, AccountCaller) async throws -> ServiceResponse
        typealias ForOperator =
            @Sendable (EntitlementService) -> @Sendable (Call, OperatorCaller) async throws -> ServiceResponse
        typealias ForValues = @Sendable (KeyValueService) -> @Sendable (Call) async throws -> ServiceResponse
        typealias FastRead =
            @Sendable (EntitlementService, HTTPRequest, RequestTarget, _ peer: String, _ longest: Int) ->
            ServiceResponse?

        /// The callers that may use a route, and its handler.
        enum Access: Sendable {
            /// Requests without a token, which count as requests of a kind. `nil` for those with a limit of their own:
            /// notifications are limited by failed verifications, because a store sends them in bursts, and the checks
            /// of all clients come from one web server.
            case open(StrangerRequest?, Open)
            /// Accounts.
            case account(ForAccount)
            /// Accounts, and requests without a token.
            case accountOrOpen(ForAccount, Open)
            /// The operator's tokens with at least this scope.
            case `operator`(OperatorScope, ForOperator)
            /// Accounts, and the operator's tokens with the scope ``OperatorScope/admin``.
            case caller(ForCaller)
            /// Like ``caller(_:)``, each for the keys in its scope.
            case values(ForValues)

            /// The scope that a token of the operator needs; `nil` for routes that accept no such token.
            var scope: OperatorScope? {
                switch self {
                case .operator(let scope, _): scope
                case .caller, .values: .admin
                case .open, .account, .accountOrOpen: nil
                }
            }
        }

        let access: Access
        /// The known query parameters of listings and of the operator's routes, where a misspelt parameter would lead
        /// to a wrong response; `nil` for routes that ignore unknown parameters.
        let query: [String]?
        /// True if a body may be longer than ``EntitlementService/unauthenticatedBodyByteCount``.
        let takesLongBody: Bool
        /// True for an erasure. It waits for the other requests, so it must not be counted as one of them.
        let isErasure: Bool
        /// Responds on the caller's thread, see ``EntitlementService/fastRead(_:peer:longest:)``.
        let fastRead: FastRead?
    }

    /// A request to a route.
    struct Call: Sendable {
        let request: ServiceRequest
        let target: RequestTarget

        var fields: HTTPFields { request.head.headerFields }
        var query: WireQuery { target.query }
        var peer: String { request.peer }

        /// A response with a JSON body whose bytes are reserved.
        ///
        /// - Throws: `BackendError.Kind.busy` if there is no room for it.
        func response(_ json: [UInt8], to caller: AccountCaller) throws(BackendError) -> ServiceResponse {
            guard request.reserveAnswer(json.count, caller.name) else { throw .noRoomForAnswer() }
            return .json(json)
        }

        /// A response to the operator with a JSON body whose bytes are reserved.
        ///
        /// - Throws: `BackendError.Kind.busy` if there is no room for it.
        func response(_ json: [UInt8], to caller: OperatorCaller) throws(BackendError) -> ServiceResponse {
            guard request.reserveAnswer(json.count, caller.name) else { throw .noRoomForAnswer() }
            return .json(json)
        }

        /// The members of the body.
        func members() throws(RequestError) -> RequestFields { try RequestFields(request.body, fields) }
    }
}

extension Route<EntitlementService.Endpoint> {
    init(
        _ method: HTTPRequest.Method, _ path: String, _ access: EntitlementService.Endpoint.Access,
        query: [String]? = nil, takesLongBody: Bool = false, isErasure: Bool = false,
        fastRead: EntitlementService.Endpoint.FastRead? = nil
    ) {
        self.init(
            method, path,
            EntitlementService.Endpoint(
                access: access, query: query, takesLongBody: takesLongBody, isErasure: isErasure, fastRead: fastRead))
    }
}

/// The target of a request to the service: the path and the query of its request line, parsed once.
struct RequestTarget: Sendable {
    let resource: RouteTable<EntitlementService.Endpoint>.Resource
    let query: WireQuery
    /// The key of a path under `/v1/kv/`.
    let key: EntryKey?
    /// The decoded parameters of any other path, by their names in ``Route/path``.
    let parameters: [String: String]

    /// - Throws: ``RequestError`` for a request line that cannot be decoded, and for an unknown path.
    init(_ request: HTTPRequest) throws(RequestError) {
        let parts = RequestPath(request)
        guard let query = parts.query.map({ WireQuery($0) }) ?? WireQuery() else {
            throw RequestError(.badRequest, "the query must be percent-encoded UTF-8")
        }
        guard let resource = EntitlementService.routes.resource(at: parts.path) else { throw .nothingHere }
        (self.query, self.resource) = (query, resource)
        if resource.path == "/v1/kv/{key}" {
            do throws(BackendError) { key = try WirePath.key(ofPath: parts.path) } catch {
                throw RequestError(.badRequest, error.message)
            }
            parameters = [:]
            return
        }
        key = nil
        var parameters: [String: String] = [:]
        if !resource.parameterNames.isEmpty {
            for (name, part) in zip(resource.parameterNames, resource.parameters(in: parts.path)) {
                guard let decoded = RequestPath.decoded(part) else {
                    throw RequestError(.badRequest, "the \(name) in the path must be percent-encoded UTF-8")
                }
                parameters[name] = decoded
            }
        }
        self.parameters = parameters
    }

    /// The account in a path of the operator, as the client wrote it.
    var name: String? { parameters["account"] ?? parameters["name"] }

    /// The name of the account that an operator's request concerns, if it concerns one.
    var subject: String? {
        guard let key, key.hasPrefix(LedgerKeys.accountPrefix) else { return name }
        let name = key.text.dropFirst(LedgerKeys.accountPrefix.count).prefix { $0 != "/" }
        return String(name).replacing("%2F", with: "/").replacing("%25", with: "%")
    }
}

extension RequestError {
    /// The refusal of a request for an unknown path.
    package static let nothingHere = RequestError(.notFound, "there is nothing at this path")
}

extension EntitlementService {
    /// Answers paths under `/v1`, and those of the public keys and of the tools for assistants.
    package func answers(_ target: String) -> Bool {
        target.utf8.starts(with: "/v1/".utf8) || target == Self.keySetPath
            || target.utf8.prefix { $0 != UInt8(ascii: "?") }.elementsEqual(Self.assistantPath.utf8)
    }

    /// The response to `request`. Cancelling the task abandons everything that has not been written yet.
    package func respond(to request: ServiceRequest) async -> ServiceResponse {
        var response: ServiceResponse
        do throws(RequestError) {
            try limiter.admit(request.peer, now: host.now())
            response = await route(request)
        } catch {
            response = error.response
            response.route = "limited"
        }
        addFields(to: &response.head.headerFields, for: request.head)
        return response
    }

    private func route(_ request: ServiceRequest) async -> ServiceResponse {
        let target: RequestTarget
        do throws(RequestError) { target = try RequestTarget(request.head) } catch { return error.response }
        return await target.resource.respond(to: request) { [configuration] methods in
            configuration.crossOrigin.preflight(request.head, methods: methods)
        } _: { request, endpoint in
            await admit(Call(request: request, target: target), endpoint)
        }
    }

    /// Admits a request by the limits of its caller, and runs its handler.
    private func admit(_ call: Call, _ endpoint: Endpoint) async -> ServiceResponse {
        do {
            // With a wrong clock, sessions, keys and decisions would get wrong dates.
            if call.request.head.method != .get { try clockGuard.check() }
            let epoch = endpoint.isErasure ? nil : requests.start()
            defer { if let epoch { requests.finish(epoch) } }
            switch endpoint.access {
            case .open(let kind, let handler):
                if let kind { try limiter.admit(stranger: call.peer, kind, now: host.now()) }
                return try await handler(self)(call)
            case .accountOrOpen(_, let handler) where !call.fields.contains(.authorization):
                try limiter.admit(stranger: call.peer, .other, now: host.now())
                return try await handler(self)(call)
            default: break
            }
            let caller = try await identify(call.request.head, peer: call.peer)
            var ticket: Budget.Ticket?
            if case .account(let account) = caller {
                ticket = try limiter.enter(
                    account: account.account.name ?? "", isRead: call.request.head.method == .get,
                    byteCount: call.request.body.count, now: host.now())
            }
            defer { ticket?.give() }
            return await serve(call, endpoint, caller)
        } catch {
            return failure(error)
        }
    }

    /// The response of a route to an admitted request.
    func serve(_ call: Call, _ endpoint: Endpoint, _ caller: Caller) async -> ServiceResponse {
        var response: ServiceResponse
        do {
            if case .operator(let caller) = caller, let scope = endpoint.access.scope { try caller.require(scope) }
            if let known = endpoint.query { try call.query.check(known: known) }
            switch (endpoint.access, caller) {
            case (.values(let handler), _):
                response = try await handler(try keyValues(of: caller, for: call))(call)
            case (.caller(let handler), _): response = try await handler(self)(call, caller)
            case (.account(let handler), .account(let account)),
                (.accountOrOpen(let handler, _), .account(let account)):
                response = try await handler(self)(call, account)
            case (.operator(_, let handler), .operator(let caller)):
                response = try await handler(self)(call, caller)
            case (.operator, .account): response = .problem(.outOfScope)
            default:
                throw RequestError(.forbidden, "this path is for accounts; the operator's token is not accepted")
            }
        } catch {
            response = failure(error)
        }
        response.caller = caller.name
        if case .operator = caller { response.subject = response.subject ?? call.target.subject }
        return response
    }

    /// The response to a read of one entry or to a check of a path, the most frequent requests, on the caller's thread.
    /// `nil` for any other request, for a token that is not cached, and for an entry that the store does not have in
    /// memory; ``respond(to:)`` answers those.
    ///
    /// - Parameters:
    ///   - peer: The client's address.
    ///   - longest: The longest value to respond with, in bytes.
    package func fastRead(_ request: HTTPRequest, peer: String, longest: Int = .max) -> ServiceResponse? {
        guard request.method == .get, let target = try? RequestTarget(request),
            var response = target.resource.handler(of: .get)?.fastRead?(self, request, target, peer, longest)
        else { return nil }
        response.route = target.resource.path
        addFields(to: &response.head.headerFields, for: request)
        return response
    }

    /// The response to a read of one entry that the store can answer at once.
    private func fastEntry(
        _ request: HTTPRequest, _ target: RequestTarget, _ peer: String, _ longest: Int
    ) -> ServiceResponse? {
        guard let field = request.headerFields.value(of: .authorization), let key = target.key,
            ledgers.synchronousStore != nil, let caller = authenticator.known(field), !caller.isErased,
            caller.scope.mayRead(key),
            var response = KeyValueService.fastRead(
                key, request.headerFields, synchronouslyBy: ledgerRules(of: caller), longest: longest),
            // Checked last, because a request that is not answered here is counted by ``respond(to:)``.
            limiter.admitsRead(peer, account: caller.account.name ?? "", now: host.now())
        else { return nil }
        response.caller = caller.name
        return response
    }
}
