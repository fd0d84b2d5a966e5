package import EntitlementSync
package import Entitlements
import HTTPStorage
import HTTPTypes
package import StoreEvidence
package import SyncCore
import SyncProtocol
package import SyncService

/// Answers the requests of local programs on the agent's socket. The OpenAPI document describes them with the tag
/// `Device`.
package struct AgentService: RequestHandler {
    /// The work that depends on the command's options. It may throw a `RequestError` to refuse the request.
    package struct Actions: Sendable {
        /// Logs in to an account with a password.
        package var logIn:
            @Sendable (_ name: String, _ password: String?, _ adoptsAnonymous: Bool) async throws -> Account
        /// Logs out.
        package var logOut: @Sendable () async throws -> LogOutReport

        package init(
            logIn:
                @escaping @Sendable (_ name: String, _ password: String?, _ adoptsAnonymous: Bool) async throws
                -> Account,
            logOut: @escaping @Sendable () async throws -> LogOutReport
        ) {
            (self.logIn, self.logOut) = (logIn, logOut)
        }
    }

    /// The verifiers of what stores sign; `nil` for a store whose evidence is not accepted here.
    package struct Verifiers: Sendable {
        package var appStore: AppStoreVerifier?
        package var googlePlay: GooglePlayVerifier?

        package init(appStore: AppStoreVerifier? = nil, googlePlay: GooglePlayVerifier? = nil) {
            (self.appStore, self.googlePlay) = (appStore, googlePlay)
        }
    }

    let agent: Agent
    private let users: LocalUsers
    let verifiers: Verifiers
    private let actions: Actions
    private let version: String
    private let host: HostServices

    /// - Parameters:
    ///   - users: The permissions of local users.
    ///   - version: The version of the program, for the status.
    package init(
        _ agent: Agent, users: LocalUsers, verifiers: Verifiers, actions: Actions, version: String, host: HostServices
    ) {
        (self.agent, self.users, self.verifiers, self.actions) = (agent, users, verifiers, actions)
        (self.version, self.host) = (version, host)
    }

    /// All routes of the socket.
    package static let routes = RouteTable<Endpoint>([
        Route(.get, "/v1/entitlements", .read(AgentService.entitlements)),
        Route(.get, "/v1/access/{entitlement}", .read(AgentService.access)),
        Route(.post, "/v1/use/{entitlement}", .act(AgentService.use)),
        Route(.post, "/v1/transactions", .act(AgentService.record)),
        Route(.post, "/v1/sessions", .act(AgentService.logIn)),
        Route(.delete, "/v1/sessions", .act(AgentService.logOut)),
        Route(.get, "/v1/events", .read(AgentService.stream)),
        Route(.get, "/v1/status", .read(AgentService.status)),
    ])

    /// The handler of a route, and the local users that may use it.
    package enum Endpoint: Sendable {
        /// Gets the request, and the name of the entitlement in the path, or an empty text.
        package typealias Handler =
            @Sendable (AgentService) -> @Sendable (ServiceRequest, String) async throws -> ServiceResponse

        /// For users that may read.
        case read(Handler)
        /// For users that may also spend units, record evidence, and log in and out.
        case act(Handler)
    }

    /// The response to `request`.
    package func respond(to request: ServiceRequest) async -> ServiceResponse {
        var response = await route(request)
        WireFields.add(serverTime: host.now(), to: &response.head.headerFields)
        WireFields.copyRequestID(of: request.head.headerFields, in: &response.head.headerFields)
        if !response.head.headerFields.contains(.cacheControl) {
            response.head.headerFields[.cacheControl] = "no-store"
        }
        return response
    }

    private func route(_ request: ServiceRequest) async -> ServiceResponse {
        let path = RequestPath(request.head).path
        guard let resource = Self.routes.resource(at: path) else { return Self.nothingHere }
        var name = ""
        if let part = resource.parameters(in: path).first {
            guard let decoded = RequestPath.decoded(part) else { return Self.nothingHere }
            name = decoded
        }
        return await resource.respond(to: request) { request, endpoint in
            do {
                let permission = users.permission(of: request.localUser)
                switch endpoint {
                case .read(let handler) where permission >= .read, .act(let handler) where permission >= .act:
                    return try await handler(self)(request, name)
                default:
                    let rest =
                        permission == .read
                        ? "your group may only read; ask for --group-may-act" : "use your own syncd run"
                    throw RequestError(.forbidden, "this socket belongs to another user: \(rest)")
                }
            } catch {
                return failure(error)
            }
        }
    }

    private static let nothingHere = ServiceResponse.refusal(.notFound, "this socket has no such path")

    private func entitlements(_ request: ServiceRequest, _: String) async throws -> ServiceResponse {
        .json(try await agent.store.snapshot().json(account: "\(agent.store.account)"))
    }

    private func access(_ request: ServiceRequest, to name: String) async throws -> ServiceResponse {
        .json(try await agent.store.access(to: EntitlementID(name)).json(for: name))
    }

    private func use(_ request: ServiceRequest, _ name: String) async throws -> ServiceResponse {
        guard let field = HTTPField.Name("Idempotency-Key"), let key = request.head.headerFields[field] else {
            throw RequestError(
                .badRequest,
                "the field Idempotency-Key is required: choose a random key for each use, and repeat the "
                    + "request with the same key if there is no answer")
        }
        let id = SpendID(key)
        do { try id.validate() } catch { throw RequestError(.badRequest, "Idempotency-Key: \(error)") }
        return .json(try await agent.store.use(EntitlementID(name), id: id).json(for: name))
    }

    private func logIn(_ request: ServiceRequest, _: String) async throws -> ServiceResponse {
        let fields = try RequestFields(request.body, request.head.headerFields)
        let name = try fields.text("name")
        let account = try await actions.logIn(
            name, fields.optionalText("password"), try fields.optionalFlag("adopt") ?? false)
        agent.store.retrySync()
        let alias = name == account.name ? [] : [("alias", JSON.string(name))]
        return .json(.object([("account", .string("\(account)"))] + alias))
    }

    private func logOut(_ request: ServiceRequest, _: String) async throws -> ServiceResponse {
        let report = try await actions.logOut()
        return .json(
            .object([
                ("account", .string("\(report.account)")), ("unsent", .bool(report.hasUnsentFacts)),
                ("failure", JSON(report.failure?.message)),
            ]))
    }

    private func status(_ request: ServiceRequest, _: String) async throws -> ServiceResponse {
        let current = try await agent.store.currentState()
        let (progress, clock, position) = (agent.progress, agent.store.clockStatus, await agent.events.position)
        let failure: JSON =
            progress.failure.map { failure in
                .object([
                    ("reason", .string(failure.error.message)), ("at", .string("\(failure.at)")),
                    ("isTransient", .bool(failure.error.isTransient)),
                ])
            } ?? .null
        return .json(
            .object([
                ("version", .string(version)), ("account", .string("\(current.account)")),
                ("at", .string("\(clock.now)")),
                ("lastSync", JSON(progress.lastSync?.description)), ("failure", failure),
                ("waitingEvidence", .number(Int64(current.waitingEvidenceCount))),
                (
                    "clockOffset",
                    clock.offset.map { .number(Int64($0 / .milliseconds(1))) } ?? .null
                ),
                ("lastEvent", .number(Int64(position.last))),
                ("undeliveredEvents", .number(Int64(position.last - position.delivered))),
                ("lostEvents", .number(Int64(position.lost))),
            ]))
    }

    private func failure(_ error: any Error) -> ServiceResponse {
        switch error {
        case let error as RequestError: return error.response
        case let error as EntitlementError: return .refusal(Self.status(of: error), error.message)
        case let error as AccountError:
            return .refusal(error.isTransient ? .serviceUnavailable : .forbidden, error.message)
        case let error as BackendError: return .refusal(.serviceUnavailable, error.message)
        default: return .refusal(.internalServerError, "\(error)")
        }
    }

    private static func status(of error: EntitlementError) -> HTTPResponse.Status {
        if error.isTransient { return .serviceUnavailable }
        return switch error.kind {
        case .unknownEntitlement, .unknownProduct, .unknownAccount: .notFound
        case .invalid, .noRemote: .badRequest
        case .contradiction: .conflict
        case .signInNeeded, .refused, .accountErased: .forbidden
        case .ledgerFull: .contentTooLarge
        default: .internalServerError
        }
    }
}

