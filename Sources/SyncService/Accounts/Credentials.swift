import EntitlementSync
import HTTPTypes
import SyncCore

/// The proof that a credential of an account was checked: a password, a recovery code, a token, or the code of an
/// approved device.
///
/// It names the incarnation of the account and the credential epoch in which the check took place. A password change, a
/// recovery and a log-out everywhere start a new epoch. Every operation that the proof authorizes compares the epoch in
/// its own atomic write, or with the record after the write, and is refused if the epoch has ended. New recovery codes
/// do not start an epoch, so a recovery also requires that its code is still in the record. Only ``Credentials`` and
/// ``AccountCaller`` create proofs.
struct VerifiedCredential: Sendable {
    /// The account and its incarnation.
    let account: Account
    /// The account's name.
    let name: String
    /// The credential epoch of the account's record at the time of the check.
    let epoch: Int64

    fileprivate init(_ account: Account, epoch: Int64) {
        (self.account, name, self.epoch) = (account, account.name ?? "", epoch)
    }

    fileprivate init?(_ record: AccountRecord) {
        guard let account = record.account else { return nil }
        self.init(account, epoch: record.epoch)
    }

    /// Returns `true` if the epoch of the check still lasts, according to `record`.
    func isCurrent(in record: AccountRecord) -> Bool { record.account == account && record.epoch == epoch }
}

extension AccountCaller {
    /// The credential that the caller's token proves.
    var credential: VerifiedCredential { VerifiedCredential(account, epoch: epoch) }
}

extension RequestError {
    /// The refusal of an operation whose credential check is out of date.
    static let outdatedCredential = RequestError(
        .forbidden,
        "the account was erased, or its password or sessions changed, while this was under way; log in and try again")
}

/// Checks the credentials of accounts, and makes the changes to account records that such a check authorizes.
struct Credentials: Sendable {
    let records: RecordStore
    let guesses: GuessLimiter
    let accountGuesses: AccountGuesses
    /// Receives the error of a wrong guess that could not be counted in the store.
    let onError: @Sendable (BackendError) -> Void
    let passwords: any PasswordHasher
    let host: HostServices

    /// The length of a password, in bytes.
    static let passwordByteCounts = 8...1_024
    /// The refusal of a password that is too short. A character has at least one byte, so its advice always helps.
    static let shortPassword = "this password is too short; choose one of at least 8 characters"
    /// The refusal of a password that is too long.
    static let longPassword = "this password is too long; choose a shorter one"
    /// The largest age of another issuer's token that can replace a password, in milliseconds.
    static let recency: Int64 = 300_000

    /// Checks the password of the account called `name`. Takes the same time if there is no such account, but longer
    /// for an imported account until its first log-in.
    ///
    /// A text that cannot be an account's name is refused at once and does not count as a guess. The rule for names is
    /// public, so the time reveals nothing, and the table of guesses does not grow.
    ///
    /// - Parameter isDevice: True if the caller has a session of the account, which an attack on the account does not
    ///   delay.
    /// - Throws: ``RequestError`` with the code `invalid_grant` for a wrong name or password.
    func check(
        password: String, of name: String, peer: String, isDevice: Bool = false
    ) async throws -> VerifiedCredential {
        let wrong = RequestError(.badRequest, "name or password is wrong", code: "invalid_grant")
        guard AccountName.canExist(name) else { throw wrong }
        // A hash by scrypt for an imported one by bcrypt. A wrong password costs the same, because the time of the
        // answer would otherwise tell imported accounts from others.
        var (imported, replacement) = (String?.none, String?.none)
        let verified = try await attempt(name, peer: peer, isDevice: isDevice) { record in
            let isRight = try await isPassword(password, of: record, peer)
            imported = record?.incarnation == nil ? nil : record?.password
            if let imported, BcryptHash.isMarked(imported),
                password.utf8.count <= Self.passwordByteCounts.upperBound
            {
                replacement = try await hash(password, peer: peer)
            }
            return isRight
        }
        guard let verified else { throw wrong }
        if let replacement {
            // The hash may have been changed since it was verified. A store that cannot be written refuses no log-in:
            // the next one tries again.
            do throws(BackendError) {
                _ = try await change(verified, { $0.password = replacement }, if: { $0.password == imported })
            } catch {
                onError(error)
            }
        }
        return verified
    }

