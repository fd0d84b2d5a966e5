import Entitlements
import SyncCore

/// The result of logging out.
public struct LogOutReport: Sendable {
    /// The account that was logged in.
    public var account: Account
    /// True if this device holds facts of the account that the remote may lack. They stay on this device and are sent
    /// after the account's next log-in.
    public var hasUnsentFacts: Bool
    /// The error of the last sync, if it failed.
    public var failure: EntitlementError?
}

extension EntitlementStore {
    /// Creates an account unless it exists. Does not log it in.
    ///
    /// The account is registered on the remote if there is one, where every device finds it, otherwise on this device.
    /// Two devices that create the same account concurrently create one. Creating an erased account again starts an
    /// empty one with a new incarnation.
    ///
    /// - Parameter name: The name, 1 to 255 bytes without control characters.
    /// - Returns: The new or existing account.
    /// - Throws: ``EntitlementError`` of kind `invalid`, `unsuitableStore` (the account was erased on a remote without
    ///   conditional writes), `refused` (the remote is a server, which creates its accounts itself), `sync` (the remote
    ///   is unreachable) or `storage`.
    @discardableResult
    public func createAccount(_ name: String) async throws(EntitlementError) -> Account {
        let fallback = try Account(name)
        guard let remote else {
            return try await inLocalStore(await directoryHere.create(name, incarnation: host.randomUUID()))
        }
        do {
            guard remote.capabilities.compareAndSwap else {
                guard try await !isErasedHere(fallback), try await content(of: fallback, on: remote)?.isErased != true
                else {
                    throw EntitlementError(
                        .unsuitableStore,
                        "\"\(fallback)\" was erased, and \(remote.label) cannot write conditionally: use another name")
                }
                try await remember(fallback)
                return fallback
            }
            if let known = try await current(name, on: remote) { return known }
            let account = try await AccountDirectory(backend: remote).create(name, incarnation: host.randomUUID())
            try await remember(account)
            return account
        } catch let error as BackendError where error.isRefusal {
            throw EntitlementError(
                refusedBy: remote.label, "creates its accounts itself: sign up there, then log in here", error)
        } catch {
            throw EntitlementError(remoteAct: error)
        }
    }

    /// Logs an account in on this device.
    ///
    /// This store switches to the account at once. Every other store on this device that was opened without naming an
    /// account switches when its ``run(pollingEvery:noticeBeforeExpiry:)`` notices the change. Calls in progress
    /// complete for the previous account.
    ///
    /// The first log-in on a device needs the remote. Afterwards the account is known on this device and can log in
    /// offline. Facts that could not be sent earlier go out with the next sync.
    ///
    /// - Parameters:
    ///   - name: The name of an existing account, see ``createAccount(_:)``.
    ///   - adoptAnonymous: `true` to move the anonymous purchases of this device to this account, permanently. Needs
    ///     the remote if there is one. An interrupted move is completed by the next log-in or the next anonymous
    ///     recording.
    /// - Returns: The account that is now logged in.
    /// - Throws: ``EntitlementError`` of kind `invalid`, `unknownAccount`, `accountErased`, `sync` (the remote is
    ///   unreachable and the account is not known on this device, or anonymous purchases were to be adopted), `storage`
    ///   or `damaged`.
    @discardableResult
    public func logIn(_ name: String, adoptAnonymous: Bool = false) async throws(EntitlementError) -> Account {
        let (account, isConfirmed) = try await find(name)
        guard isConfirmed || !adoptAnonymous else {
            // Purchases adopted by an account that has been erased in the meantime would be lost with it.
            throw EntitlementError(
                remote: BackendError(
                    .unavailable,
                    message: "the remote is unreachable: log in without adopting, or try again when it is online"))
        }
        try await completeErasure()
        let adoption = Adoption(backend: local, host: host)
        // Complete an interrupted adoption first. Its contents belong to the account that claimed them.
        try await adoption.settle()
        if adoptAnonymous {
            await clock.load()
            _ = try await adoption.adopt(for: account, at: now)
        }
        try await DeviceSession(backend: local).set(account)
        try await switchSession(to: account)
        await publish([], in: session)
        return account
    }

    /// Logs out.
    ///
    /// Sends what the remote lacks, if possible. Facts that cannot be sent stay in the account's ledger on this device
    /// and go out after its next log-in. A failed sync does not fail the log-out; the report contains the error.
    ///
    /// - Throws: ``EntitlementError`` of kind `signInNeeded` (no account is logged in), `storage` or `damaged`.
    @discardableResult
    public func logOut() async throws(EntitlementError) -> LogOutReport {
        let session = session
        guard !session.account.isAnonymous else {
            throw EntitlementError(.signInNeeded, "no account is logged in")
        }
        var failure: EntitlementError?
        if remote != nil {
            do { try await sync() } catch { failure = error }
        }
        let hasUnsent = try await hasUnsentFacts(session.account)
        // Another process may have logged in another account. Its session must not end here.
        try await DeviceSession(backend: local).end(session.account)
        try await switchSession(to: .anonymous)
        return LogOutReport(account: session.account, hasUnsentFacts: hasUnsent, failure: failure)
    }

