import Entitlements
import SyncCore

/// What logging out did.
public struct LogOutReport: Sendable {
    /// Who was logged in.
    public var account: Account
    /// Whether the account's ledger on this device holds something that the remote is not known to have. It stays here
    /// and goes out at the account's next log-in.
    public var hasUnsentFacts: Bool
    /// Why the last sync failed, when it did.
    public var failure: EntitlementError?
}

extension EntitlementStore {
    /// Makes an account, unless it is there already: two devices that do so at once make one. Nobody is logged in by
    /// it.
    ///
    /// The account is noted in the remote where there is one, for every device to find, else on this device. An account
    /// that was erased gets a new life: nothing of the old one comes back by itself.
    ///
    /// - Parameter name: 1 to 255 bytes without control characters.
    /// - Throws: ``EntitlementError`` of kind `invalid`, `unsuitableStore` (an account was erased on a remote that
    ///   cannot write conditionally), `refused` (the remote is a server, which makes accounts itself), `sync` (the
    ///   remote is out of reach) or `storage`.
    @discardableResult
    public func createAccount(_ name: String) async throws(EntitlementError) -> Account {
        let fallback = try Account(name)
        guard let remote else { return try await createHere(name) }
        do {
            guard remote.capabilities.compareAndSwap else {
                guard try await !isErasedHere(fallback), try await content(of: fallback, on: remote)?.isErased != true
                else {
                    throw EntitlementError(
                        .unsuitableStore,
                        "\"\(fallback)\" was erased, and \(remote.label) cannot write conditionally: take another name")
                }
                try await remember(fallback)
                return fallback
            }
            if let known = try await current(name, on: remote) { return known }
            let account = try await AccountDirectory(backend: remote).create(name, incarnation: randomIncarnation())
            try await remember(account)
            return account
        } catch let error as EntitlementError {
            throw error
        } catch let error as BackendError where error.isRefusal {
            throw EntitlementError(
                refusedBy: remote.label, "makes accounts itself: sign up there, then log in here", error)
        } catch {
            throw Self.remoteError(error)
        }
    }

    private func createHere(_ name: String) async throws(EntitlementError) -> Account {
        do {
            return try await AccountDirectory(backend: local).create(name, incarnation: randomIncarnation())
        } catch {
            throw EntitlementError(error)
        }
    }

    /// Logs an account in on this device. From now on this store, and every other one that was opened without naming an
    /// account, shows and records what is that account's: this one at once, another one that runs as soon as it
    /// notices, see ``run(pollingEvery:noticeBeforeExpiry:)``. Calls that are under way end as they began.
    ///
    /// Needs the remote once; afterwards the account is known on this device and logs in offline too. What the account
    /// recorded here and could not send before goes out with the next sync.
    ///
    /// - Parameters:
    ///   - name: an account that exists, see ``createAccount(_:)``.
    ///   - adoptAnonymous: whether what nobody bought on this device becomes this account's, for good. Needs the
    ///     remote, where there is one. Interrupted at any moment, it is completed by whoever logs in or records as
    ///     nobody next.
    /// - Throws: ``EntitlementError`` of kind `invalid`, `unknownAccount`, `accountErased`, `sync` (the account is not
    ///   known here yet, and the remote is out of reach), `storage` or `damaged`.
    @discardableResult
    public func logIn(_ name: String, adoptAnonymous: Bool = false) async throws(EntitlementError) -> Account {
        let (account, isConfirmed) = try await find(name)
        guard isConfirmed || !adoptAnonymous else {
            // What is adopted by an account that was erased meanwhile would be lost with it.
            throw EntitlementError(
                remote: BackendError(
                    .unavailable,
                    message: "the remote is out of reach: log in without adopting, or adopt when it can be asked"))
        }
        try await completeErasure()
        let adoption = Adoption(backend: local, host: host)
        // What an interrupted adoption left is somebody's: it goes to its owner before anybody else comes.
        try await adoption.settle()
        if adoptAnonymous {
            await refreshClock()
            _ = try await adoption.adopt(for: account, at: now)
        }
        try await DeviceSession(backend: local).set(account)
        try await switchSession(to: account)
        await tell(of: [], in: session)
        return account
    }

    /// Logs out. Pushes what the remote lacks if it can; what cannot be pushed stays on this device, in the account's
    /// own place, and goes out at its next log-in.
    ///
    /// - Throws: ``EntitlementError`` of kind `signInNeeded` (nobody is logged in), `storage` or `damaged`. A sync that
    ///   fails is told in the report.
    @discardableResult
    public func logOut() async throws(EntitlementError) -> LogOutReport {
        let session = session
        guard !session.account.isAnonymous else {
            throw EntitlementError(.signInNeeded, "nobody is logged in")
        }
        var failure: EntitlementError?
        if remote != nil {
            do { try await sync() } catch { failure = error }
        }
        let hasUnsent = try await hasUnsentFacts(session.account)
        // Another process may have logged somebody else in: that is not this session's to end.
        try await DeviceSession(backend: local).end(session.account)
        try await switchSession(to: .anonymous)
        return LogOutReport(account: session.account, hasUnsentFacts: hasUnsent, failure: failure)
    }

