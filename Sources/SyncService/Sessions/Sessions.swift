import EntitlementSync
import Entitlements
import HTTPTypes
import StoreEvidence
import SyncCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The tokens of a session, as its device receives them.
struct IssuedSession: Sendable {
    var accessToken: String
    var refreshToken: String
    var account: Account
    var expiresIn: Int
}

/// The sessions of accounts. A session lets a device obtain access tokens without the password.
struct Sessions: Sendable {
    let records: RecordStore
    let keys: KeyRing
    let configuration: ServiceConfiguration
    let host: HostServices
    /// This server: random for each process.
    let server: String

    /// The time for which a refresh token remains valid after its successor was issued, in milliseconds. The client may
    /// not have received the successor.
    static let grace: Int64 = 60_000
    /// The maximum number of sessions of an account. A new session then ends the least recently refreshed one.
    private static let maximumPerAccount = 100

    /// Begins a session for a verified credential.
    ///
    /// - Throws: ``RequestError`` with the code `invalid_grant` if the credential's epoch has ended.
    func begin(_ credential: VerifiedCredential) async throws -> IssuedSession {
        let (name, account) = (credential.name, credential.account)
        let now = host.now()
        try await keys.refresh()
        let secret = host.randomBytes(32)
        let session = SessionRecord(
            id: Hexadecimal.text(host.randomBytes(16)), account: name,
            incarnation: account.incarnation, epoch: credential.epoch, secret: hexadecimalDigest(of: secret),
            rotated: now,
            rotatedBy: server, created: now, expires: now + lifetime)
        try await endSurplus(of: account, now: now)
        let key = try SessionRecord.key(session.id, of: name)
        guard try await records.replace(key, with: session, if: nil) else {
            throw BackendError(.busy, key: key, message: "the new session's id is taken; try again")
        }
        // The epoch may have ended since the check. Its other sessions are then already deleted, so this one must not
        // stay.
        guard let record = try await records.account(name), isValid(session, record.value) else {
            try await end(session.id, of: name)
            throw RequestError(
                .badRequest, "the account's password or sessions changed meanwhile; log in again", code: "invalid_grant"
            )
        }
        return try await issue(session, account, secret)
    }

    /// Exchanges a refresh token for its successor. Repeated attempts within ``grace`` get the same successor.
    ///
    /// If another server issued the successor, the clocks of both may differ. From the end of the grace period until
    /// ``SessionRecord/skew`` later the previous token is then neither accepted nor taken for a copy.
    ///
    /// - Returns: `nil` for an invalid token. If the token's grace period is over or its successor was used, the
    ///   session also ends, because the token may have been copied.
    /// - Throws: `BackendError.Kind.unavailable` while the clocks leave it open whether the grace period is over.
    func refresh(_ text: String) async throws(BackendError) -> IssuedSession? {
        guard let token = RefreshToken(text) else { return nil }
        try await keys.refresh()
        guard token.isAuthentic(key: keys.secret) else { return nil }
        let now = host.now()
        // Derived from the old secret with the server's key: repeated requests get the same successor, and no client
        // can compute it.
        let successor = authenticationCode(of: token.secret, key: keys.secret)
        let nextDigest = hexadecimalDigest(of: successor)
        let presented = hexadecimalDigest(of: token.secret)
        let key = try SessionRecord.key(token.session, of: token.account)
        guard var record = try await records.account(token.account) else { return nil }
        var (isReplayed, isFromOtherEpoch, isOpen) = (false, false, false)
        let rotate = { (known: SessionRecord?) throws(BackendError) -> SessionRecord? in
            (isReplayed, isFromOtherEpoch, isOpen) = (false, false, false)
            guard var session = known, !session.isOver(at: now, lifetime: lifetime) else { return nil }
            guard isValid(session, record.value) else {
                isFromOtherEpoch = true
                return nil
            }
            if session.secret == presented, session.generation == token.generation {
                (session.formerSecret, session.secret) = (presented, nextDigest)
                (session.rotated, session.rotatedBy, session.expires) = (now, server, now + lifetime)
                session.generation += 1
                return session
            }
            let age = now - session.rotated
            if session.formerSecret == presented, session.secret == nextDigest {
                // On this server, a negative age means that the clock was set back.
                let isOwn = session.rotatedBy == server || session.rotatedBy == nil
                if age <= Self.grace, isOwn || age >= -Self.grace { return session }
                isOpen = !isOwn && abs(age) <= Self.grace + SessionRecord.skew
                guard !isOpen else { return nil }
            }
            isReplayed = token.generation < session.generation
            return nil
        }
        var session = try await records.update(key, rotate)
        if isFromOtherEpoch, let current = try await records.account(token.account), current.version != record.version {
            // A password change moved the session to the new epoch after the account was read.
            record = current
            session = try await records.update(key, rotate)
        }
        if isOpen {
            throw BackendError(
                .unavailable, disposition: .transient,
                message: "another server refreshed this session, and the servers' clocks may differ; try again there")
        }
        if isReplayed { try await end(token.session, of: token.account) }
        guard let session, let account = try? Account(session.account, incarnation: session.incarnation) else {
            return nil
        }
        return try await issue(session, account, successor)
    }