    /// Returns `true` if this device holds facts of `account` that the remote may lack. Needs no network.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public func hasUnsentFacts(_ account: Account) async throws(EntitlementError) -> Bool {
        // An erased account has nothing to send.
        guard let engine, !account.isAnonymous, try await !isErasedHere(account) else { return false }
        let keys = try ofLocalStore(LedgerKeys(account))
        if server != nil {
            let device = try await LedgerEntries(backend: local).read(keys.device)
            if !device.ledger.waitingEvidence.isEmpty { return true }
        }
        do { return try await engine.hasUnsent(keys.ledger) } catch { throw EntitlementError(error) }
    }

    /// Switches to the account that another process on this device has logged in or out.
    func followDevice() async throws(EntitlementError) {
        guard followsDevice else { return }
        // A concurrent log-in or log-out through this store takes precedence.
        let old = session
        try await switchSession(to: try await DeviceSession(backend: local).account(), from: old)
    }

    /// Returns the current incarnation of `name`, from the remote if it is reachable, otherwise from this device.
    /// `isConfirmed` is `true` if the remote has confirmed it, or if there is no remote.
    private func find(_ name: String) async throws(EntitlementError) -> (account: Account, isConfirmed: Bool) {
        let initial = try Account(name)
        guard let remote else {
            guard let account = try await findHere(name) else { throw .unknownAccount(initial) }
            return (account, true)
        }
        do {
            if remote.capabilities.compareAndSwap {
                guard let account = try await current(name, on: remote) else {
                    throw EntitlementError.unknownAccount(initial)
                }
                return (account, true)
            }
            guard try await !isErasedHere(initial) else { throw EntitlementError.erased(initial) }
            let content = try await content(of: initial, on: remote)
            if content?.isErased == true {
                try await eraseLocally(initial)
                throw EntitlementError.erased(initial)
            }
            if content == nil, try await findHere(name) == nil { throw EntitlementError.unknownAccount(initial) }
            try await remember(initial)
            return (initial, true)
        } catch {
            // An account that was logged in on this device before is known locally.
            if error.isUnreachable, let account = try await findHere(name) { return (account, false) }
            throw EntitlementError(remoteAct: error)
        }
    }

    /// Returns the current incarnation of `name` on a remote with a directory; `nil` if there is none.
    ///
    /// Both sides exchange what they know about erased incarnations: a remote restored from a backup may lack some, and
    /// this device may not have synced since. A remote that lost the account itself gets it back from this device,
    /// because a new incarnation would lack the facts that this device still holds.
    private func current(_ name: String, on remote: any KeyValueBackend) async throws -> Account? {
        let directory = AccountDirectory(backend: remote)
        let known = try await inLocalStore(await directoryHere.entry(of: name))
        let remoteEntry = try await directory.entry(of: name)
        for erasedAccount in try Self.accounts(of: name, known?.erased, except: remoteEntry?.erased) {
            do throws(EntitlementError) { try await erase(erasedAccount, from: remote) } catch {
                // A server restored from a backup decides itself which incarnations are valid.
                guard error.kind == .refused else { throw error }
            }
        }
        for erasedAccount in try Self.accounts(of: name, remoteEntry?.erased, except: known?.erased) {
            try await eraseLocally(erasedAccount)
        }
        if let account = try await directory.current(name, basedOn: remoteEntry) {
            if try await isErasedHere(account) {
                try await erase(account, from: remote)
                return nil
            }
            try await remember(account)
            return account
        }
        if let incarnation = remoteEntry?.incarnation {
            // An interrupted erasure has not reached the directory yet.
            let current = try Account(name, incarnation: incarnation)
            if try await directory.isLedgerErased(of: current) == true {
                try await directory.erase(current)
                try await eraseLocally(current)
            }
        }
        let lives = try await directory.entry(of: name)
        guard lives?.incarnation == nil, let account = try await findHere(name),
            lives?.erased.contains(account.incarnation) != true,
            try await directory.isLedgerErased(of: account) != true
        else { return nil }
        try await directory.adopt(account)
        return try await directory.current(name)
    }

    private static func accounts(of name: String, _ incarnations: [String]?, except others: [String]?)
        throws(EntitlementError) -> [Account]
    {
        let others = Set(others ?? [])
        var lives: [Account] = []
        for incarnation in incarnations ?? [] where !others.contains(incarnation) {
            lives.append(try Account(name, incarnation: incarnation))
        }
        return lives
    }

    /// The directory of the accounts that this device knows.
    var directoryHere: AccountDirectory { AccountDirectory(backend: local) }

    private func findHere(_ name: String) async throws(EntitlementError) -> Account? {
        try await inLocalStore(await directoryHere.current(name))
    }

    func isErasedHere(_ account: Account) async throws(EntitlementError) -> Bool {
        try await inLocalStore(await directoryHere.isLedgerErased(of: account)) == true
    }

    /// Records the current incarnation on this device, so that the account can log in offline.
    private func remember(_ account: Account) async throws(EntitlementError) {
        try await inLocalStore(await directoryHere.adopt(account))
    }
}

extension EntitlementError {
    static func unknownAccount(_ account: Account) -> EntitlementError {
        EntitlementError(.unknownAccount, "there is no account \"\(account.description.singleLine)\"; create it first")
    }

    static func erased(_ account: Account) -> EntitlementError {
        EntitlementError(.accountErased, "the account \"\(account.description.singleLine)\" was erased")
    }
}

extension Error {
    /// True if the remote is unreachable, as opposed to having answered with an error.
    fileprivate var isUnreachable: Bool {
        switch self {
        case let error as BackendError: error.disposition != .permanent
        case let error as EntitlementError: error.kind == .sync && error.isTransient
        default: false
        }
    }
}