// Events.
extension AgentService {
    private func stream(_ request: ServiceRequest, _: String) async throws -> ServiceResponse {
        let field = HTTPField.Name(WireFields.lastEventID).flatMap { request.head.headerFields[$0] }
        let last = await agent.events.position.last
        var start = last
        if let field {
            guard let number = UInt64(field) else {
                throw RequestError(.badRequest, "\(WireFields.lastEventID) must be the number of an event")
            }
            // A number of the future is that of another store.
            start = number > last ? 0 : number
        }
        let pieces = EventPieces(agent.events, after: start)
        var response = HTTPResponse(status: .ok)
        WireFields.addEventStreamFields(to: &response.headerFields)
        return ServiceResponse(response, body: .stream(AsyncStream { await pieces.next() }, end: pieces.end))
    }
}

/// The events of a feed as server-sent events. A slow reader holds back only its own next piece.
private actor EventPieces {
    private let feed: EventFeed
    private var signals: AsyncStream<Void>.Iterator
    /// Ends the pieces.
    nonisolated let end: @Sendable () -> Void
    private var position: UInt64
    private var hasGreeted = false

    init(_ feed: EventFeed, after position: UInt64) {
        (self.feed, self.position) = (feed, position)
        let subscription = feed.subscription()
        (signals, end) = (subscription.stream.makeAsyncIterator(), subscription.end)
    }

    /// The next piece of the body; `nil` at its end.
    func next() async -> [UInt8]? {
        guard hasGreeted else {
            hasGreeted = true
            return Array("retry: 1000\n\n".utf8) + pieces(of: await feed.events(after: position))
        }
        var iterator = signals
        let signal: Void? = await iterator.next(isolation: self)
        signals = iterator
        guard signal != nil else { return nil }
        let events = await feed.events(after: position)
        // A comment shows the reader and the connection that both are alive.
        return events.isEmpty ? Array(":\n\n".utf8) : pieces(of: events)
    }

    private func pieces(of events: [EventLog.Event]) -> [UInt8] {
        guard let first = events.first, let last = events.last else { return [] }
        let missed =
            first.number > position + 1
            ? "event: missed\ndata: {\"count\": \(first.number - position - 1)}\n\n" : ""
        position = last.number
        let text = events.map { "id: \($0.number)\nevent: \($0.kind)\ndata: \($0.json)\n\n" }.joined()
        return Array((missed + text).utf8)
    }
}

extension Access {
    /// The access as a JSON object that names the entitlement.
    package func json(for entitlement: String) -> JSON {
        guard case .object(let members) = json else { return json }
        return .object([("entitlement", .string(entitlement))] + members)
    }
}

extension EntitlementStore.UseOutcome {
    /// The outcome as a JSON object that names the entitlement.
    package func json(for entitlement: String) -> JSON {
        switch self {
        case .granted(let grant): Access.granted(grant).json(for: entitlement)
        case .denied(let denial): Access.denied(denial).json(for: entitlement)
        case .spent(let remaining, let product):
            .object([
                ("entitlement", .string(entitlement)), ("granted", .bool(true)), ("spent", .number(1)),
                ("productID", .string(product.rawValue)), ("remaining", .number(remaining)),
            ])
        }
    }
}

extension ServiceResponse {
    static func json(_ json: JSON) -> ServiceResponse { .json(Array((json.text() + "\n").utf8)) }
}
