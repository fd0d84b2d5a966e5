package import EntitlementSync
import SyncCore
import Synchronization

/// The authenticated sender of a request.
enum Caller: Sendable {
    /// The operator of the server, or a program that acts for the operator.
    case `operator`(OperatorCaller)
    /// A device of an account.
    case account(AccountCaller)

    /// The name in the log.
    var name: String {
        switch self {
        case .operator(let caller): caller.name
        case .account(let caller): caller.name
        }
    }
}

/// A device of an account. One object serves all requests with the same token.
package final class AccountCaller: Sendable {
    package let account: Account
    let keys: LedgerKeys
    let scope: KeyScope
    /// The name in the log.
    package let name: String
    /// `nil` for tokens of another issuer.
    let session: String?
    /// The credential epoch of the account at the time the token was checked.
    package let epoch: Int64
    /// The time at which another issuer made the token, in milliseconds since 1970 UTC, if the token states it.
    let issued: Int64?
    /// The end of the token's validity, in milliseconds since 1970 UTC.
    let expires: Int64
    /// The version of the account's record when the token was checked.
    let recordVersion: EntryVersion?
    /// True if this incarnation of the account was erased. Only the marker can be read then.
    let isErased: Bool
    private let rules = Mutex<LedgerRules?>(nil)

    init(
        _ account: Account, epoch: Int64, erased: [String], session: String?, issued: Int64? = nil, expires: Int64,
        isErased: Bool, recordVersion: EntryVersion? = nil
    ) throws(BackendError) {
        (self.epoch, self.recordVersion) = (epoch, recordVersion)
        (self.account, self.session, self.issued, self.expires) = (account, session, issued, expires)
        self.isErased = isErased
        name = "\(account)"
        keys = try LedgerKeys(account)
        scope = try KeyScope.account(account, keys, erased: erased)
    }

    /// The session and the account whose end closes the caller's streams.
    var origin: ChangeHub.Origin? {
        account.name.map {
            ChangeHub.Origin.account(LedgerKeys.escaped($0), version: recordVersion, session: session)
        }
    }

    /// The ledger rules for the caller's keys, created once.
    func rules(_ make: () -> LedgerRules) -> LedgerRules {
        rules.withLock { rules in
            if let rules { return rules }
            let made = make()
            rules = made
            return made
        }
    }
}

/// The reason why the credential of a request is rejected.
enum AuthenticationFailure: Error {
    /// There is no credential.
    case missing
    /// The credential is unknown, or no longer valid. The reason is for the log.
    case invalid(String)
    /// The operator's token is right, but was revoked, has expired, or has an unknown scope. The detail is for its
    /// holder.
    case ended(String)
    /// The issuer's account has the same name as an account that this server created.
    case nameTaken
    /// The store failed.
    case store(BackendError)

    /// The reason for which a valid token of another issuer is refused, for the log.
    fileprivate var reason: String? {
        switch self {
        case .invalid(let reason): reason
        case .nameTaken: "its subject is the name of an account that its issuer did not create"
        case .missing, .ended, .store: nil
        }
    }
}

/// Verifies tokens. Each is verified once and then cached until it expires or is revoked.
///
/// A cached token is believed only while the changes of the store are followed (``FeedFreshness``). Otherwise the
/// records of its account and session are read again, and a request whose records cannot be read gets 503.
final class Authenticator: Sendable {
    /// The number of cached tokens.
    static let capacity = 100_000
    /// The total size of the cached tokens, in bytes.
    static let byteCapacity = 64 << 20
    /// The number of cached tokens of the operator's people and programs.
    static let operatorCapacity = OperatorTokens.capacity
    /// The number of cached tokens of one account. A further token evicts another one of the account.
    static let accountCapacity = 256
    /// The longest token, in bytes.
    static let tokenByteCount = 8_192
    /// The longest time for which another issuer's token is cached, in milliseconds, because the issuer may withdraw
    /// its key.
    static let externalPeriod: Int64 = 3_600_000

