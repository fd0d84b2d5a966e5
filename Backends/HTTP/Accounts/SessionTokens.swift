public import SyncCore
import Synchronization

/// The access tokens of a persistent session. Refreshes them in time, once for all waiting requests, and stores a new
/// refresh token before it hands out the access token.
///
/// - An access token is replaced shortly before it expires, measured from its receipt and independently of the wall
///   clock, and once when a server refuses it.
/// - Requests of all processes share one refresh: ``SessionStore/exclusively(_:)`` excludes the others, which then find
///   its result.
/// - A refresh without an answer is repeated with the same refresh token, for which the server returns the same result
///   for one minute. A crash at any point has the same effect, because the old token stays stored until the new one is.
/// - When the server reports that the session is over, the session is deleted, and callers must log in again.
/// - The tokens of the app's own issuer are fetched by a closure of the app instead, and their session stays stored.
///
/// ```swift
/// let tokens = SessionTokens(client, store: keychain)
/// let remote = try HTTPBackend(server: client.server, transport: transport) { refused in
///     try await tokens.token(refused: refused)
/// }
/// ```
public final class SessionTokens: Sendable {
    fileprivate struct Held {
        var session: ServerSession
        /// The time since the receipt of the access token; `nil` if another process received it.
        var age: (@Sendable () -> Duration)?
    }

    /// The state of a refresh, apart from the requests that wait for it.
    fileprivate final class Refresher: Sendable {
        let client: AccountClient
        let store: any SessionStore
        let host: HostServices
        let retries: RetryPolicy
        let account: String?
        let held = Mutex<Held?>(nil)
        let issuer = Mutex<IssuedToken.Source?>(nil)
        /// The last access token of a session that has ended here.
        let retired = Mutex<String?>(nil)

        init(
            _ client: AccountClient, _ store: any SessionStore, account: String?, host: HostServices,
            retries: RetryPolicy
        ) {
            (self.client, self.store, self.account, self.host, self.retries) = (client, store, account, host, retries)
        }
    }

    private let refresher: Refresher
    private let tokens: AccessTokens

    /// Creates the tokens of the session in `store`.
    ///
    /// - Parameters:
    ///   - client: the client of the server.
    ///   - store: the storage of the session.
    ///   - account: the required account of the session; `nil` for any.
    ///   - host: the timer, and the wall clock for ``KeptSession/received``.
    ///   - retries: the number of attempts for a refresh without an answer, and their pauses.
    public init(
        _ client: AccountClient, store: any SessionStore, account: String? = nil, host: HostServices = .system,
        retries: RetryPolicy = RetryPolicy(maximumAttempts: 3)
    ) {
        let refresher = Refresher(client, store, account: account, host: host, retries: retries)
        self.refresher = refresher
        tokens = AccessTokens { (refused) throws(BackendError) in try await refresher.token(after: refused) }
    }

    /// Stores `session` and uses it from now on.
    ///
    /// - Throws: the error of the store. The session is not used in that case.
    public func begin(_ session: ServerSession) async throws(BackendError) {
        let refresher = refresher
        let age = refresher.host.stopwatch()
        try await refresher.store.exclusively { () async throws(BackendError) in
            try await refresher.store.save(KeptSession(session, received: refresher.host.now()))
        }
        let former = refresher.held.withLock { held in
            defer { held = Held(session: session, age: age) }
            return held?.session.accessToken ?? refresher.retired.withLock { $0 }
        }
        // Replaces a token of the former session.
        if former != session.accessToken { _ = try await tokens.token(refused: former) }
    }

    /// Fetches the next tokens of a session of the app's own issuer with `source`. Call it at each start of the app.
    ///
    /// - Parameter source: the closure; `nil` for none.
    package func renewIssued(with source: IssuedToken.Source?) { refresher.issuer.withLock { $0 = source } }

    /// The stored session; `nil` for none, and for one of another server or store, which the next log-in replaces.
    ///
    /// - Throws: the error of the store.
    public func session() async throws(BackendError) -> ServerSession? {
        do throws(BackendError) { return try await refresher.store.load()?.session } catch {
            guard (error.cause as? AccountError)?.kind == .sessionOver else { throw error }
            return nil
        }
    }

    /// Deletes the stored session.
    ///
    /// - Throws: the error of the store.
    public func forget() async throws(BackendError) {
        let refresher = refresher
        try await refresher.store.exclusively { () async throws(BackendError) in try await refresher.store.delete() }
        refresher.retire()
    }

    /// Returns an access token that is valid as far as known.
    ///
    /// - Parameter refused: the token that the server has just refused.
    /// - Throws: `permissionDenied` if there is no session or it has ended; the cause is an ``AccountError`` then.
    ///   `unavailable` and `busy` if the server cannot be reached.
    public func token(refused: String? = nil) async throws(BackendError) -> String? {
        try await tokens.token(refused: refused ?? refresher.tokenThatEnds)
    }
}

extension SessionTokens.Refresher {
    /// The current access token if it has expired or expires soon, because it must not expire during a request.
    var tokenThatEnds: String? {
        held.withLock { held in
            guard let held else { return retired.withLock { $0 } }
            return tokenThatEnds(held)
        }
    }

