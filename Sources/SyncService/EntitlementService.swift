import EntitlementSync
package import HTTPTypes
package import SyncCore
import SyncProtocol
import Synchronization

/// The HTTP interface of a server under `/v1`: it turns requests into responses, without a framework, over any store
/// with compare-and-swap. Several services may share one store.
///
/// An account's token gives access to that account's keys only. ``KeyScope`` alone defines these keys.
package final class EntitlementService: RequestHandler {
    let store: any KeyValueBackend
    let configuration: ServiceConfiguration
    let host: HostServices
    let onError: @Sendable (BackendError) -> Void
    let authenticator: Authenticator
    let keys: KeyRing
    let accounts: AccountService
    let devices: DeviceAuthorizations
    let owners: Owners
    let recorder: EvidenceRecorder
    let contentPasses = Mutex(WeightedCache<String, VerifiedContentPass>(capacity: VerifiedContentPass.capacity))
    let onEvidence: @Sendable (EvidenceNote) -> Void
    let clockGuard: ClockRollbackGuard
    let ledgers: LedgerRules.Environment
    let requests = RequestEpochs()
    let freshness: FeedFreshness
    let hub: ChangeHub
    let sweeper: Sweeper
    let limiter: RequestLimiter
    let usage: AccountUsage
    let health: StoreHealth
    let onRefusal: @Sendable (Refusal) -> Void
    let projector: Projector?
    let webhooks: WebhookSender?
    let accessSeries = AccessSeries()

    /// A service over `store`.
    ///
    /// - Parameters:
    ///   - store: The store of all data, including the accounts. It must support compare-and-swap.
    ///   - configuration: The configuration of the service.
    ///   - passwords: Hashes passwords.
    ///   - issuers: Further services whose tokens are accepted, see ``TokenVerifier``.
    ///   - host: The clock, the timer and the source of randomness.
    ///   - projector: The projector of the same store, which the caller runs; `nil` for none.
    ///   - webhooks: The sender of the projection's events, which the caller runs; `nil` for none.
    ///   - onError: Receives each error of the store that is not the client's mistake; clients do not see its text.
    ///   - onRefusal: Called for each request that is refused because of a limit.
    ///   - onEvidence: Called with the outcome of each piece of evidence.
    ///   - onRefusedToken: Called for each refused token, if there are further issuers, but not for tokens of the
    ///     server.
    /// - Throws: The store's error if it cannot be read or written, and `BackendError.Kind.unsupported` if it cannot
    ///   compare and swap or follow changes, or if ``ServiceConfiguration/check()`` fails.
    package init(
        _ store: any KeyValueBackend, configuration: ServiceConfiguration, passwords: any PasswordHasher,
        issuers: [any TokenIssuer] = [], host: HostServices = .system,
        projector: Projector? = nil, webhooks: WebhookSender? = nil,
        onError: @escaping @Sendable (BackendError) -> Void,
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
            health.remember(error)
            onError(error)
        }
        (self.store, self.configuration, self.host, self.onError) = (store, configuration, host, onError)
        self.health = health
        let usage = AccountUsage(configuration.callerLimits, onRefusal: onRefusal)
        self.usage = usage
        (self.onRefusal, self.onEvidence) = (onRefusal, onEvidence)
        (self.projector, self.webhooks) = (projector, webhooks)
        limiter = RequestLimiter(configuration.callerLimits, onRefusal: onRefusal)
        let records = RecordStore(backend: store)
        let id = host.randomUUID()
        let clockGuard = ClockRollbackGuard(records, host: host, id: id)
        self.clockGuard = clockGuard
        try await clockGuard.load(isRight: configuration.isClockAccepted)
        // Before the time without changes is measured, because it takes long for many accounts.
        try await AccountAliases(records: records).reserveEarlierNames(onError: onError)
        try await OwnersMigration(records: records, onError: onError).run()
        let freshness = FeedFreshness(host)
        self.freshness = freshness
        let keys = KeyRing(store, host: host, freshness: freshness) { clockGuard.isWrong }
        try await keys.load()
        self.keys = keys
        let authenticator = Authenticator(
            store, keys: keys,
            TokenVerifier(server: configuration.name, issuers: issuers, onRefusal: onRefusedToken), configuration,
            host: host, freshness: freshness)
        let sessions = Sessions(
            records: records, keys: keys, configuration: configuration, host: host, server: id)
        let credentials = Credentials(
            records: records, guesses: GuessLimiter(), accountGuesses: AccountGuesses(records), onError: onError,
            passwords: passwords, host: host)
        self.authenticator = authenticator
        accounts = AccountService(
            records: records, credentials: credentials, sessions: sessions, authenticator: authenticator,
            configuration: configuration)
        devices = DeviceAuthorizations(
            records: records, sessions: sessions, credentials: credentials,
            slots: DeviceSlots(configuration.callerLimits, onRefusal: onRefusal))
        let decoder = LedgerDecoder()
        let writer = ServerLedgerWriter(
            records: records, decoder: decoder, policy: configuration.policy, catalog: configuration.catalog,
            now: host.now, facade: configuration.facade)
        owners = Owners(records: records, policy: configuration.ownership, writer: writer)
        recorder = EvidenceRecorder(owners, configuration, host, onDamage: onError)
        ledgers = LedgerRules.Environment(
            store: store, synchronousStore: store as? any SynchronousReading, recorder: recorder,
            clockGuard: clockGuard, decoder: decoder, limiter: limiter, host: host, onError: onError)
        let erasure = Erasure(store: store, records: records, recorder: recorder, onError: onError)
        sweeper = Sweeper(erasure: erasure, clockGuard: clockGuard, host: host) { authenticator.forget(account: $0) }
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

    /// Follows the changes of the store, for event streams and for what another server has changed, sweeps up
    /// interrupted erasures and transfers, and drops expired evidence. Returns when the task is cancelled; the
    /// streams end then.
    ///
    /// Records the policy in the store, for programs that work on it.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            let (clockGuard, sweeper, evidenceSweeper, onError) = (clockGuard, sweeper, evidenceSweeper, onError)
            group.addTask { await self.statePolicy() }
            group.addTask { await clockGuard.run(onError: onError) }
            group.addTask { await sweeper.run() }
            group.addTask { await evidenceSweeper.run() }
            group.addTask { await self.followEvents() }
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

    /// The progress of the projection; `nil` without one.
    package var projection: Projector.Progress? { projector?.progress }

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

    /// Returns `true` if `request` asks for an event stream, judging by its header alone.
    package static func requestsEventStream(by request: HTTPRequest) -> Bool {
        let path = (request.path ?? "").utf8
        return request.method == .get && EventStream.isRequested(by: request)
            && (path.starts(with: "/v1/changes".utf8) || path.starts(with: "/v1/events".utf8))
    }

    /// Adds the header fields that every response under `/v1` has: the server's time, the request's identifier,
    /// caching, CORS.
    package func addFields(to fields: inout HTTPFields, for request: HTTPRequest) {
        // A time that is known to be wrong is not sent.
        if !clockGuard.isWrong { WireFields.add(serverTime: host.now(), to: &fields) }
        WireFields.copyRequestID(of: request.headerFields, in: &fields)
        if !fields.contains(.cacheControl) { fields[.cacheControl] = "no-store" }
        configuration.crossOrigin.addFields(to: &fields, for: request)
    }

    /// The key-value service for the keys that the caller of a request can reach, under the rules for these keys.
    func keyValues(of caller: Caller, for call: Call) throws(BackendError) -> KeyValueService {
        var values = KeyValueService(store, limits: configuration.limits, onError: onError)
        values.reserve = { [reserve = call.request.reserveAnswer] in reserve($0, caller.name) }
        guard case .account(let caller) = caller else { return values }
        var rules: any KeyValueBackend = ledgerRules(of: caller)
        if caller.isErased {
            rules = try ErasedAccountView(rules, caller.account)
        } else {
            rules = ErasureGuard(base: rules, records: accounts.records, caller: caller)
        }
        // Reads and requests for the ledger do not change the usage of the account. Batches may.
        let isCounted = call.target.key.map(caller.scope.isCounted) ?? true
        if usage.isLimited, isCounted, call.request.head.method != .get {
            rules = QuotaRules(base: rules, usage: usage, scope: caller.scope, now: host.now())
        }
        (values.store, values.scope) = (rules, caller.scope)
        values.charge = { [limiter, host, name = caller.account.name ?? ""] reads, writes in
            limiter.charge(account: name, batchedReads: reads, batchedWrites: writes, now: host.now())
        }
        return values
    }

    func ledgerRules(of caller: AccountCaller) -> LedgerRules {
        caller.rules { LedgerRules(ledgers, caller.account, caller.keys) }
    }

    /// The response to `GET /v1/changes`: a page, or a stream of events.
    func changes(_ call: Call, _ caller: Caller) async throws -> ServiceResponse {
        let service = try keyValues(of: caller, for: call)
        guard EventStream.isRequested(by: call.request.head) else { return try await service.changes(call) }
        let resumed = HTTPField.Name(WireFields.lastEventID).flatMap { call.fields[$0] }
        let text = resumed ?? call.query["after"]
        let cursor: ChangeCursor? = if let text { try CursorText.cursor(text) } else { nil }
        // An expired cursor is refused before the stream begins.
        if let cursor { _ = try await store.changes(since: cursor, limit: 1) }
        let account: AccountCaller? = if case .account(let account) = caller { account } else { nil }
        let (origin, expires) =
            switch caller {
            case .account(let account): (account.origin, account.expires)
            case .operator(let caller): (caller.origin, caller.expires)
            }
        let ticket = try account?.account.name.flatMap { name throws(RequestError) in
            try self.limiter.openStream(account: name)
        }
        let listening = hub.listen(service.scope, origin: origin, expires: expires) {
            ticket?.give()
        }
        // The token may have been revoked after it was verified and before the hub had this listener.
        do { _ = try await identify(call.request.head, peer: call.peer) } catch {
            listening.end()
            throw error
        }
        let events = EventStream(
            service, from: cursor, listening: listening, streamCount: streamCount, host: host
        ) { [self, head = call.request.head, peer = call.peer] in (try? await identify(head, peer: peer)) != nil }
        var response = HTTPResponse(status: .ok)
        WireFields.addEventStreamFields(to: &response.headerFields)
        return ServiceResponse(response, body: .stream(AsyncStream { await events.next() }, end: listening.end))
    }

    /// The response to a request that failed with `error`.
    func failure(_ error: any Error) -> ServiceResponse {
        switch error {
        case let error as RequestError: return error.response
        case let error as BackendError: return .failure(error, onError)
        case let error as AuthenticationFailure: return failure(error)
        default: return .failure(BackendError(.other, message: "unexpected", cause: error), onError)
        }
    }

    private func failure(_ error: AuthenticationFailure) -> ServiceResponse {
        var response: ServiceResponse
        switch error {
        case .missing:
            response = .refusal(.unauthorized, "this request needs an access token (Authorization: Bearer …)")
            response.head.headerFields[.wwwAuthenticate] = "Bearer"
        case .invalid:
            response = .refusal(.unauthorized, "the access token is invalid or has expired; log in or refresh")
            response.head.headerFields[.wwwAuthenticate] = "Bearer error=\"invalid_token\""
        case .ended(let detail):
            response = .refusal(.unauthorized, detail)
            response.head.headerFields[.wwwAuthenticate] = "Bearer error=\"invalid_token\""
        case .nameTaken:
            response = .refusal(.forbidden, "this server already has a password account of this name")
        case .store(let error): response = .failure(error, onError)
        }
        return response
    }
}