    private struct Cache {
        /// The callers by the canonical spelling of the header field with the token, so that a look-up needs no copy.
        var callers: [String: AccountCaller] = [:]
        /// The total size of the cached header fields, in bytes.
        var byteCount = 0
        /// The operator's people and programs, by the canonical spelling of the header field with the token.
        var operators: [String: OperatorCaller] = [:]
        /// The header fields with tokens of each account, by the account's name as escaped in keys.
        var tokens: [String: Set<String>] = [:]
        /// Incremented by each revocation: a token that was verified before one must not be cached after it.
        var revocations: UInt64 = 0
        var lastReload: Int64 = .min

        mutating func insert(_ field: String, _ caller: AccountCaller, now: Int64) {
            let name = LedgerKeys.escaped(caller.account.name ?? "")
            // There may still be an expired entry.
            forget(field, of: name)
            makeRoom(for: field.utf8.count, now: now)
            if let known = tokens[name], known.count >= Authenticator.accountCapacity, let one = known.first {
                forget(one, of: name)
            }
            tokens[name, default: []].insert(field)
            callers[field] = caller
            byteCount += field.utf8.count
        }

        /// Drops the tokens of an account, or of one of its sessions.
        mutating func remove(_ name: String, session: String?) {
            revocations += 1
            for field in tokens[name] ?? [] where session == nil || callers[field]?.session == session {
                forget(field, of: name)
            }
        }

        /// Drops one of the operator's tokens.
        mutating func remove(operatorToken id: String) {
            revocations += 1
            operators = operators.filter { $0.value.token != id }
        }

        /// Drops all tokens.
        mutating func removeAll() {
            revocations += 1
            (callers, tokens, byteCount, operators) = ([:], [:], 0, [:])
        }

        private mutating func forget(_ field: String, of name: String) {
            if callers.removeValue(forKey: field) != nil { byteCount -= field.utf8.count }
            tokens[name]?.remove(field)
            if tokens[name]?.isEmpty == true { tokens[name] = nil }
        }

        private mutating func makeRoom(for count: Int, now: Int64) {
            guard !hasRoom(for: count) else { return }
            for (field, caller) in callers where caller.expires <= now {
                forget(field, of: LedgerKeys.escaped(caller.account.name ?? ""))
            }
            if !hasRoom(for: count) { (callers, tokens, byteCount) = ([:], [:], 0) }
        }

        private func hasRoom(for count: Int) -> Bool {
            callers.count < Authenticator.capacity && byteCount + count <= Authenticator.byteCapacity
        }
    }

    private let records: RecordStore
    private let operatorTokens: OperatorTokens
    private let keys: KeyRing
    private let freshness: FeedFreshness
    private let verifier: TokenVerifier
    private let configuration: ServiceConfiguration
    private let host: HostServices
    private let cache = Mutex(Cache())

    init(
        _ store: any KeyValueBackend, keys: KeyRing, _ verifier: TokenVerifier,
        _ configuration: ServiceConfiguration, host: HostServices, freshness: FeedFreshness
    ) {
        (records, self.freshness) = (RecordStore(backend: store), freshness)
        operatorTokens = OperatorTokens(store, host: host)
        (self.keys, self.verifier, self.configuration, self.host) = (keys, verifier, configuration, host)
    }

    /// The number of cached tokens, and the total size of their header fields.
    var remembered: (count: Int, byteCount: Int) { cache.withLock { ($0.callers.count, $0.byteCount) } }

    /// The caller whose `Authorization` was verified before, if it is still valid and the changes of the store are
    /// followed.
    func known(_ field: String) -> AccountCaller? {
        guard freshness.isFresh, let known = cache.withLock({ $0.callers[field] }), known.expires > host.now() else {
            return nil
        }
        return known
    }

    /// The caller of a request with `field` as its `Authorization`.
    func caller(_ field: String?) async throws(AuthenticationFailure) -> Caller {
        guard let field else { throw .missing }
        if let known = known(field) { return .account(known) }
        let now = host.now()
        // The scheme is case-insensitive (RFC 9110, section 11.1).
        guard let space = field.firstIndex(of: " "), field[..<space].lowercased() == "bearer" else {
            throw .invalid("not a bearer token")
        }
        let token = String(field[space...].drop { $0 == " " })
        if let right = configuration.operatorToken, Array(token.utf8).isEqual(toSecret: Array(right.utf8)) {
            return .operator(.configured)
        }
        guard token.utf8.count <= Self.tokenByteCount else { throw .invalid("longer than any token") }
        // The cache holds one spelling of the field. Otherwise each spelling would take a place of its own.
        let usual = "Bearer " + token
        if let known = known(usual) { return .account(known) }
        if OperatorTokens.isToken(token) { return .operator(try await operatorCaller(token, usual)) }
        let before = cache.withLock { $0.revocations }
        let caller = try await verify(token, now: now)
        cache.withLock { cache in
            guard cache.revocations == before else { return }
            cache.insert(usual, caller, now: now)
        }
        return .account(caller)
    }