    /// Whether this device holds something of `account` that the remote is not known to have. Needs no network.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public func hasUnsentFacts(_ account: Account) async throws(EntitlementError) -> Bool {
        // Of an erased account there is nothing to send.
        guard let engine, !account.isAnonymous, try await !isErasedHere(account) else { return false }
        do {
            return try await engine.hasUnsent(try LedgerKeys(account).ledger)
        } catch let error as SyncError {
            throw EntitlementError(error)
        } catch {
            throw Self.localError(error)
        }
    }

    /// Takes up what another process of this device changed about who is logged in.
    func followDevice() async throws(EntitlementError) {
        guard followsDevice else { return }
        // A log-in or log-out of this store that comes in between has the last word.
        let old = session
        try await switchSession(to: try await DeviceSession(backend: local).account(), from: old)
    }

    /// The current life of `name`: by the remote's word where it can be asked, else by what this device knows.
    /// Tells also whether the remote, where there is one, has confirmed it.
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
                try await bury(initial)
                throw EntitlementError.erased(initial)
            }
            if content == nil, try await findHere(name) == nil { throw EntitlementError.unknownAccount(initial) }
            try await remember(initial)
            return (initial, true)
        } catch let error where error.isUnreachable {
            // Who was here before is known here.
            if let account = try await findHere(name) { return (account, false) }
            throw Self.remoteError(error)
        } catch let error as EntitlementError {
            throw error
        } catch {
            throw Self.remoteError(error)
        }
    }

    /// The current life of `name` on a remote that has a directory; `nil` when there is none.
    ///
    /// What either side knows of erased lives reaches the other: a remote that was put back from a backup has forgotten
    /// some, and this device may not have synced since. A remote that forgot the account itself is told of it again,
    /// because another life of it would not have what is still here.
    private func current(_ name: String, on remote: any KeyValueBackend) async throws -> Account? {
        let directory = AccountDirectory(backend: remote)
        let known = try await entryHere(of: name)
        let told = try await directory.entry(of: name)?.entry
        for life in try Self.lives(of: name, known?.erased, except: told?.erased) {
            do throws(EntitlementError) { try await erase(life, from: remote) } catch {
                // A server that was put back from a backup knows by itself which lives it reaches.
                guard error.kind == .refused else { throw error }
            }
        }
        for life in try Self.lives(of: name, told?.erased, except: known?.erased) { try await bury(life) }
        if let account = try await directory.current(name, told: told) {
            if try await isErasedHere(account) {
                try await erase(account, from: remote)
                return nil
            }
            try await remember(account)
            return account
        }
        if let incarnation = told?.incarnation {
            // Its erasure was interrupted before the directory heard of it.
            let life = try Account(name, incarnation: incarnation)
            if try await directory.isLedgerErased(of: life) == true {
                try await directory.erase(life)
                try await bury(life)
            }
        }
        let lives = try await directory.entry(of: name)?.entry
        guard lives?.incarnation == nil, let account = try await findHere(name),
            lives?.erased.contains(account.incarnation) != true,
            try await directory.isLedgerErased(of: account) != true
        else { return nil }
        try await directory.adopt(account)
        return try await directory.current(name)
    }

    private static func lives(of name: String, _ incarnations: [String]?, except others: [String]?)
        throws(EntitlementError) -> [Account]
    {
        let others = Set(others ?? [])
        var lives: [Account] = []
        for incarnation in incarnations ?? [] where !others.contains(incarnation) {
            lives.append(try Account(name, incarnation: incarnation))
        }
        return lives
    }

    private func entryHere(of name: String) async throws(EntitlementError) -> DirectoryEntry? {
        do { return try await AccountDirectory(backend: local).entry(of: name)?.entry } catch {
            throw EntitlementError(error)
        }
    }

    private func findHere(_ name: String) async throws(EntitlementError) -> Account? {
        do { return try await AccountDirectory(backend: local).current(name) } catch { throw EntitlementError(error) }
    }

    func isErasedHere(_ account: Account) async throws(EntitlementError) -> Bool {
        do { return try await AccountDirectory(backend: local).isLedgerErased(of: account) == true } catch {
            throw EntitlementError(error)
        }
    }

    /// Notes on this device which life of the account is the current one, for logging in offline.
    private func remember(_ account: Account) async throws(EntitlementError) {
        do { try await AccountDirectory(backend: local).adopt(account) } catch { throw EntitlementError(error) }
    }

    private func randomIncarnation() -> String { host.randomUUID() }

    static func remoteError(_ error: any Error) -> EntitlementError {
        switch error {
        case let error as EntitlementError: error
        case let error as BackendError: EntitlementError(remote: error)
        default: EntitlementError(.sync, "remote store: \(error)")
        }
    }

    private static func localError(_ error: any Error) -> EntitlementError {
        switch error {
        case let error as BackendError: EntitlementError(error)
        default: EntitlementError(.storage, "local store: \(error)")
        }
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
    /// Whether the remote is out of reach, and not the answer the trouble.
    fileprivate var isUnreachable: Bool {
        switch self {
        case let error as BackendError: error.disposition != .permanent
        case let error as EntitlementError: error.kind == .sync && error.isTransient
        default: false
        }
    }
}
