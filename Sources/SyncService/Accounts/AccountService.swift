import EntitlementSync
import Entitlements
import HTTPTypes
import SyncCore
import SyncProtocol

/// Makes accounts, logs them in and out, gives them new passwords, and erases them.
struct AccountService: Sendable {
    let records: RecordStore
    let sessions: Sessions
    let authenticator: Authenticator
    let guesses: GuessLimiter
    let cryptography: any ServiceCryptography
    let configuration: ServiceConfiguration
    let host: HostServices

    /// The shortest and the longest password, in bytes.
    static let passwordByteCounts = 8...1_024
    /// How old another issuer's token may be where a password would be asked for, in milliseconds.
    static let recency: Int64 = 300_000
    /// How many recovery codes an account gets.
    static let recoveryCodeCount = 8

    /// What making an account gave.
    struct SignUp: Sendable {
        var grant: Sessions.Grant
        /// Only of an account that is new.
        var recoveryCodes: [String]?
    }

    /// Makes the account `name`. Whoever asks again with the right password gets a session of it: two devices that sign
    /// up at once are one account.
    func signUp(_ name: String, password: String, peer: String) async throws -> SignUp {
        guard configuration.allowsSignUp else {
            throw RequestError(.forbidden, "this server makes no accounts; ask whoever runs it")
        }
        try check(name: name)
        try check(newPassword: password)
        if let record = try await record(name), record.incarnation != nil {
            return SignUp(grant: try await join(record, password, peer), recoveryCodes: nil)
        }
        let codes = (0..<Self.recoveryCodeCount).map { _ in newCode() }
        let hash = try await hash(password)
        let (incarnation, now) = (host.randomUUID(), host.now())
        let record = try await records.update(try AccountRecord.key(of: name)) {
            (known: AccountRecord?) throws(BackendError) in
            var record = known ?? AccountRecord(name: name, created: now)
            // Somebody else was quicker, or it is a name of another issuer's, also after an erasure.
            guard record.incarnation == nil, record.issuer == nil else { return record }
            (record.incarnation, record.created, record.password) = (incarnation, now, hash)
            record.recoveryCodes = codes.map(digest)
            record.epoch += 1
            return record
        }
        guard let record else { throw BackendError(.busy, message: "the account is not settled; try again") }
        guard record.incarnation == incarnation, let account = record.account else {
            return SignUp(grant: try await join(record, password, peer), recoveryCodes: nil)
        }
        try await AccountDirectory(backend: records.backend).adopt(account)
        return SignUp(grant: try await sessions.begin(record), recoveryCodes: codes)
    }

    private func join(_ record: AccountRecord, _ password: String, _ peer: String) async throws -> Sessions.Grant {
        do {
            return try await logIn(record.name, password: password, peer: peer)
        } catch let error as RequestError where error.code == "invalid_grant" {
            throw RequestError(.conflict, "there is an account of this name; log in, or take another name")
        }
    }

    /// A new session for whoever knows the password.
    func logIn(_ name: String, password: String, peer: String) async throws -> Sessions.Grant {
        let record = try await authenticated(name, password: password, peer: peer)
        if let account = record.living {
            // What a server that was killed did not come to.
            try await AccountDirectory(backend: records.backend).adopt(account)
        }
        return try await sessions.begin(record)
    }

    /// The account's record, if the password is right. Takes as long where there is no such account.
    private func authenticated(_ name: String, password: String, peer: String) async throws -> AccountRecord {
        let record = try await guesses.attempt(peer, name, now: host.now()) { () async throws -> AccountRecord? in
            let record = (try? AccountRecord.key(of: name)) == nil ? nil : try await self.record(name)
            return try await isPassword(password, of: record) ? record : nil
        }
        guard let record else {
            throw RequestError(.badRequest, "name or password is wrong", code: "invalid_grant")
        }
        return record
    }

    private func isPassword(_ password: String, of record: AccountRecord?) async throws(RequestError) -> Bool {
        let known = record?.incarnation == nil ? nil : record?.password
        do throws(CryptographyError) {
            if let known, password.utf8.count <= Self.passwordByteCounts.upperBound {
                return try await cryptography.verify(password: Array(password.utf8), hash: known)
            }
            _ = try await cryptography.hash(password: Array("nobody's password".utf8))
            return false
        } catch {
            throw Self.overload(error)
        }
    }