    /// The caller with one of the operator's tokens.
    private func operatorCaller(_ token: String, _ field: String) async throws(AuthenticationFailure) -> OperatorCaller
    {
        let (known, before) = cache.withLock { ($0.operators[field], $0.revocations) }
        if let known, freshness.isFresh, known.expires > host.now() { return known }
        let caller = try await operatorTokens.verify(token)
        cache.withLock { cache in
            guard cache.revocations == before else { return }
            if cache.operators.count >= Self.operatorCapacity { cache.operators = [:] }
            cache.operators[field] = caller
        }
        return caller
    }

    /// Drops one of the operator's tokens.
    func forget(operatorToken id: String) { cache.withLock { $0.remove(operatorToken: id) } }

    /// Drops the tokens of a session, or of all sessions of an account. The next request verifies its token again.
    func forget(account: String, session: String? = nil) {
        cache.withLock { $0.remove(LedgerKeys.escaped(account), session: session) }
    }

    /// Handles a changed key, whether this server or another one over the same store changed it: drops the tokens of
    /// the account or the session under it, or all tokens if the signing keys changed.
    func notice(_ key: EntryKey) {
        guard key.hasPrefix(KeyScope.serverPrefix) else { return }
        if KeyRing.isStored(under: key) { return forgetAll() }
        if let id = OperatorTokens.id(of: key) { return forget(operatorToken: id) }
        let parts = key.text.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        guard parts.count >= 3, parts[1] == "accounts" || parts[1] == "sessions" else { return }
        let session = parts[1] == "sessions" && parts.count == 4 ? parts[3] : nil
        cache.withLock { $0.remove(parts[2], session: session) }
    }

    /// Drops all tokens and signing keys, after changes that may include the end of any of them.
    func forgetAll() {
        keys.invalidate()
        cache.withLock { $0.removeAll() }
    }

    private func verify(_ token: String, now: Int64) async throws(AuthenticationFailure) -> AccountCaller {
        do throws(BackendError) { try await keys.refresh() } catch { throw .store(error) }
        switch try await content(of: token, now: now) {
        case .own(let claims): return try await caller(claims, now: now)
        case .external(let issuer, let subject, let issuedAt, let expiresAt):
            do throws(AuthenticationFailure) {
                return try await caller(
                    issuer, subject, issued: issuedAt.map(Self.milliseconds),
                    expires: min(Self.milliseconds(expiresAt), now + Self.externalPeriod))
            } catch {
                if let reason = error.reason {
                    verifier.onRefusal(RefusedToken(issuer: issuer, subject: subject, reason: reason))
                }
                throw error
            }
        }
    }

    /// The verified content of a token. Another server may have created the key that it names, so the keys are loaded
    /// again if it is unknown.
    private func content(of token: String, now: Int64) async throws(AuthenticationFailure) -> VerifiedToken {
        do throws(TokenRefusal) { return try await verifier.verify(token, keys: keys.keys, now: now) } catch {
            guard error.isKeyUnknown, mayReload(now) else { throw .invalid(error.reason) }
        }
        do throws(BackendError) { try await keys.load() } catch { throw .store(error) }
        do throws(TokenRefusal) { return try await verifier.verify(token, keys: keys.keys, now: now) } catch {
            throw .invalid(error.reason)
        }
    }

