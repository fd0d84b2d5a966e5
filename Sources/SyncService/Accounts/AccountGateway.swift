package import EntitlementSync
package import Entitlements
import HTTPTypes
import StoreEvidence
package import SyncCore
import SyncProtocol

/// The accounts of a service, for a façade with a wire of its own.
///
/// The façade's requests are limited, and wait for and delay an erasure, like those under `/v1`.
package struct AccountGateway: Sendable {
    private let service: EntitlementService

    /// The accounts of `service`.
    package init(_ service: EntitlementService) { self.service = service }

    /// The server's records.
    package var records: RecordStore { service.accounts.records }
    /// The server's catalogue.
    package var catalog: Catalog? { service.configuration.catalog }
    /// The rules for web pages of the configured origins.
    package var crossOrigin: CrossOrigin { service.configuration.crossOrigin }
    /// The clock and the source of randomness.
    package var host: HostServices { service.host }

    /// The digest of a secret, in hexadecimal.
    package func digest(of text: String) -> String {
        hexadecimalDigest(of: text)
    }

    /// 64 bytes that cannot be computed without `secret`, which must be unpredictable itself.
    package func derivedBytes(for purpose: String, from secret: String) -> [UInt8] {
        ["1", "2"].flatMap { part in
            authenticationCode(of: Array("\(purpose) \(part)".utf8), key: Array(secret.utf8))
        }
    }

    /// Serves a request of an address.
    ///
    /// - Throws: ``RequestError`` if the address must wait, the store's error if the clock is wrong, and the error of
    ///   `body`.
    package func serving<Value>(_ peer: String, _ body: () async throws -> Value) async throws -> Value {
        try service.limiter.admit(peer, now: host.now())
        try service.clockGuard.check()
        let epoch = service.requests.start()
        defer { service.requests.finish(epoch) }
        return try await body()
    }

    /// Counts a further request in the same body against the limit of an address.
    package func count(_ peer: String) throws(RequestError) {
        try service.limiter.admit(peer, now: host.now())
    }

    /// Counts a request without a valid session.
    package func admit(_ kind: StrangerRequest, _ peer: String) throws(RequestError) {
        try service.limiter.admit(stranger: peer, kind, now: host.now())
    }

    /// Serves a request of an account under the account's limits.
    package func serving<Value>(
        _ caller: AccountCaller, isRead: Bool, byteCount: Int, _ body: () async throws -> Value
    ) async throws -> Value {
        let ticket = try service.limiter.enter(
            account: caller.account.name ?? "", isRead: isRead, byteCount: byteCount, now: host.now())
        defer { ticket.give() }
        return try await body()
    }

    /// Charges an account for reads beyond the one of its request.
    package func charge(_ caller: AccountCaller, reads: Int) {
        service.limiter.charge(account: caller.account.name ?? "", reads: reads, writes: 0, now: host.now())
    }

    /// Creates the account `id` with an alias.
    ///
    /// - Parameters:
    ///   - password: `nil` for an account that has none yet.
    ///   - prepare: Writes what the account must have before it can be used under `alias`, under its holdings.
    ///   - publish: Makes an account without a password reachable. The second parameter is its credential epoch. If it
    ///     returns false, the account is removed again.
    /// - Returns: `nil` if the name is taken, or if `publish` returns false.
    package func signUp(
        _ id: String, alias: String, password: String?, peer: String, prepare: (Account) async throws -> Void,
        publish: (Account, Int64) async throws -> Bool = { _, _ in true }
    ) async throws -> AccountCaller? {
        let accounts = service.accounts
        try accounts.checkSignUp()
        try check(name: alias)
        guard try await isFree(alias, for: nil) else { return nil }
        // A hash of random bytes cannot be guessed.
        let secret = password ?? Hexadecimal.text(host.randomBytes(32))
        let hash = try await accounts.credentials.hash(secret, peer: peer)
        let account = try accounts.credentials.newAccount(id)
        guard let credential = try await accounts.credentials.create(account, password: hash, recoveryCodes: []) else {
            throw BackendError(.busy, message: "the id of the new account is taken; try again")
        }
        // An error leaves an account that no request reaches: its id is random, and no alias means it.
        guard try await accounts.aliases.reserve(id, for: credential.account) else {
            try await undo(credential)
            return nil
        }
        try await prepare(credential.account)
        guard try await accounts.aliases.reserve(alias, for: credential.account),
            try await publish(credential.account, credential.epoch)
        else {
            try await undo(credential)
            return nil
        }
        try await AccountDirectory(backend: records.backend).adopt(credential.account, isRevivable: false)
        return try await caller(credential.account, epoch: credential.epoch)
    }

    /// Removes an account that was just created, with its names and its holdings.
    private func undo(_ credential: VerifiedCredential) async throws(BackendError) {
        // First the record, so that all entries of the account are void at once.
        try await service.accounts.credentials.undoCreation(credential)
        try await AccountEntries(records: records).discard(credential.account)
        try await records.backend.removeAll(under: Holdings.prefix(of: credential.account))
    }

    /// The account of a name and password.
    ///
    /// - Throws: ``RequestError`` with the code `invalid_grant` for a wrong name or password.
    package func logIn(_ name: String, password: String, peer: String) async throws -> AccountCaller? {
        let (credential, isCurrent) = try await service.accounts.verify(name, password: password, peer: peer)
        return !isCurrent ? nil : try await caller(credential.account, epoch: credential.epoch)
    }

    /// The caller of a session that began in `epoch`; `nil` if the epoch has ended or the account was erased.
    package func caller(_ account: Account, epoch: Int64) async throws(BackendError) -> AccountCaller? {
        guard let name = account.name,
            let held = try await records.account(name),
            held.value.activeAccount == account, held.value.epoch == epoch
        else { return nil }
        return try AccountCaller(
            account, epoch: epoch, erased: held.value.erased, session: "facade", expires: .max, isErased: false,
            recordVersion: held.version)
    }

    /// The current epoch of an account; `nil` if it was erased.
    package func epoch(of account: Account) async throws(BackendError) -> Int64? {
        try await records.epoch(of: account)
    }

    /// Checks that an account can have a name.
    package func check(name: String) throws(RequestError) {
        if let objection = AccountName.objection(to: AccountName.composed(name)) {
            throw RequestError(.badRequest, objection)
        }
    }

    /// The text that all spellings of a name share.
    package static func folded(_ name: String) -> String { AccountName.folded(name) }

    /// Returns `true` if an account can reserve `alias`, as far as the store shows now.
    ///
    /// - Parameter account: `nil` for an account that is to be created.
    package func isFree(_ alias: String, for account: Account?) async throws(BackendError) -> Bool {
        let holder = try await service.accounts.aliases.resolve(alias)
        if let account, holder == account.name { return true }
        guard holder == alias else { return false }
        let record = try await service.accounts.credentials.record(alias)
        return record?.incarnation == nil && record?.issuer == nil
    }

    /// Reserves an alias for an account.
    ///
    /// - Returns: `false` if it is taken.
    package func reserve(_ alias: String, for account: Account) async throws -> Bool {
        try check(name: alias)
        return try await service.accounts.aliases.reserve(alias, for: account)
    }

    /// Releases an alias of an account, unless it is the account's own name.
    package func release(_ alias: String, of account: Account) async throws(BackendError) {
        try await service.accounts.aliases.release(alias, of: account)
    }

    /// Checks that a user of the façade can have a password, which may be shorter than under `/v1`.
    package func check(password: String) throws(RequestError) {
        guard !password.isEmpty else { throw RequestError(.badRequest, "a password needs at least one character") }
        guard password.utf8.count <= Credentials.passwordByteCounts.upperBound else {
            throw RequestError(.badRequest, Credentials.longPassword)
        }
    }

    /// Replaces the password of the caller's account, and ends all its sessions.
    ///
    /// - Returns: The caller in the epoch after the change.
    package func setPassword(
        _ password: String, of caller: AccountCaller, peer: String
    ) async throws -> AccountCaller? {
        try check(password: password)
        let hash = try await service.accounts.credentials.hash(password, peer: peer)
        guard let changed = try await service.accounts.replacePassword(of: caller.credential, with: hash) else {
            throw RequestError.outdatedCredential
        }
        try await service.accounts.endSessions(before: changed)
        service.hub.wakeUp()
        return try await self.caller(changed.account, epoch: changed.epoch)
    }

    /// Marks the caller's account as erased, which ends all its sessions. ``finishErasure(of:)`` must follow.
    ///
    /// - Returns: `false` if the account is already erased.
    package func beginErasure(of caller: AccountCaller) async throws -> Bool {
        try await service.beginErasure(of: caller.account, by: caller.credential)
    }

    /// Deletes what a marked account has. Waits for all requests that have started, so it must not be called by `body`
    /// of ``serving(_:_:)``.
    package func finishErasure(of account: Account) async throws { try await service.finishErasure(of: account) }

    /// The account's ledger and the server's ledger about it.
    package func ledgers(of caller: AccountCaller) async throws(BackendError) -> (account: Ledger, server: Ledger) {
        let entries = try await records.backend.ledgerEntries(caller.keys)
        return try await ledgers(in: entries, caller.keys)
    }

    /// Adds facts to the account's ledger, as a device does.
    ///
    /// - Parameter facts: Computes the facts from both ledgers. It runs again if the ledger changes meanwhile.
    package func record(
        for caller: AccountCaller, _ facts: (_ account: Ledger, _ server: Ledger) throws -> [Fact]
    ) async throws {
        let ledgerRules = service.ledgerRules(of: caller)
        // The facts depend on the server ledger, which may state a former policy.
        try await ledgerRules.checkPolicy()
        let rules = ErasureGuard(base: ledgerRules, records: records, caller: caller)
        for _ in 0..<16 {
            let entries = try await records.backend.ledgerEntries(caller.keys)
            let known = try await ledgers(in: entries, caller.keys)
            let new = try facts(known.account, known.server)
            guard !new.isEmpty else { return }
            let value = LedgerDocument(ledger: known.account.joined(with: Ledger(new.map(\.record)))).encoded()
            let precondition = entries.ledger.map { Precondition.matches($0.version) } ?? .absent
            if case .written = try await rules.write(value, to: caller.keys.ledger, if: precondition).outcome {
                service.hub.wakeUp()
                return
            }
        }
        throw BackendError(.busy, operation: .write, message: "the ledger keeps changing; try again")
    }

    private func ledgers(
        in entries: LedgerEntries, _ keys: LedgerKeys
    ) async throws(BackendError) -> (account: Ledger, server: Ledger) {
        var ledgers = (account: Ledger(), server: Ledger())
        let decoder = service.ledgers.decoder
        if let entry = entries.serverLedger {
            ledgers.server = try await decoder.ledger(in: entry, under: keys.serverLedger)
        }
        if let entry = entries.ledger { ledgers.account = try await decoder.ledger(in: entry, under: keys.ledger) }
        return ledgers
    }
}

extension AccountGateway {
    /// The refusal that reports `error`. Errors of the store go to the log, and clients do not see their text.
    package func refusal(_ error: any Error) -> RequestError {
        if let error = error as? RequestError { return error }
        let cause = error as? BackendError ?? BackendError(.other, message: "unexpected", cause: error)
        let problem = Problem.report(of: cause, service.onError)
        let status = HTTPResponse.Status(code: problem.status)
        return RequestError(status, problem.detail, retryAfter: problem.status == 503 ? 1 : nil)
    }
}