    /// Runs the check of a secret of the account called `name`, unless the address has to wait.
    private func attempt(
        _ name: String, peer: String, isDevice: Bool, _ isRight: (AccountRecord?) async throws -> Bool
    ) async throws -> VerifiedCredential? {
        let now = host.now()
        let isAttacked = isDevice ? false : try await accountGuesses.isAttacked(name, now: now)
        let most = isAttacked ? 1 : GuessLimiter.guessesForAccount
        // All spellings count together, also for a name without an account. So the limit does not reveal which names
        // exist.
        return try await guesses.attempt(peer, .account(AccountName.folded(name)), atMost: most, now: now) {
            () async throws -> VerifiedCredential? in
            let record = try await record(name)
            if try await isRight(record) { return record.flatMap { VerifiedCredential($0) } }
            // A name without an account must not add anything to the store.
            if record?.incarnation != nil {
                do throws(BackendError) { try await accountGuesses.count(name, now: now) } catch { onError(error) }
            }
            return nil
        }
    }

    /// Checks the password of an authenticated caller.
    ///
    /// - Parameter isErasing: Accepts an account whose erasure was interrupted.
    func check(
        password: String, of caller: AccountCaller, peer: String, isErasing: Bool = false
    ) async throws -> VerifiedCredential {
        let erased = RequestError(.forbidden, "the account was erased")
        let name = caller.credential.name
        let record = try await record(name)
        guard (isErasing ? record?.account : record?.activeAccount) == caller.account else { throw erased }
        guard caller.session != nil else {
            throw RequestError(.forbidden, "this account has no password here; its issuer manages it")
        }
        let verified = try await check(password: password, of: name, peer: peer, isDevice: true)
        // Another owner may have taken the name in the meantime.
        guard verified.account == caller.account else { throw erased }
        return verified
    }

    /// Checks that the owner of the account is present. Without it, the holder of a short-lived access token could turn
    /// the token into a lasting session.
    ///
    /// - Parameter password: Ignored for accounts of another issuer, whose token must be recent instead.
    func checkPresence(of caller: AccountCaller, password: String?, peer: String) async throws -> VerifiedCredential {
        guard caller.session == nil else {
            guard let password else {
                throw RequestError(
                    .badRequest, "approving a device needs the account's password in the member \"password\"",
                    code: "invalid_request")
            }
            return try await check(password: password, of: caller, peer: peer)
        }
        return try checkRecency(of: caller, for: "approving a device")
    }

    /// Checks that another issuer's token is recent, which replaces a password for `purpose`.
    func checkRecency(of caller: AccountCaller, for purpose: String) throws(RequestError) -> VerifiedCredential {
        guard let issued = caller.issued, host.now() - issued <= Self.recency else {
            throw RequestError(
                .forbidden,
                "\(purpose) needs a token that is at most 5 minutes old (iat); log in at its issuer again")
        }
        return caller.credential
    }

    /// Checks a recovery code of the account called `name`.
    ///
    /// - Parameter digest: The digest of the code, as stored in the record.
    /// - Returns: `nil` for a wrong name or code.
    func check(
        recoveryCodeDigest digest: String, of name: String, peer: String
    ) async throws -> VerifiedCredential? {
        guard AccountName.canExist(name) else { return nil }
        return try await attempt(name, peer: peer, isDevice: false) { record in
            record?.activeAccount != nil && record?.recoveryCodes.contains(digest) == true
        }
    }

    /// Checks the approval of a device, which is valid only for the incarnation and the epoch in which it was given.
    func check(
        approvalBy name: String, incarnation: String?, epoch: Int64?
    ) async throws(BackendError) -> VerifiedCredential? {
        guard let record = try await record(name), record.activeAccount != nil, record.incarnation == incarnation,
            record.epoch == epoch
        else { return nil }
        return VerifiedCredential(record)
    }