    /// A new password for whoever has a recovery code. All sessions end, and all recovery codes are used up: whoever
    /// had the old password may have made some.
    func recover(_ name: String, code: String, newPassword: String, peer: String) async throws -> Sessions.Grant {
        try check(newPassword: newPassword)
        let digest = digest(Self.normalized(code))
        let wrong = RequestError(.badRequest, "name or recovery code is wrong", code: "invalid_grant")
        let known = try await guesses.attempt(peer, name, now: host.now()) { () async throws -> AccountRecord? in
            guard (try? AccountRecord.key(of: name)) != nil, let known = try await self.record(name),
                known.living != nil, known.recoveryCodes.contains(digest)
            else { return nil }
            return known
        }
        guard known != nil else { throw wrong }
        let hash = try await hash(newPassword)
        let record = try await records.update(try AccountRecord.key(of: name)) {
            (known: AccountRecord?) throws(BackendError) in
            // The code may have been used meanwhile.
            guard var record = known, record.living != nil, record.recoveryCodes.contains(digest) else {
                return nil
            }
            record.recoveryCodes = []
            record.password = hash
            record.epoch += 1
            return record
        }
        guard let record, let account = record.account else { throw wrong }
        try await endAll(of: account, but: nil)
        return try await sessions.begin(record)
    }

    /// Another password. All other sessions end, and the recovery codes count nothing any more.
    func changePassword(of caller: AccountCaller, from password: String, to new: String, peer: String) async throws {
        try check(newPassword: new)
        let name = try await confirm(caller, password: password, peer: peer)
        let hash = try await hash(new)
        let changed = try await change(caller) { record in
            (record.password, record.recoveryCodes) = (hash, [])
            record.epoch += 1
        }
        guard let changed else { throw RequestError(.forbidden, "the account was erased") }
        try await keep(caller, of: name, epoch: changed.epoch)
    }

    /// New recovery codes; the old ones count nothing any more.
    func renewRecoveryCodes(of caller: AccountCaller, password: String, peer: String) async throws -> [String] {
        _ = try await confirm(caller, password: password, peer: peer)
        let codes = (0..<Self.recoveryCodeCount).map { _ in newCode() }
        guard try await change(caller, { $0.recoveryCodes = codes.map(digest) }) != nil else {
            throw RequestError(.forbidden, "the account was erased")
        }
        return codes
    }

    /// One more recovery code, from whoever runs the server, for somebody who has lost the others.
    func addRecoveryCode(to name: String) async throws -> String {
        let code = newCode()
        let record = try await records.update(try AccountRecord.key(of: name)) {
            (known: AccountRecord?) throws(BackendError) in
            guard var record = known, record.living != nil, record.issuer == nil else { return nil }
            record.recoveryCodes.append(digest(Self.normalized(code)))
            return record
        }
        guard record != nil else { throw RequestError(.notFound, "no account of this name has a password here") }
        return code
    }

    /// Ends the caller's session, or all of the account's and what its issuer has given out up to now.
    func logOut(_ caller: AccountCaller, everywhere: Bool) async throws {
        guard let name = caller.account.name else { return }
        let now = host.now()
        // A life that was erased has no say in the one that has its name now.
        let ended =
            everywhere
            ? try await change(caller) { record in
                record.epoch += 1
                if record.issuer != nil { record.tokensSince = now }
            } : nil
        if ended != nil {
            try await endAll(of: caller.account, but: nil)
        } else if let session = caller.session {
            try await sessions.end(session, of: name)
            authenticator.forget(account: name, session: session)
        } else {
            throw RequestError(
                .forbidden, "a single token of another issuer's ends there; ?everywhere=true ends all up to now here")
        }
    }

    /// What the account is.
    func record(_ name: String) async throws(BackendError) -> AccountRecord? {
        try await records.read(try AccountRecord.key(of: name), as: AccountRecord.self)?.value
    }

