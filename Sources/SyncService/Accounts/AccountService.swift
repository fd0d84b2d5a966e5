import EntitlementSync
import Entitlements
import HTTPTypes
import StoreEvidence
import SyncCore
import SyncProtocol

/// Creates accounts, begins and ends their sessions, and replaces passwords and recovery codes.
struct AccountService: Sendable {
    let records: RecordStore
    let credentials: Credentials
    let sessions: Sessions
    let authenticator: Authenticator
    let configuration: ServiceConfiguration
    /// Further names of accounts.
    var aliases: AccountAliases { AccountAliases(records: records) }

    /// The number of recovery codes of an account.
    static let recoveryCodeCount = 8

    /// The result of a sign-up.
    struct SignUp: Sendable {
        var session: IssuedSession
        /// `nil` for an account that existed before.
        var recoveryCodes: [String]?
    }

    /// Creates the account `name`. If one with the same folded name exists and has this password, begins a session
    /// instead, so that two devices that sign up at the same time share one account.
    func signUp(_ name: String, password: String, peer: String) async throws -> SignUp {
        try checkSignUp()
        try check(newPassword: password)
        // An existing account may have a name that a new one may not have.
        if let session = try await join(name, password, peer) { return SignUp(session: session, recoveryCodes: nil) }
        let name = AccountName.composed(name)
        if let objection = AccountName.objection(to: name) { throw RequestError(.badRequest, objection) }
        let codes = (0..<Self.recoveryCodeCount).map { _ in newCode() }
        let hash = try await credentials.hash(password, peer: peer)
        for _ in 0..<Self.signUpAttempts {
            let account = try credentials.newAccount(name)
            if try await aliases.reserve(name, for: account),
                let credential = try await credentials.create(
                    account, password: hash, recoveryCodes: codes.map { hexadecimalDigest(of: $0) })
            {
                try await AccountDirectory(backend: records.backend).adopt(account, isRevivable: false)
                return SignUp(session: try await sessions.begin(credential), recoveryCodes: codes)
            }
            // Another sign-up has the name, or is about to get it.
            if let session = try await join(name, password, peer) {
                return SignUp(session: session, recoveryCodes: nil)
            }
        }
        throw BackendError(.busy, message: "the name is being registered elsewhere; try again")
    }

    /// Checks that clients may create accounts.
    func checkSignUp() throws(RequestError) {
        guard !configuration.allowsSignUp else { return }
        throw RequestError(.forbidden, "this server is closed to new accounts; ask its operator for one")
    }

    /// The number of times that a sign-up competes with concurrent ones for its name.
    private static let signUpAttempts = 8

    /// Begins a session of the account that `name` means; `nil` if there is none.
    private func join(_ name: String, _ password: String, _ peer: String) async throws -> IssuedSession? {
        let name = try await aliases.resolve(name)
        guard AccountName.canExist(name), let record = try await credentials.record(name),
            // The names of another issuer stay reserved after an erasure.
            record.incarnation != nil || record.issuer != nil
        else { return nil }
        do {
            return try await logIn(name, password: password, peer: peer)
        } catch let error as RequestError where error.code == "invalid_grant" {
            throw RequestError(.conflict, "this name is taken; log in, or choose another name")
        }
    }

    /// Begins a session of the account `name` by its password.
    func logIn(_ name: String, password: String, peer: String) async throws -> IssuedSession {
        try await sessions.begin(try await verify(name, password: password, peer: peer).credential)
    }

    /// Checks the password of the account that `name` means, and repairs a sign-up that was interrupted between its two
    /// writes.
    ///
    /// - Returns: The credential, and `true` if its epoch still lasts.
    func verify(
        _ name: String, password: String, peer: String
    ) async throws -> (credential: VerifiedCredential, isCurrent: Bool) {
        let name = try await aliases.resolve(name)
        let credential = try await credentials.check(password: password, of: name, peer: peer)
        guard try await credentials.isCurrent(credential) else { return (credential, false) }
        try await AccountDirectory(backend: records.backend).adopt(credential.account, isRevivable: false)
        try await aliases.reserveOwnName(of: credential.account)
        return (credential, true)
    }

    /// Replaces the password by means of a recovery code. All sessions end and all recovery codes become invalid,
    /// because someone who knew the old password may have requested some of them.
    func recover(_ name: String, code: String, newPassword: String, peer: String) async throws -> IssuedSession {
        try check(newPassword: newPassword)
        let name = try await aliases.resolve(name)
        let wrong = RequestError(.badRequest, "name or recovery code is wrong", code: "invalid_grant")
        let digest = hexadecimalDigest(of: Self.normalized(code))
        guard let verified = try await credentials.check(recoveryCodeDigest: digest, of: name, peer: peer) else {
            throw wrong
        }
        let hash = try await credentials.hash(newPassword, peer: peer)
        // The owner may have replaced the recovery codes while the password was hashed.
        let changed = try await replacePassword(of: verified, with: hash) { $0.recoveryCodes.contains(digest) }
        guard let changed else { throw wrong }
        try await endSessions(before: changed)
        return try await sessions.begin(changed)
    }

