package import EntitlementSync
import Entitlements
import HTTPStorage
import HTTPTypes
package import StoreEvidence
package import SyncCore
import SyncProtocol
package import SyncService

/// Answers the requests of local programs on the agent's socket. The OpenAPI document describes them with the tag
/// `Device`.
package struct AgentService: Sendable {
    /// The work that depends on the command's options.
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

    /// The refusal of an action.
    package enum Refusal: Error {
        /// The request lacks something.
        case invalid(String)
        /// The process is configured otherwise.
        case conflict(String)
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

    /// The answer to `request`.
    package func respond(to request: ServiceRequest) async -> ServiceAnswer {
        var answer: ServiceAnswer
        if let route = AgentRoute(path: request.head.path ?? "") {
            answer = await respond(to: route, request)
        } else {
            answer = ServiceAnswer(.refusal(.notFound, "this socket has no such path"), route: "none")
        }
        WireFields.note(serverTime: host.now(), in: &answer.response.headerFields)
        WireFields.copyRequestID(of: request.head.headerFields, in: &answer.response.headerFields)
        if answer.response.headerFields[.cacheControl] == nil {
            answer.response.headerFields[.cacheControl] = "no-store"
        }
        return answer
    }

    private func respond(to route: AgentRoute, _ request: ServiceRequest) async -> ServiceAnswer {
        let method = request.head.method == .head ? .get : request.head.method
        guard route.methods.contains(method) else {
            let methods = route.methods.flatMap { $0 == .get ? [.get, .head] : [$0] }.map(\.rawValue)
            var answer = TransportAnswer.refusal(
                .methodNotAllowed, "this path accepts \(methods.joined(separator: ", "))")
            answer.response.headerFields[.allow] = methods.joined(separator: ", ")
            return ServiceAnswer(answer, route: route.path)
        }
        let permission = users.permission(of: request.localUser)
        guard permission >= (method == .get ? .read : .act) else {
            let rest =
                permission == .read ? "your group may only read; ask for --group-may-act" : "use your own syncd run"
            return ServiceAnswer(
                .refusal(.forbidden, "this socket belongs to another user: \(rest)"), route: route.path)
        }
        do {
            if route == .events { return try await stream(request) }
            return ServiceAnswer(try await respond(to: route, method, request), route: route.path)
        } catch {
            return ServiceAnswer(failure(error), route: route.path)
        }
    }

    private func respond(
        to route: AgentRoute, _ method: HTTPRequest.Method, _ request: ServiceRequest
    ) async throws -> TransportAnswer {
        let store = agent.store
        switch route {
        case .entitlements: return try .json(try await store.snapshot().json(account: "\(store.account)"))
        case .access(let name): return try .json(try await store.access(to: EntitlementID(name)).json(for: name))
        case .use(let name): return try await use(name, request)
        case .transactions: return try await record(request)
        case .sessions: return method == .delete ? try await logOut() : try await logIn(request)
        case .status: return try .json(try await status())
        case .events: return .refusal(.internalServerError, "events are answered separately")
        }
    }

    private func use(_ name: String, _ request: ServiceRequest) async throws -> TransportAnswer {
        guard let field = HTTPField.Name("Idempotency-Key"), let key = request.head.headerFields[field] else {
            throw RequestError(
                .badRequest,
                "the field Idempotency-Key is required: choose a random key for each use, and repeat the "
                    + "request with the same key if there is no answer")
        }
        let id = SpendID(key)
        do { try id.validate() } catch { throw RequestError(.badRequest, "Idempotency-Key: \(error)") }
        switch try await agent.store.use(EntitlementID(name), id: id) {
        case .granted(let grant): return try .json(Access.granted(grant).json(for: name))
        case .denied(let denial): return try .json(Access.denied(denial).json(for: name))
        case .spent(let remaining, let product):
            return try .json(
                .object([
                    ("entitlement", .string(name)), ("granted", .bool(true)), ("spent", .number(1)),
                    ("productID", .string(product.rawValue)), ("remaining", .number(remaining)),
                ]))
        }
    }

    private func logIn(_ request: ServiceRequest) async throws -> TransportAnswer {
        let fields = try RequestFields(request.body, request.head.headerFields)
        let name = try fields.text("name")
        let account = try await actions.logIn(
            name, fields.optionalText("password"), try fields.optionalFlag("adopt") ?? false)
        agent.store.retrySync()
        let alias = name == account.name ? [] : [("alias", JSON.string(name))]
        return try .json(.object([("account", .string("\(account)"))] + alias))
    }

    private func logOut() async throws -> TransportAnswer {
        let report = try await actions.logOut()
        return try .json(
            .object([
                ("account", .string("\(report.account)")), ("unsent", .bool(report.hasUnsentFacts)),
                ("failure", JSON(report.failure?.message)),
            ]))
    }

    private func status() async throws -> JSON {
        let current = try await agent.store.currentState()
        let (progress, clock, position) = (agent.progress, agent.store.clockStatus, await agent.events.position)
        let failure: JSON =
            progress.failure.map { failure in
                .object([
                    ("reason", .string(failure.error.message)), ("at", .string("\(failure.at)")),
                    ("isTransient", .bool(failure.error.isTransient)),
                ])
            } ?? .null
        return .object([
            ("version", .string(version)), ("account", .string("\(current.account)")), ("at", .string("\(clock.now)")),
            ("lastSync", JSON(progress.lastSync?.description)), ("failure", failure),
            ("waitingEvidence", .number(Int64(current.waitingEvidenceCount))),
            (
                "clockOffset",
                clock.offset.map { .number(Int64($0 / .milliseconds(1))) } ?? .null
            ),
            ("lastEvent", .number(Int64(position.last))),
            ("undeliveredEvents", .number(Int64(position.last - position.delivered))),
            ("lostEvents", .number(Int64(position.lost))),
        ])
    }

    private func failure(_ error: any Error) -> TransportAnswer {
        switch error {
        case let error as RequestError: return error.answer
        case let error as Refusal:
            switch error {
            case .invalid(let reason): return .refusal(.badRequest, reason)
            case .conflict(let reason): return .refusal(.conflict, reason)
            }
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
    private func stream(_ request: ServiceRequest) async throws -> ServiceAnswer {
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
        return ServiceAnswer(
            response, body: .stream(AsyncStream { await pieces.next() }, end: pieces.end),
            route: AgentRoute.events.path)
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
    fileprivate func json(for entitlement: String) -> JSON {
        guard case .object(let members) = json else { return json }
        return .object([("entitlement", .string(entitlement))] + members)
    }
}

extension TransportAnswer {
    fileprivate static func json(_ json: JSON) throws(BackendError) -> TransportAnswer {
        try .json { Array((json.text() + "\n").utf8) }
    }
}