    /// Returns `true` if the epoch of `credential` still lasts.
    func isCurrent(_ credential: VerifiedCredential) async throws(BackendError) -> Bool {
        guard let record = try await record(credential.name), record.activeAccount != nil else { return false }
        return credential.isCurrent(in: record)
    }

    /// The next incarnation of `name`, for ``create(_:password:recoveryCodes:)``.
    func newAccount(_ name: String) throws(EntitlementError) -> Account {
        try Account(name, incarnation: host.randomUUID())
    }

    /// Creates an account.
    ///
    /// - Returns: `nil` when the name is taken, or another account has taken over the reservation of the name.
    func create(
        _ account: Account, password: String, recoveryCodes: [String]
    ) async throws(BackendError) -> VerifiedCredential? {
        let (name, now) = (account.name ?? "", host.now())
        let record = try await records.updateAccount(name) { known in
            var record = known ?? AccountRecord(name: name, created: now)
            // The names of another issuer stay reserved after an erasure.
            guard record.incarnation == nil, record.issuer == nil, !record.isErased(account.incarnation) else {
                return record
            }
            (record.incarnation, record.created, record.password) = (account.incarnation, now, password)
            record.recoveryCodes = recoveryCodes
            record.epoch += 1
            return record
        }
        guard let record, record.account == account else { return nil }
        return VerifiedCredential(record)
    }

    /// Removes an account that was just created and has no sessions yet.
    func undoCreation(_ credential: VerifiedCredential) async throws(BackendError) {
        _ = try await change(credential) { record in
            record.erased.append(credential.account.incarnation)
            (record.incarnation, record.password, record.recoveryCodes) = (nil, nil, [])
        }
    }

    /// Changes the account's record if the epoch of `credential` still lasts.
    ///
    /// - Parameters:
    ///   - body: The change.
    ///   - isAllowed: A further condition on the record, checked in the same atomic write.
    /// - Returns: The credential in the epoch after the change; `nil` when the epoch had ended or the condition failed.
    func change(
        _ credential: VerifiedCredential, _ body: (inout AccountRecord) -> Void,
        if isAllowed: (AccountRecord) -> Bool = { _ in true }
    ) async throws(BackendError) -> VerifiedCredential? {
        let changed = try await records.updateAccount(credential.name) { known in
            guard var record = known, record.activeAccount != nil, credential.isCurrent(in: record), isAllowed(record)
            else { return nil }
            body(&record)
            return record
        }
        return changed.flatMap { VerifiedCredential($0) }
    }

    /// The record of the account called `name`.
    func record(_ name: String) async throws(BackendError) -> AccountRecord? {
        try await records.account(name)?.value
    }

    /// Hashes a new password.
    func hash(_ password: String, peer: String) async throws(RequestError) -> String {
        do throws(CryptographyError) {
            return try await passwords.hash(Array(password.utf8), peer: peer)
        } catch {
            throw Self.overload
        }
    }

    private func isPassword(
        _ password: String, of record: AccountRecord?, _ peer: String
    ) async throws(RequestError) -> Bool {
        let known = record?.incarnation == nil ? nil : record?.password
        do throws(CryptographyError) {
            if let known, password.utf8.count <= Self.passwordByteCounts.upperBound {
                return try await passwords.verify(Array(password.utf8), known, peer: peer)
            }
            _ = try await passwords.hash(Array("no account's password".utf8), peer: peer)
            return false
        } catch {
            guard error.isPermanent else { throw Self.overload }
            onError(BackendError(.unsupported, message: "a password cannot be verified: \(error.reason)"))
            throw RequestError(
                .internalServerError, "this server cannot verify the password of this account; ask its operator")
        }
    }

    private static let overload = RequestError(
        .serviceUnavailable, "too many passwords are being checked; try again", retryAfter: 1)
}
