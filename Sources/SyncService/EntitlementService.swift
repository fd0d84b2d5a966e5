import EntitlementSync
package import HTTPTypes
package import SyncCore
import SyncProtocol

/// The HTTP interface of a server under `/v1`: it turns requests into answers, without a framework, over any store with
/// compare-and-swap. Several services may share one store.
///
/// An account's token gives access to that account's keys only. ``KeyScope`` alone defines these keys.
package final class EntitlementService: Sendable {
    let store: any KeyValueBackend
    let configuration: ServiceConfiguration
    let host: HostServices
    let onError: @Sendable (BackendError) -> Void
    let authenticator: Authenticator
    let keys: KeyRing
    let accounts: AccountService
    let devices: DeviceGrants
    let owners: TransactionOwners
    let recorder: EvidenceRecorder
    let failures = FailureLimiter()
    let contentPasses = ContentPasses()
    let contentLines = ContentLines()
    let onEvidence: @Sendable (EvidenceNote) -> Void
    let clockGuard: ClockRollbackGuard
    let ledgers: LedgerRules.Environment
    let requests = RequestEpochs()
    let freshness: FeedFreshness
    let hub: ChangeHub
    let sweeper: ErasureSweeper
    let limiter: RequestLimiter
    let usage: AccountUsage
    let health: StoreHealth
    let onRefusal: @Sendable (Refusal) -> Void

    /// A service over `store`.
    ///
    /// - Parameters:
    ///   - store: The store of all data, including the accounts. It must support compare-and-swap.
    ///   - configuration: The configuration of the service.
    ///   - cryptography: Hashes passwords, signs and verifies tokens.
    ///   - host: The clock, the timer and the source of randomness.
    ///   - onError: Receives each error of the store that is not the client's mistake; clients do not see its text.
    ///   - onRefusal: Called for each request that is refused because of a limit.
    ///   - onEvidence: Called with the outcome of each piece of evidence.
    ///   - onRefusedToken: Called for each valid token of another issuer that gives no access to an account.
    /// - Throws: The store's error if it cannot be read or written, and `BackendError.Kind.unsupported` if it cannot
    ///   compare and swap or follow changes, or if ``ServiceConfiguration/check()`` fails.
    package init(
        _ store: any KeyValueBackend, configuration: ServiceConfiguration, cryptography: any ServiceCryptography,
        host: HostServices = .system, onError: @escaping @Sendable (BackendError) -> Void,
        onRefusal: @escaping @Sendable (Refusal) -> Void = { _ in },
        onEvidence: @escaping @Sendable (EvidenceNote) -> Void = { _ in },
        onRefusedToken: @escaping @Sendable (RefusedToken) -> Void = { _ in }
    ) async throws(BackendError) {
        do throws(ConfigurationError) { try configuration.check() } catch {
            throw BackendError(.unsupported, operation: .open, message: error.description)
        }
        guard store.capabilities.compareAndSwap, store.capabilities.changes else {
            throw BackendError(
                .unsupported, operation: .open,
                message: "\(store.label) cannot write conditionally or follow changes; a server needs both")
        }
        let health = StoreHealth()
        let onError: @Sendable (BackendError) -> Void = { error in
            health.note(error)
            onError(error)
        }
        (self.store, self.configuration, self.host, self.onError) = (store, configuration, host, onError)
        self.health = health
        let usage = AccountUsage(configuration.callerLimits, onRefusal: onRefusal)
        self.usage = usage
        (self.onRefusal, self.onEvidence) = (onRefusal, onEvidence)
        limiter = RequestLimiter(configuration.callerLimits, onRefusal: onRefusal)
        let records = RecordStore(backend: store)
        let id = host.randomUUID()
        let clockGuard = ClockRollbackGuard(records, host: host, id: id)
        self.clockGuard = clockGuard
        try await clockGuard.load(isRight: configuration.isClockAccepted)
        // Before the time without changes is measured, because it takes long for many accounts.
        try await AccountAliases(records: records).claimEarlierNames(onError: onError)
        let freshness = FeedFreshness(host)
        self.freshness = freshness
        let keys = KeyRing(store, cryptography, host: host, freshness: freshness) { clockGuard.isWrong }
        try await keys.load()
        self.keys = keys
        let authenticator = Authenticator(
            store, keys: keys, cryptography, configuration, host: host, freshness: freshness,
            onRefusedToken: onRefusedToken)
        let sessions = Sessions(
            records: records, keys: keys, cryptography: cryptography, configuration: configuration, host: host,
            server: id)
        let credentials = Credentials(
            records: records, guesses: GuessLimiter(), accountGuesses: AccountGuesses(records), onError: onError,
            cryptography: cryptography, host: host)
        self.authenticator = authenticator
        accounts = AccountService(
            records: records, credentials: credentials, sessions: sessions, authenticator: authenticator,
            configuration: configuration)
        devices = DeviceGrants(
            records: records, sessions: sessions, credentials: credentials,
            tickets: DeviceTickets(configuration.callerLimits, onRefusal: onRefusal))
        owners = TransactionOwners(records: records, policy: configuration.ownership)
        let decoder = LedgerDecoder()
        var writer = ServerLedgerWriter(
            records: records, decoder: decoder, policy: configuration.policy, catalog: configuration.catalog,
            now: host.now)
        writer.matchesDerived = configuration.hasFacade
        ledgers = LedgerRules.Environment(
            store: store, synchronousStore: store as? any SynchronousReading, owners: owners, writer: writer,
            clockGuard: clockGuard, decoder: decoder, limiter: limiter, host: host, onError: onError)
        recorder = EvidenceRecorder(records, owners, writer, configuration, host) { cryptography.digest(of: $0) }
        let erasure = Erasure(
            store: store, records: records, owners: owners, lines: recorder.lines, tokens: recorder.tokens,
            parked: recorder.parked, onError: onError)
        sweeper = ErasureSweeper(erasure: erasure, host: host) { authenticator.forget(account: $0) }
        try await recorder.start(onError: onError)
        hub = ChangeHub(store, host: host, freshness: freshness, onError: onError) { change in
            authenticator.notice(change.key)
            clockGuard.notice(change.key)
            usage.notice(change.key, change.version, now: host.now())
        } onReset: {
            authenticator.forgetAll()
            usage.recountAll()
        }
        try await hub.begin()
    }

    /// Follows the changes of the store, for event streams and for what another server has changed, and repeats
    /// erasures. Returns when the task is cancelled; the streams end then.
    ///
    /// Records the policy in the store, for programs that work on it.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            let (clockGuard, sweeper, onError) = (clockGuard, sweeper, onError)
            group.addTask { await self.statePolicy() }
            group.addTask { await clockGuard.run(onError: onError) }
            group.addTask { await sweeper.run() }
            await hub.run()
            group.cancelAll()
        }
    }

    /// Records the policy in the store. After an error, tries again every minute.
    private func statePolicy() async {
        repeat {
            do throws(BackendError) { return try await accounts.records.state(configuration.policy) } catch {
                onError(error)
            }
        } while (try? await host.sleep(for: .seconds(60))) != nil
    }

    /// Reads the changes of the store to their end once, for a service that does not ``run()``.
    package func followChanges() async { await hub.follow() }

    /// The time since this server last followed the changes of the store to their end.
    package var feedAge: Duration { freshness.age }

    /// The number of open event streams.
    package var streamCount: Int { hub.listenerCount }

    /// Checks that the store answers, that its changes are followed, that the clock is plausible, and that the most
    /// recent write succeeded.
    ///
    /// After a failed write, a test write is attempted at most every five seconds.
    ///
    /// - Throws: The store's error, and `BackendError.Kind.unavailable` if the clock is wrong, or if the changes were
    ///   not followed for ``FeedFreshness/readiness``.
    package func checkReadiness() async throws(BackendError) {
        try clockGuard.check()
        guard feedAge <= FeedFreshness.readiness else {
            throw BackendError(
                .unavailable, operation: .changes, disposition: .transient,
                message: "the changes of the store were last followed \(feedAge.components.seconds) s ago")
        }
        // Reads by the call for several keys, because the store may answer a read of one key from memory.
        _ = try await store.read([ReadRequest(try EntryKey(KeyScope.serverPrefix + "keys"))])
        try await health.check(store, now: host.now())
    }

    /// The answer to `request`. Cancelling the task abandons everything that has not been written yet.
    package func respond(to request: ServiceRequest) async -> ServiceAnswer {
        var answer: ServiceAnswer
        if let refusal = countAddress(of: request.head, peer: request.peer) { return refusal }
        do throws(WireTarget.Failure) {
            let target = try WireTarget(request.head)
            answer = await respond(to: target, request)
        } catch {
            let refusal: TransportAnswer =
                switch error {
                case .absent: .refusal(.notFound, "there is nothing at this path")
                case .malformed(let reason): .refusal(.badRequest, reason)
                }
            answer = ServiceAnswer(refusal, route: "none")
        }
        note(request.head, in: &answer.response.headerFields)
        return answer
    }

    /// The answer to a read of one entry or to a check of a path, the most frequent requests, on the caller's thread.
    /// `nil` for any other request, for a token that is not cached, and for an entry that the store does not have in
    /// memory; ``respond(to:)`` answers those.
    ///
    /// - Parameters:
    ///   - peer: The client's address.
    ///   - longest: The longest value to answer with, in bytes.
    package func fastRead(_ request: HTTPRequest, peer: String, longest: Int = .max) -> ServiceAnswer? {
        guard request.method == .get, let target = try? WireTarget(request) else { return nil }
        if case .contentCheck = target.place { return fastContentCheck(request, peer: peer) }
        guard let field = request.headerFields.value(of: .authorization), case .key(let key) = target.place,
            ledgers.synchronousStore != nil
        else { return nil }
        guard let caller = authenticator.known(field), !caller.isErased, caller.scope.mayRead(key),
            let answer = KeyValueService.read(
                key, request.headerFields, synchronouslyBy: ledgerRules(of: caller), longest: longest),
            // Checked last, because a request that is not answered here is counted by ``respond(to:)``.
            limiter.admitsRead(peer, account: caller.account.name ?? "", now: host.now())
        else { return nil }
        var whole = ServiceAnswer(answer, route: target.place.route, caller: caller.name)
        note(request, in: &whole.response.headerFields)
        return whole
    }

    /// Returns `true` if `request` asks for an event stream, judging by its header alone.
    package static func requestsEventStream(by request: HTTPRequest) -> Bool {
        request.method == .get && (request.path ?? "").utf8.starts(with: "/v1/changes".utf8)
            && EventStream.isRequested(by: request)
    }

    /// Adds the header fields that every answer under `/v1` has: the server's time, the request's identifier, caching,
    /// CORS.
    package func note(_ request: HTTPRequest, in fields: inout HTTPFields) {
        // A time that is known to be wrong is not sent.
        if !clockGuard.isWrong { WireFields.note(serverTime: host.now(), in: &fields) }
        WireFields.copyRequestID(of: request.headerFields, in: &fields)
        if !fields.contains(.cacheControl) { fields[.cacheControl] = "no-store" }
        CrossOrigin(origins: configuration.origins).note(request.headerFields.value(of: .origin), in: &fields)
    }

    private func respond(to target: WireTarget, _ request: ServiceRequest) async -> ServiceAnswer {
        let place = target.place
        var request = request
        if request.head.method == .options {
            let answer = CrossOrigin(origins: configuration.origins).preflight(request.head, methods: place.allowed)
            return ServiceAnswer(answer, route: place.route)
        }
        if request.head.method == .head { request.head.method = .get }
        guard place.methods.contains(request.head.method) else {
            let methods = place.allowed
            var answer = TransportAnswer.refusal(.methodNotAllowed, "this path accepts \(methods)")
            answer.response.headerFields[.allow] = methods
            return ServiceAnswer(answer, route: place.route)
        }
        // With a wrong clock, sessions, keys and decisions would get wrong dates.
        if request.head.method != .get {
            do throws(BackendError) { try clockGuard.check() } catch {
                return ServiceAnswer(failure(error), route: place.route)
            }
        }
        // An erasure waits for the other requests, so it must not be one of them.
        let epoch = place.isErasure ? nil : requests.start()
        defer { if let epoch { requests.finish(epoch) } }
        do {
            if place.isOpen(to: request.head) {
                // Notifications are limited by failed verifications, because a store sends them in bursts. Checks of
                // all clients come from one web server.
                switch place {
                case .notifications, .contentCheck: break
                default: try admitUnauthenticated(place, peer: request.peer)
                }
                return ServiceAnswer(try await respondUnauthenticated(target, request), route: place.route)
            }
            let caller = try await identify(request.head, peer: request.peer)
            let ticket = try enter(caller, request)
            defer { if let ticket { limiter.requests.give(ticket) } }
            return await respond(to: target, request, caller)
        } catch {
            return ServiceAnswer(failure(error), route: place.route)
        }
    }

    private func respond(to target: WireTarget, _ request: ServiceRequest, _ caller: Caller) async -> ServiceAnswer {
        let route = target.place.route
        let subject: String? = if case .operator = caller { target.place.subject } else { nil }
        do {
            try target.checkQuery(request.head.method)
            let answer: TransportAnswer
            switch target.place {
            case .keys, .key, .batch:
                let isCounted = isCounted(target.place, request.head.method, caller)
                var values = try keyValues(of: caller, isCounted: isCounted)
                values.reserve = { request.reserveAnswer($0, caller.name) }
                answer = await values.respond(to: target, request.head, body: request.body)
            case .changes:
                if EventStream.isRequested(by: request.head) {
                    return try await stream(target, request, caller)
                }
                answer = try await keyValues(of: caller).respond(to: target, request.head, body: request.body)
            default: answer = try await respond(to: target, request, as: caller)
            }
            return ServiceAnswer(answer, route: route, caller: caller.name, subject: subject)
        } catch {
            return ServiceAnswer(failure(error), route: route, caller: caller.name, subject: subject)
        }
    }

    /// The key-value service for the keys that `caller` can reach, under the rules for these keys.
    ///
    /// - Parameter isCounted: True if writes count towards the account's quota.
    func keyValues(of caller: Caller, isCounted: Bool = false) throws(BackendError) -> KeyValueService {
        guard case .account(let caller) = caller else {
            return KeyValueService(store, limits: configuration.limits, onError: onError)
        }
        var rules: any KeyValueBackend = ledgerRules(of: caller)
        if caller.isErased {
            let cryptography = accounts.cryptography
            rules = try ErasedAccountView(rules, caller.account) { cryptography.digest(of: $0) }
        }
        if !caller.isErased { rules = ErasureGuard(base: rules, records: accounts.records, caller: caller) }
        if isCounted { rules = QuotaRules(base: rules, usage: usage, scope: caller.scope, now: host.now()) }
        var values = KeyValueService(rules, scope: caller.scope, limits: configuration.limits, onError: onError)
        values.charge = { [limiter, host, name = caller.account.name ?? ""] reads, writes in
            limiter.charge(account: name, batchedReads: reads, batchedWrites: writes, now: host.now())
        }
        return values
    }

    func ledgerRules(of caller: AccountCaller) -> LedgerRules {
        caller.rules { LedgerRules(ledgers, caller.account, caller.keys) }
    }

    private func stream(_ target: WireTarget, _ request: ServiceRequest, _ caller: Caller) async throws -> ServiceAnswer
    {
        let resumed = HTTPField.Name(WireFields.lastEventID).flatMap { request.head.headerFields[$0] }
        let text = resumed ?? target.query["after"]
        let cursor: ChangeCursor? = if let text { try CursorText.cursor(text) } else { nil }
        let service = try keyValues(of: caller)
        // An expired cursor is refused before the stream begins.
        if let cursor { _ = try await store.changes(since: cursor, limit: 1) }
        let account: AccountCaller? = if case .account(let account) = caller { account } else { nil }
        let ticket = try account?.account.name.flatMap { name throws(RequestError) in
            try self.limiter.openStream(account: name)
        }
        let listening = hub.listen(service.scope, origin: account?.origin, expires: account?.expires ?? .max) {
            [limiter] in
            if let ticket { limiter.streams.give(ticket) }
        }
        // The token may have been revoked after it was verified and before the hub had this listener.
        do { _ = try await identify(request.head, peer: request.peer) } catch {
            listening.end()
            throw error
        }
        let events = EventStream(
            service, from: cursor, listening: listening, streamCount: streamCount, host: host
        ) { [self] in
            (try? await identify(request.head, peer: request.peer)) != nil
        }
        var response = HTTPResponse(status: .ok)
        WireFields.addEventStreamFields(to: &response.headerFields)
        return ServiceAnswer(
            response, body: .stream(AsyncStream { await events.next() }, end: listening.end),
            route: target.place.route, caller: caller.name)
    }

    /// The answer to a request that failed with `error`.
    func failure(_ error: any Error) -> TransportAnswer {
        switch error {
        case let error as RequestError: return error.answer
        case let error as BackendError: return .failure(.report(of: error, onError))
        case let error as AuthenticationFailure: return failure(error)
        default:
            return .failure(.report(of: BackendError(.other, message: "unexpected", cause: error), onError))
        }
    }

    private func failure(_ error: AuthenticationFailure) -> TransportAnswer {
        var answer: TransportAnswer
        switch error {
        case .missing:
            answer = .refusal(.unauthorized, "this request needs an access token (Authorization: Bearer …)")
            answer.response.headerFields[.wwwAuthenticate] = "Bearer"
        case .invalid:
            answer = .refusal(.unauthorized, "the access token is invalid or has expired; log in or refresh")
            answer.response.headerFields[.wwwAuthenticate] = "Bearer error=\"invalid_token\""
        case .nameTaken:
            answer = .refusal(.forbidden, "this server already has a password account of this name")
        case .store(let error): answer = .failure(.report(of: error, onError))
        }
        return answer
    }
}