    /// Checks the password of a caller once more.
    ///
    /// - Parameter isErasing: whether it is for an erasure, which may have been interrupted before.
    func confirm(
        _ caller: AccountCaller, password: String, peer: String, isErasing: Bool = false
    ) async throws -> String {
        let name = caller.account.name ?? ""
        let isOver = isErasing ? try await record(name)?.account != caller.account : caller.isErased
        guard !isOver else { throw RequestError(.forbidden, "the account was erased") }
        guard caller.session != nil else {
            throw RequestError(.forbidden, "this account's password is its issuer's affair")
        }
        _ = try await authenticated(name, password: password, peer: peer)
        return name
    }

    /// Makes sure that the account's owner is here, and not just somebody with one of its access tokens, who would make
    /// a session that lasts of a token that lives for minutes.
    ///
    /// - Parameter password: of another issuer's account there is none; its token must be a new one.
    func confirmPresence(of caller: AccountCaller, password: String?, peer: String) async throws {
        guard caller.session == nil else {
            guard let password else {
                throw RequestError(
                    .badRequest, "to let a device in takes the account's password: the member \"password\"",
                    code: "invalid_request")
            }
            _ = try await confirm(caller, password: password, peer: peer)
            return
        }
        guard let issued = caller.issued, host.now() - issued <= Self.recency else {
            throw RequestError(
                .forbidden, "log in at your issuer again: to let a device in, its token is at most 5 minutes old (iat)")
        }
    }

    func change(_ caller: AccountCaller, _ body: (inout AccountRecord) -> Void) async throws(BackendError)
        -> AccountRecord?
    {
        guard let name = caller.account.name else { return nil }
        return try await records.update(try AccountRecord.key(of: name)) {
            (known: AccountRecord?) throws(BackendError) in
            guard var record = known, record.living == caller.account else { return nil }
            body(&record)
            return record
        }
    }

    func endAll(of account: Account, but kept: String?) async throws(BackendError) {
        authenticator.forget(account: account.name ?? "")
        try await sessions.clear(account, but: kept)
    }

    /// Takes the caller's session over into a new epoch.
    private func keep(_ caller: AccountCaller, of name: String, epoch: Int64) async throws(BackendError) {
        if let id = caller.session {
            _ = try await records.update(try SessionRecord.key(id, of: name)) {
                (known: SessionRecord?) throws(BackendError) in
                guard var session = known else { return nil }
                session.epoch = epoch
                return session
            }
        }
        try await endAll(of: caller.account, but: caller.session)
    }
}

extension AccountService {
    private func check(name: String) throws(RequestError) {
        guard AccountName.isFit(name) else { throw RequestError(.badRequest, AccountName.rule) }
    }

    private func check(newPassword: String) throws(RequestError) {
        let range = Self.passwordByteCounts
        guard range.contains(newPassword.utf8.count) else {
            throw RequestError(.badRequest, "a password has \(range.lowerBound) to \(range.upperBound) bytes")
        }
    }

    private func hash(_ password: String) async throws(RequestError) -> String {
        do throws(CryptographyError) {
            return try await cryptography.hash(password: Array(password.utf8))
        } catch {
            throw Self.overload(error)
        }
    }

    private static func overload(_ error: CryptographyError) -> RequestError {
        RequestError(.serviceUnavailable, "no password can be checked now; try again", retryAfter: 1)
    }

    private func digest(_ code: String) -> String { Hexadecimal.text(cryptography.digest(of: Array(code.utf8))) }

    /// 16 characters, 80 random bits: nobody guesses it, so that a plain digest of it can be kept.
    private func newCode() -> String {
        let alphabet = Array("ABCDEFGHJKMNPQRSTVWXYZ0123456789".utf8)
        let symbols = cryptography.randomBytes(16).map { alphabet[Int($0 & 31)] }
        return stride(from: 0, to: 16, by: 4).map { String(decoding: symbols[$0..<$0 + 4], as: UTF8.self) }
            .joined(separator: "-")
    }

    /// A code as it was made, however somebody typed it.
    private static func normalized(_ code: String) -> String {
        let symbols = code.uppercased().filter { $0 != "-" && $0 != " " }
        var parts: [Substring] = []
        var rest = symbols[...]
        while !rest.isEmpty {
            parts.append(rest.prefix(4))
            rest = rest.dropFirst(4)
        }
        return parts.joined(separator: "-")
    }
}