    private static func milliseconds(_ seconds: Int64) -> Int64 {
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000)
        return overflow ? (seconds < 0 ? .min : .max) : product
    }

    /// Limits the reads of the store that forged tokens can cause.
    private func mayReload(_ now: Int64) -> Bool {
        cache.withLock { cache in
            guard cache.lastReload == .min || now < cache.lastReload || now - cache.lastReload > 10_000 else {
                return false
            }
            cache.lastReload = now
            return true
        }
    }

    private func caller(_ claims: AccessClaims, now: Int64) async throws(AuthenticationFailure) -> AccountCaller {
        do {
            guard let held = try await records.account(claims.account),
                let session = try await records.read(
                    try SessionRecord.key(claims.session, of: claims.account), as: SessionRecord.self)?.value,
                session.account.utf8.elementsEqual(claims.account.utf8),
                session.incarnation.utf8.elementsEqual(claims.incarnation.utf8),
                !session.isOver(at: now, lifetime: configuration.sessionMilliseconds)
            else { throw AuthenticationFailure.invalid("its session has ended") }
            let account = try Account(claims.account, incarnation: claims.incarnation)
            let record = held.value
            let isErased = record.isErased(claims.incarnation)
            let isCurrent = record.account == account && session.epoch == record.epoch
            guard isErased || isCurrent else { throw AuthenticationFailure.invalid("its session was ended") }
            return try AccountCaller(
                account, epoch: session.epoch, erased: record.erased, session: claims.session,
                expires: claims.expiresAt * 1_000, isErased: isErased, recordVersion: held.version)
        } catch {
            throw Self.failure(error)
        }
    }

    /// The account of another issuer's token. It is created for the first token of a subject; after an erasure, the
    /// client must ask for a new one.
    private func caller(
        _ issuer: String, _ subject: String, issued: Int64?, expires: Int64
    ) async throws(AuthenticationFailure) -> AccountCaller {
        do {
            _ = try Account(subject)
            var held = try await records.account(subject)
            if held?.value.isUnused ?? true {
                if let objection = AccountName.objection(to: subject) {
                    throw AuthenticationFailure.invalid("its subject is no account name: \(objection)")
                }
                try await create(subject, issuer: issuer)
                held = try await records.account(subject)
            }
            guard let held, held.value.issuer == issuer else { throw AuthenticationFailure.nameTaken }
            let record = held.value
            let isErased = record.activeAccount == nil
            if !isErased, let since = record.tokensSince, issued ?? .min <= since {
                throw AuthenticationFailure.invalid("all tokens up to its own were ended")
            }
            let incarnation = record.account?.incarnation ?? record.erased.last ?? ""
            let account = try Account(subject, incarnation: incarnation)
            if !isErased {
                try await AccountDirectory(backend: records.backend).adopt(account, isRevivable: false)
            }
            return try AccountCaller(
                account, epoch: record.epoch, erased: record.erased, session: nil, issued: issued, expires: expires,
                isErased: isErased, recordVersion: held.version)
        } catch {
            throw Self.failure(error)
        }
    }

    private static func failure(_ error: any Error) -> AuthenticationFailure {
        switch error {
        case let error as AuthenticationFailure: error
        case let error as BackendError: .store(error)
        default: .invalid("\(error)")
        }
    }
}

// The accounts whose tokens another issuer makes.
extension Authenticator {
    /// Creates the account of a subject that the server does not know yet.
    private func create(_ subject: String, issuer: String) async throws(BackendError) {
        let (incarnation, now) = (host.randomUUID(), host.now())
        _ = try await records.updateAccount(subject) { known in
            guard known?.isUnused ?? true else { return known }
            return AccountRecord(
                name: subject, incarnation: incarnation, erased: known?.erased ?? [], issuer: issuer, created: now)
        }
    }

    /// Begins a new incarnation of the caller's account, if the caller's token was checked after the erasure of the
    /// previous one.
    ///
    /// - Returns: The account's record; `nil` if it was erased after the caller's token was checked, or such tokens
    ///   were ended before the erasure.
    func renew(_ caller: AccountCaller) async throws(BackendError) -> AccountRecord? {
        let (incarnation, now) = (host.randomUUID(), host.now())
        return try await records.updateAccount(caller.credential.name) { known in
            guard var record = known, record.issuer != nil, record.epoch == caller.epoch else { return nil }
            if record.incarnation == nil {
                let isEnded = record.tokensSince.map { caller.issued ?? .min <= $0 } ?? false
                guard caller.isErased, !isEnded else { return nil }
                (record.incarnation, record.created) = (incarnation, now)
            }
            return record
        }
    }
}