    /// Replaces the password. All other sessions end, and the recovery codes become invalid.
    func changePassword(of caller: AccountCaller, from password: String, to new: String, peer: String) async throws {
        try check(newPassword: new)
        let verified = try await credentials.check(password: password, of: caller, peer: peer)
        let hash = try await credentials.hash(new, peer: peer)
        guard let changed = try await replacePassword(of: verified, with: hash) else {
            throw RequestError.outdatedCredential
        }
        if let session = caller.session { try await sessions.move(session, from: verified, to: changed) }
        try await endSessions(before: changed)
    }

    func replacePassword(
        of credential: VerifiedCredential, with hash: String,
        if isAllowed: (AccountRecord) -> Bool = { _ in true }
    ) async throws(BackendError) -> VerifiedCredential? {
        try await credentials.change(
            credential,
            { record in
                (record.password, record.recoveryCodes) = (hash, [])
                record.epoch += 1
            }, if: isAllowed)
    }

    /// Replaces all recovery codes.
    func renewRecoveryCodes(of caller: AccountCaller, password: String, peer: String) async throws -> [String] {
        let verified = try await credentials.check(password: password, of: caller, peer: peer)
        let codes = (0..<Self.recoveryCodeCount).map { _ in newCode() }
        guard
            try await credentials.change(verified, { $0.recoveryCodes = codes.map { hexadecimalDigest(of: $0) } })
                != nil
        else {
            throw RequestError.outdatedCredential
        }
        return codes
    }

    /// Adds a recovery code on behalf of the operator, for an owner who has lost all others.
    ///
    /// - Returns: The code, and the name of its account.
    func addRecoveryCode(to name: String) async throws -> (code: String, account: String) {
        let (code, name) = (newCode(), try await aliases.resolveExactly(name))
        let record = try await records.updateAccount(name) { known in
            guard var record = known, record.activeAccount != nil, record.issuer == nil else { return nil }
            record.recoveryCodes.append(hexadecimalDigest(of: code))
            return record
        }
        guard record != nil else { throw RequestError(.notFound, "no account of this name has a password here") }
        return (code, name)
    }

    /// Adds a recovery code by its digest, unless the credential epoch `epoch` has ended. Adding it again changes
    /// nothing.
    ///
    /// - Returns: `false` if the epoch has ended, or the account does not exist or has no password here.
    func addRecoveryCode(digest: String, to account: Account, epoch: Int64) async throws(BackendError) -> Bool {
        let record = try await records.updateAccount(account.name ?? "") { known in
            guard var record = known, record.activeAccount == account, record.issuer == nil, record.epoch == epoch
            else { return nil }
            if !record.recoveryCodes.contains(digest) { record.recoveryCodes.append(digest) }
            return record
        }
        return record != nil
    }

    /// Ends all sessions of `account` up to the credential epoch `epoch`, and the tokens that another issuer has made
    /// up to `now`. Ending them again changes nothing.
    func endSessions(of account: Account, epoch: Int64, now: Int64) async throws(BackendError) {
        guard let name = account.name else { return }
        _ = try await records.updateAccount(name) { known in
            guard var record = known, record.activeAccount == account, record.epoch == epoch else { return nil }
            record.epoch += 1
            if record.issuer != nil { record.tokensSince = max(record.tokensSince ?? now, now) }
            return record
        }
        authenticator.forget(account: name)
        try await sessions.clear(account, before: epoch + 1)
    }

    /// Ends the caller's session. With `everywhere`, ends all sessions of the account and all tokens that another
    /// issuer has made so far.
    func logOut(_ caller: AccountCaller, everywhere: Bool) async throws {
        // An erased incarnation has no authority over the account that uses its name now.
        if everywhere, !caller.isErased {
            let now = credentials.host.now()
            let changed = try await credentials.change(caller.credential) { record in
                record.epoch += 1
                if record.issuer != nil { record.tokensSince = now }
            }
            guard let changed else { throw RequestError.outdatedCredential }
            try await endSessions(before: changed)
        } else if let session = caller.session {
            try await sessions.end(session, of: caller.credential.name)
            authenticator.forget(account: caller.credential.name, session: session)
        } else {
            throw RequestError(
                .forbidden,
                "a single token of another issuer can only be ended there; ?everywhere=true ends all of them here")
        }
    }

    func endSessions(before credential: VerifiedCredential) async throws(BackendError) {
        authenticator.forget(account: credential.name)
        try await sessions.clear(before: credential)
    }
}

extension AccountService {
    private func check(newPassword: String) throws(RequestError) {
        let range = Credentials.passwordByteCounts
        guard range.contains(newPassword.utf8.count) else {
            let isShort = newPassword.utf8.count < range.lowerBound
            throw RequestError(.badRequest, isShort ? Credentials.shortPassword : Credentials.longPassword)
        }
    }

    /// A new recovery code of 16 characters, 80 random bits. It cannot be guessed, so a plain digest of it is stored.
    private func newCode() -> String { Self.code(from: credentials.host.randomBytes(16)) }

    /// The recovery code that 16 random bytes give.
    static func code(from bytes: [UInt8]) -> String {
        let alphabet = Array("ABCDEFGHJKMNPQRSTVWXYZ0123456789".utf8)
        return normalized(String(decoding: bytes.map { alphabet[Int($0 & 31)] }, as: UTF8.self))
    }

    /// A recovery code in its canonical spelling: upper case, in groups of four.
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