    private func tokenThatEnds(_ held: SessionTokens.Held) -> String? {
        guard let age = held.age else { return nil }
        let lifetime = held.session.lifetime
        return age() >= lifetime - min(.seconds(30), lifetime / 10) ? held.session.accessToken : nil
    }

    /// Returns a token other than `refused`: the stored one, or a new one.
    func token(after refused: String?) async throws(BackendError) -> String {
        let session = try await load().session
        guard let refused else { return use(session, age: nil) }
        if session.isIssued { return try await issued(after: refused) }
        // Read the session again, because another process may have refreshed it.
        return try await store.exclusively { () async throws(BackendError) in try await self.refreshed(refused) }
    }

    private func refreshed(_ refused: String) async throws(BackendError) -> String {
        let kept = try await load()
        if kept.session.accessToken != refused, isRecent(kept) { return use(kept.session, age: nil) }
        let session: ServerSession
        do throws(AccountError) { session = try await refresh(kept.session.refreshToken) } catch {
            if error.kind == .sessionOver {
                try await store.delete()
                retire()
            }
            throw error.backendError
        }
        let age = host.stopwatch()
        guard Self.isSame(session.account, kept.session.account) else {
            throw AccountError(.server, "\(client.server): the server answered with a session of another account")
                .backendError
        }
        // Store before use, so that the token that the server expects is available after a crash.
        try await store.save(KeptSession(session, received: host.now()))
        return use(session, age: age)
    }

    /// Returns a token of the app's own issuer other than `refused`. The lock is free while the app fetches it.
    private func issued(after refused: String) async throws(BackendError) -> String {
        let kept = try await load()
        if kept.session.accessToken != refused, isRecent(kept) { return use(kept.session, age: nil) }
        let (token, age): (IssuedToken, @Sendable () -> Duration)
        do throws(AccountError) {
            (token, age) = try await (IssuedToken(from: issuer.withLock { $0 }, host: host), host.stopwatch())
            guard Self.isSame(token.account, kept.session.account) else {
                throw AccountError(
                    .sessionOver, "the app's token is that of \"\(token.account)\"; log in to the account again")
            }
            guard token.text != refused || isUsable(refused) else {
                throw AccountError(
                    .sessionOver, "\(client.server) refused the app's token, and the app gave the same one again")
            }
        } catch { throw error.backendError }
        let session = token.session(incarnation: kept.session.incarnation)
        try await store.exclusively { () async throws(BackendError) in
            let now = try await self.load().session
            guard now.isIssued, now.incarnation == session.incarnation, Self.isSame(now.account, session.account) else {
                throw AccountError(.unreachable, "another account has just logged in; try again").backendError
            }
            try await self.store.save(KeptSession(session, received: self.host.now()))
        }
        return use(session, age: age)
    }

    /// True if `token` is the token in use, and was only replaced because it expires soon.
    private func isUsable(_ token: String) -> Bool {
        held.withLock { held in
            guard let held, held.session.accessToken == token, let age = held.age else { return false }
            return tokenThatEnds(held) != nil && age() < held.session.lifetime
        }
    }

    /// Loads the session and checks its account.
    private func load() async throws(BackendError) -> KeptSession {
        guard let kept = try await store.load() else {
            throw AccountError(.sessionOver, "no account is logged in; log in first").backendError
        }
        guard account.map({ Self.isSame($0, kept.session.account) }) != false else {
            throw AccountError(.sessionOver, "another account is logged in; log in first").backendError
        }
        return kept
    }

    private static func isSame(_ left: String, _ right: String) -> Bool { left.utf8.elementsEqual(right.utf8) }

    /// Marks the session as ended.
    func retire() {
        held.withLock { held in
            retired.withLock { $0 = held?.session.accessToken ?? $0 }
            held = nil
        }
    }

    private func use(_ session: ServerSession, age: (@Sendable () -> Duration)?) -> String {
        held.withLock { held in
            // The session is already in use, and its age is known.
            if held?.session == session, age == nil { return }
            held = SessionTokens.Held(session: session, age: age)
        }
        return session.accessToken
    }

    /// Returns `true` if another process has just refreshed the session, by the wall clock. A wrong clock causes one
    /// unnecessary refresh or one more refused request.
    private func isRecent(_ kept: KeptSession) -> Bool {
        let (age, overflow) = host.now().subtractingReportingOverflow(kept.received)
        return !overflow && age >= 0 && Duration.milliseconds(age) < kept.session.lifetime / 2
    }

    private func refresh(_ token: String) async throws(AccountError) -> ServerSession {
        // Another process has logged in with a token of the app's own issuer in this moment.
        guard !token.isEmpty else { throw AccountError(.unreachable, "the session has just changed; try again") }
        var (attempts, waited) = (0, Duration.zero)
        while true {
            let failure: AccountError
            do throws(AccountError) { return try await client.refresh(token) } catch { failure = error }
            attempts += 1
            var generator = host.generator
            guard failure.isTransient || failure.mayHaveHappened, failure.kind != .cancelled,
                // Other callers wait for this refresh.
                failure.retryAfter ?? .zero <= .seconds(5),
                let pause = retries.delay(afterFailedAttempts: attempts, waited: waited, using: &generator)
            else { throw failure }
            waited += pause
            do { try await host.sleep(for: max(pause, failure.retryAfter ?? .zero)) } catch {
                throw AccountError(.cancelled, "the task was cancelled")
            }
        }
    }
}