    /// Ends one session.
    func end(_ id: String, of name: String) async throws(BackendError) {
        try await records.remove(try SessionRecord.key(id, of: name), as: SessionRecord.self) { _ in true }
    }

    /// Moves a session from the epoch of `old` to the epoch of `new`, which its owner has just begun. Does nothing if
    /// the session belongs to another epoch.
    func move(
        _ id: String, from old: VerifiedCredential, to new: VerifiedCredential
    ) async throws(BackendError) {
        _ = try await records.update(try SessionRecord.key(id, of: old.name)) {
            (known: SessionRecord?) throws(BackendError) in
            guard var session = known, session.isOf(old.account), session.epoch == old.epoch else { return nil }
            session.epoch = new.epoch
            return session
        }
    }

    /// Deletes the account's sessions from epochs before that of `credential`. Sessions of other incarnations remain,
    /// because their devices must learn of the erasure.
    func clear(before credential: VerifiedCredential) async throws(BackendError) {
        try await clear(credential.account, before: credential.epoch)
    }

    /// Deletes the account's sessions from epochs before `epoch`.
    func clear(_ account: Account, before epoch: Int64) async throws(BackendError) {
        guard let name = account.name else { return }
        for session in try await all(of: name) where session.isOf(account) && session.epoch < epoch {
            try await end(session.id, of: name)
        }
    }

    /// The ids of the account's sessions in `epoch` that have not expired.
    func all(of account: Account, epoch: Int64) async throws(BackendError) -> [String] {
        try await current(of: account, epoch: epoch).map(\.id)
    }

    /// The valid sessions of an account.
    func current(of account: Account, epoch: Int64) async throws(BackendError) -> [SessionRecord] {
        let now = host.now()
        return try await all(of: account.name ?? "")
            .filter { $0.isOf(account) && $0.epoch == epoch && !$0.isOver(at: now, lifetime: lifetime) }
    }

    /// Returns `true` if a session belongs to the current incarnation and epoch of the account. A session of an erased
    /// incarnation is also valid, because its device must learn of the erasure.
    private func isValid(_ session: SessionRecord, _ record: AccountRecord) -> Bool {
        let isErased = record.isErased(session.incarnation)
        let isCurrent = record.incarnation.map { $0.utf8.elementsEqual(session.incarnation.utf8) } == true
        return isErased || (isCurrent && session.epoch == record.epoch)
    }

    private func all(of name: String) async throws(BackendError) -> [SessionRecord] {
        var sessions: [SessionRecord] = []
        try await records.forEach(under: SessionRecord.prefix(of: name), as: SessionRecord.self) { _, held in
            sessions.append(held.value)
        }
        return sessions
    }

    /// Ends expired sessions and, at the limit, the least recently refreshed ones to make room for one more.
    private func endSurplus(of account: Account, now: Int64) async throws(BackendError) {
        guard let name = account.name else { return }
        let sessions = try await all(of: name)
        let ended = sessions.filter { $0.isOver(at: now, lifetime: lifetime) }
        let current = sessions.filter { !$0.isOver(at: now, lifetime: lifetime) && $0.isOf(account) }
            .sorted { ($0.rotated, $0.id) < ($1.rotated, $1.id) }
        let surplus = current.prefix(max(0, current.count - Self.maximumPerAccount + 1))
        for session in ended + surplus { try await end(session.id, of: name) }
    }

    private func issue(
        _ session: SessionRecord, _ account: Account, _ secret: [UInt8]
    ) async throws(BackendError) -> IssuedSession {
        let seconds = host.now() / 1_000
        let claims = AccessClaims(
            account: session.account, incarnation: session.incarnation, session: session.id,
            server: configuration.name, issuedAt: seconds,
            expiresAt: seconds + Int64(configuration.accessTokenLifetime))
        let key = try await keys.signingKey()
        let token: String
        do throws(CryptographyError) { token = try claims.signed(with: key) } catch {
            throw BackendError(.other, message: "cannot issue an access token: \(error.reason)", cause: error)
        }
        return IssuedSession(
            accessToken: token,
            refreshToken: RefreshToken(
                account: session.account, session: session.id, generation: session.generation, secret: secret,
                key: keys.secret
            ).text,
            account: account, expiresIn: configuration.accessTokenLifetime)
    }

    private var lifetime: Int64 { configuration.sessionMilliseconds }
}
