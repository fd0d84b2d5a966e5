import EntitlementSync
import SyncCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Log-ins: what a device holds to get access tokens, without the password.
struct Sessions: Sendable {
    let records: RecordStore
    let keys: KeyRing
    let cryptography: any ServiceCryptography
    let configuration: ServiceConfiguration
    let host: HostServices

    /// How long the predecessor of a refresh token is honoured, in milliseconds: the answer that brought its successor
    /// may be lost.
    static let grace: Int64 = 60_000
    /// How many sessions an account has at once; the oldest end.
    static let mostForAccount = 100

    /// What a device gets.
    struct Grant: Sendable {
        var accessToken: String
        var refreshToken: String
        var account: Account
        var expiresIn: Int
    }

    /// Begins a session of the account that `record` is of.
    func begin(_ record: AccountRecord) async throws(BackendError) -> Grant {
        guard let account = record.account else {
            throw BackendError(.damaged, message: "the account has no life to log in to")
        }
        let now = host.now()
        if keys.secret.isEmpty { try await keys.load() }
        let secret = cryptography.randomBytes(32)
        let session = SessionRecord(
            id: Hexadecimal.text(cryptography.randomBytes(16)), account: record.name,
            incarnation: account.incarnation, epoch: record.epoch, secret: digest(secret), rotated: now,
            created: now, expires: now + lifetime)
        try await endOldest(of: account, now: now)
        let key = try SessionRecord.key(session.id, of: record.name)
        guard try await records.replace(key, with: session, if: nil) else {
            throw BackendError(.busy, key: key, message: "this session is there already; try again")
        }
        return try await grant(session, account, secret)
    }

    /// The successor of a refresh token: the same one for each try within the grace.
    ///
    /// - Returns: `nil` for a token that counts nothing. One that was used long ago, or whose successor was, ends its
    ///   session: somebody has a copy of it.
    func refresh(_ text: String) async throws(BackendError) -> Grant? {
        guard let token = RefreshToken(text) else { return nil }
        if keys.secret.isEmpty { try await keys.load() }
        guard token.isGenuine(cryptography, key: keys.secret) else { return nil }
        let now = host.now()
        // Made of the old one, so that whoever asks twice gets the same, and nobody else can make it.
        let successor = cryptography.authenticationCode(of: token.secret, key: keys.secret)
        let presented = digest(token.secret)
        let key = try SessionRecord.key(token.session, of: token.account)
        guard let record = try await records.read(try AccountRecord.key(of: token.account), as: AccountRecord.self)
        else { return nil }
        var isReplayed = false
        let session = try await records.update(key) { (known: SessionRecord?) throws(BackendError) in
            isReplayed = false
            guard var session = known, !session.isOver(at: now, lifetime: lifetime), counts(session, record.value)
            else { return nil }
            if session.secret == presented, session.generation == token.generation {
                (session.formerSecret, session.secret) = (presented, digest(successor))
                (session.rotated, session.expires) = (now, now + lifetime)
                session.generation += 1
                return session
            }
            let age = now - session.rotated
            if session.formerSecret == presented, session.secret == digest(successor), age <= Self.grace {
                return session
            }
            isReplayed = token.generation < session.generation
            return nil
        }
        if isReplayed { try await end(token.session, of: token.account) }
        guard let session, let account = try? Account(session.account, incarnation: session.incarnation) else {
            return nil
        }
        return try await grant(session, account, successor)
    }

    /// Ends one session.
    func end(_ id: String, of name: String) async throws(BackendError) {
        let key = try SessionRecord.key(id, of: name)
        for _ in 0..<8 {
            guard let held = try await records.read(key, as: SessionRecord.self) else { return }
            if try await records.replace(key, with: SessionRecord?.none, if: held.version) { return }
        }
        throw BackendError(.busy, key: key, message: "this session is refreshed all the time; try again")
    }

    /// Deletes what is left of sessions that are over, all of an account's but `kept`. Those of other lives of its name
    /// stay: their devices have to hear of the erasure.
    func clear(_ account: Account, but kept: String?) async throws(BackendError) {
        guard let name = account.name else { return }
        for session in try await all(of: name) where session.id != kept && session.isOf(account) {
            try await end(session.id, of: name)
        }
    }

    /// Whether a session counts: the account lives in its life and did not end all at once since; one of an erased life
    /// counts, too, because its device must hear of the erasure.
    private func counts(_ session: SessionRecord, _ record: AccountRecord) -> Bool {
        let isErased = record.isErased(session.incarnation)
        let isCurrent = record.incarnation.map { $0.utf8.elementsEqual(session.incarnation.utf8) } == true
        return isErased || (isCurrent && session.epoch == record.epoch)
    }

    private func all(of name: String) async throws(BackendError) -> [SessionRecord] {
        var sessions: [SessionRecord] = []
        var after: EntryKey?
        repeat {
            let page = try await records.backend.list(
                prefix: SessionRecord.prefix(of: name), after: after, limit: 1_000)
            for item in page.outcome.items {
                if let held = try await records.read(item.key, as: SessionRecord.self) { sessions.append(held.value) }
            }
            after = page.outcome.next
        } while after != nil
        return sessions
    }

    private func endOldest(of account: Account, now: Int64) async throws(BackendError) {
        guard let name = account.name else { return }
        let sessions = try await all(of: name)
        let over = sessions.filter { $0.isOver(at: now, lifetime: lifetime) }
        let living = sessions.filter { !$0.isOver(at: now, lifetime: lifetime) && $0.isOf(account) }
            .sorted { ($0.rotated, $0.id) < ($1.rotated, $1.id) }
        let surplus = living.prefix(max(0, living.count - Self.mostForAccount + 1))
        for session in over + surplus { try await end(session.id, of: name) }
    }

    private func grant(_ session: SessionRecord, _ account: Account, _ secret: [UInt8]) async throws(BackendError)
        -> Grant
    {
        let seconds = host.now() / 1_000
        let claims = AccessClaims(
            account: session.account, incarnation: session.incarnation, session: session.id,
            server: configuration.name, issuedAt: seconds,
            expiresAt: seconds + Int64(configuration.accessTokenLifetime))
        let token: String
        do throws(CryptographyError) {
            token = try await cryptography.sign(claims, with: try await signingKey())
        } catch {
            throw BackendError(.other, message: "a token cannot be signed: \(error.reason)", cause: error)
        }
        return Grant(
            accessToken: token,
            refreshToken: RefreshToken(
                account: session.account, session: session.id, generation: session.generation, secret: secret,
                cryptography, key: keys.secret
            ).text,
            account: account, expiresIn: configuration.accessTokenLifetime)
    }

    private func signingKey() async throws(CryptographyError) -> SigningKey {
        do throws(BackendError) { return try await keys.signingKey() } catch { throw CryptographyError("\(error)") }
    }

    private var lifetime: Int64 { configuration.sessionMilliseconds }

    private func digest(_ secret: [UInt8]) -> String { Hexadecimal.text(cryptography.digest(of: secret)) }
}
