public import SyncCore
import Synchronization

/// The access tokens of a session that is kept: gets new ones in time, one for all who wait, and keeps the refresh
/// token before it lets go of the access token that came with it.
///
/// - An access token is replaced shortly before it ends, measured from when it came, so that no clock that a person
///   sets plays a part; and once when a server refuses it.
/// - However many requests of however many processes wait, one refresh is made: ``SessionStore/exclusively(_:)`` keeps
///   the others away, who then find what it brought.
/// - A refresh whose answer is lost is made again with the same refresh token, for which the server gives the same
///   answer for a minute. A crash at any point is the same: what is kept is the old token until the new one is.
/// - When the server says that the session is over, it is kept no longer; whoever asks is told to log in.
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
        /// Runs since the access token came; `nil` for one that another process got.
        var age: Stopwatch?
    }

    /// Everything that a refresh touches, apart from the tokens that wait for it.
    fileprivate final class Desk: Sendable {
        let client: AccountClient
        let store: any SessionStore
        let host: HostServices
        let retries: RetryPolicy
        let account: String?
        let held = Mutex<Held?>(nil)
        /// The last access token of a session that is over here.
        let retired = Mutex<String?>(nil)

        init(
            _ client: AccountClient, _ store: any SessionStore, account: String?, host: HostServices,
            retries: RetryPolicy
        ) {
            (self.client, self.store, self.account, self.host, self.retries) = (client, store, account, host, retries)
        }
    }

    private let desk: Desk
    private let tokens: AccessTokens

    /// The tokens of the session that `store` keeps.
    ///
    /// - Parameters:
    ///   - client: asks the server.
    ///   - store: keeps the session.
    ///   - account: whose session it must be; `nil` for whoever is logged in.
    ///   - host: the timer, and the wall clock for ``KeptSession/received``.
    ///   - retries: how often a refresh whose answer is lost is made, and after which pauses.
    public init(
        _ client: AccountClient, store: any SessionStore, account: String? = nil, host: HostServices = .system,
        retries: RetryPolicy = RetryPolicy(maximumAttempts: 3)
    ) {
        let desk = Desk(client, store, account: account, host: host, retries: retries)
        self.desk = desk
        tokens = AccessTokens { (refused) throws(BackendError) in try await desk.token(after: refused) }
    }

    /// Keeps `session` and uses it from now on.
    ///
    /// - Throws: what the store throws; the session is not used then.
    public func begin(_ session: ServerSession) async throws(BackendError) {
        let desk = desk
        let age = Stopwatch(desk.host.timer)
        try await desk.store.exclusively { () async throws(BackendError) in
            try await desk.store.save(KeptSession(session, received: desk.host.now()))
        }
        let former = desk.held.withLock { held in
            defer { held = Held(session: session, age: age) }
            return held?.session.accessToken ?? desk.retired.withLock { $0 }
        }
        // Whoever has the token of another session asks for this one's.
        if former != session.accessToken { _ = try await tokens.token(refused: former) }
    }

    /// The session that is kept; `nil` for none.
    ///
    /// - Throws: what the store throws.
    public func session() async throws(BackendError) -> ServerSession? { try await desk.store.load()?.session }

    /// Keeps no session any more.
    ///
    /// - Throws: what the store throws.
    public func forget() async throws(BackendError) {
        let desk = desk
        try await desk.store.exclusively { () async throws(BackendError) in try await desk.store.delete() }
        desk.retire()
    }

    /// An access token that counts, as far as anybody can know.
    ///
    /// - Parameter refused: the one that the server has just refused.
    /// - Throws: `permissionDenied` where there is no session, or it is over; the cause is an ``AccountError`` then.
    ///   `unavailable` and `busy` where the server cannot be asked.
    public func token(refused: String? = nil) async throws(BackendError) -> String? {
        try await tokens.token(refused: refused ?? desk.tokenThatEnds)
    }
}

extension SessionTokens.Desk {
    /// The current access token if it ends soon or has ended: a request that is under way must not outlive it.
    var tokenThatEnds: String? {
        held.withLock { held in
            guard let held else { return retired.withLock { $0 } }
            guard let age = held.age else { return nil }
            let lifetime = held.session.lifetime
            return age.elapsed >= lifetime - min(.seconds(30), lifetime / 10) ? held.session.accessToken : nil
        }
    }

    /// A token that is not `refused`: the one that is kept, or a new one.
    func token(after refused: String?) async throws(BackendError) -> String {
        guard let refused else { return use(try await load().session, age: nil) }
        // Reading it again shows what another process has got meanwhile.
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
        let age = Stopwatch(host.timer)
        guard Self.isSame(session.account, kept.session.account) else {
            throw AccountError(.server, "\(client.server): it answered with another account's session").backendError
        }
        // First kept, then used: whoever comes after a crash must find what the server goes by.
        try await store.save(KeptSession(session, received: host.now()))
        return use(session, age: age)
    }

    /// What is kept, if it is of the account that is asked for.
    private func load() async throws(BackendError) -> KeptSession {
        guard let kept = try await store.load() else {
            throw AccountError(.sessionOver, "nobody is logged in; log in first").backendError
        }
        guard account.map({ Self.isSame($0, kept.session.account) }) != false else {
            throw AccountError(.sessionOver, "another account is logged in; log in first").backendError
        }
        return kept
    }

    private static func isSame(_ left: String, _ right: String) -> Bool { left.utf8.elementsEqual(right.utf8) }

    /// The session counts no more.
    func retire() {
        held.withLock { held in
            retired.withLock { $0 = held?.session.accessToken ?? $0 }
            held = nil
        }
    }

    private func use(_ session: ServerSession, age: Stopwatch?) -> String {
        held.withLock { held in
            // The same that is used already: its age is known.
            if held?.session == session, age == nil { return }
            held = SessionTokens.Held(session: session, age: age)
        }
        return session.accessToken
    }

    /// Whether another process got it just now, as far as the wall clock tells; where that is wrong, one refresh too
    /// many is made, or a request is refused once more.
    private func isRecent(_ kept: KeptSession) -> Bool {
        let (age, overflow) = host.now().subtractingReportingOverflow(kept.received)
        return !overflow && age >= 0 && Duration.milliseconds(age) < kept.session.lifetime / 2
    }

    private func refresh(_ token: String) async throws(AccountError) -> ServerSession {
        var (attempts, waited) = (0, Duration.zero)
        while true {
            let failure: AccountError
            do throws(AccountError) { return try await client.refresh(token) } catch { failure = error }
            attempts += 1
            var generator = host.generator
            guard failure.isTransient || failure.mayHaveHappened, failure.kind != .cancelled,
                // Others wait for this one.
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
