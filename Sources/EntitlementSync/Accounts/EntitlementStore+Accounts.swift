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
    ///   cannot write conditionally), `sync` (the remote is out of reach) or `storage`.
    @discardableResult
    public func createAccount(_ name: String) async throws(EntitlementError) -> Account {
        let fallback = try Account(name)
        guard let remote else { return try await createHere(name) }
        do {
            guard remote.capabilities.compareAndSwap else {
                guard try await !isErasedHere(fallback) else {
                    throw EntitlementError(
                        .unsuitableStore,
                        "\"\(fallback)\" was erased, and \(remote.label) cannot write conditionally: take another name")
                }
                return fallback
            }
            let account = try await AccountDirectory(backend: remote).create(name, incarnation: randomIncarnation())
            try await remember(account)
            return account
        } catch let error as EntitlementError {
            throw error
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
    /// account, shows and records what is that account's. Calls that are under way end as they began.
    ///
    /// Needs the remote once; afterwards the account is known on this device and logs in offline too. What the account
    /// recorded here and could not send before goes out with the next sync.
    ///
    /// - Parameters:
    ///   - name: an account that exists, see ``createAccount(_:)``.
    ///   - adoptAnonymous: whether what nobody bought on this device becomes this account's, for good. Interrupted at
    ///     any moment, it is completed by whoever uses the store next.
    /// - Throws: ``EntitlementError`` of kind `invalid`, `unknownAccount`, `sync` (the account is not known here yet,
    ///   and the remote is out of reach), `storage` or `damaged`.
    @discardableResult
    public func logIn(_ name: String, adoptAnonymous: Bool = false) async throws(EntitlementError) -> Account {
        let account = try await find(name)
        let adoption = Adoption(backend: local, host: host)
        // What an interrupted adoption left is somebody's: it goes to its owner before anybody else comes.
        try await adoption.settle()
        if adoptAnonymous { _ = try await adoption.adopt(for: account, at: now) }
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
        try await DeviceSession(backend: local).set(.anonymous)
        try await switchSession(to: .anonymous)
        return LogOutReport(account: session.account, hasUnsentFacts: hasUnsent, failure: failure)
    }

    /// Whether this device holds something of `account` that the remote is not known to have. Needs no network.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public func hasUnsentFacts(_ account: Account) async throws(EntitlementError) -> Bool {
        guard let engine, !account.isAnonymous else { return false }
        do {
            return try await engine.hasUnsent(try LedgerKeys(account).ledger)
        } catch let error as SyncError {
            throw EntitlementError(error)
        } catch {
            throw Self.localError(error)
        }
    }

    /// Erases an account: its ledger on the remote is replaced by a marker that nothing can be joined to, then what
    /// this device holds of it. Other devices that sync with the remote erase theirs. This cannot be undone.
    ///
    /// Whoever can write to the remote can do so: a server asks for the password, a shared folder cannot.
    ///
    /// - Throws: ``EntitlementError`` of kind `invalid`, `unknownAccount`, `sync` (the remote is out of reach; nothing
    ///   was erased, or erasing it again completes it) or `storage`.
    public func eraseAccount(_ name: String) async throws(EntitlementError) {
        let account = try await lifeToErase(of: name)
        let doomed = try AccountSession(
            account, local: local, hasRemote: remote != nil, host: host, catalog: catalog, environment: environment)
        if let remote { try await erase(account, doomed, from: remote) }
        try await bury(doomed)
    }

    /// The marker goes out like any other ledger, from a store of its own, and takes the place of everything: until
    /// the remote has it, this device keeps what it has.
    private func erase(_ account: Account, _ doomed: AccountSession, from remote: any KeyValueBackend)
        async throws(EntitlementError)
    {
        let key = doomed.keys.ledger
        let desk = MemoryBackend(host: host)
        do {
            _ = try await desk.write(LedgerDocument(ledger: .erased).encoded(), to: key, if: .absent)
            var engine = SyncEngine(local: desk, remote: remote, merge: LedgerMerge(), host: host)
            if !remote.capabilities.compareAndSwap {
                engine = engine.writing(as: "\(try await doomed.ledgers.replica())")
            }
            _ = try await engine.sync(key)
            if remote.capabilities.compareAndSwap { try await AccountDirectory(backend: remote).erase(account) }
        } catch let error as EntitlementError {
            throw error
        } catch let error as SyncError {
            throw EntitlementError(error)
        } catch {
            throw Self.remoteError(error)
        }
    }

    /// The life of `name` that is to be erased, also one whose erasure was interrupted.
    private func lifeToErase(of name: String) async throws(EntitlementError) -> Account {
        let initial = try Account(name)
        var stores: [any KeyValueBackend] = [local]
        if let remote, remote.capabilities.compareAndSwap { stores.insert(remote, at: 0) }
        do {
            for store in stores {
                let directory = AccountDirectory(backend: store)
                if let incarnation = try await directory.entry(of: name)?.entry.incarnation {
                    return try Account(name, incarnation: incarnation)
                }
                if try await directory.isLedgerErased(of: initial) == false { return initial }
            }
        } catch let error as EntitlementError {
            throw error
        } catch {
            throw Self.remoteError(error)
        }
        throw .unknownAccount(initial)
    }

    /// Replaces what this device holds of an erased account by markers, and ends its session.
    func bury(_ session: AccountSession) async throws(EntitlementError) {
        let entries = LedgerEntries(backend: local)
        for key in [session.keys.ledger, session.keys.device, session.keys.remote] {
            try await entries.replace(key) { _ in .erased }
        }
        do { try await AccountDirectory(backend: local).erase(session.account) } catch {
            throw EntitlementError(error)
        }
        let device = DeviceSession(backend: local)
        if try await device.account() == session.account { try await device.set(.anonymous) }
        if self.session.account == session.account {
            feed.tell(.accountErased(session.account))
            try await switchSession(to: .anonymous)
        }
    }

    /// Takes up what another process of this device changed about who is logged in.
    func followDevice() async throws(EntitlementError) {
        guard followsDevice else { return }
        try await switchSession(to: try await DeviceSession(backend: local).account())
    }

    /// The current life of `name`: by the remote's word where it can be asked, else by what this device knows.
    private func find(_ name: String) async throws(EntitlementError) -> Account {
        let initial = try Account(name)
        guard let remote else {
            guard let account = try await findHere(name) else { throw .unknownAccount(initial) }
            return account
        }
        guard remote.capabilities.compareAndSwap else {
            guard try await !isErasedHere(initial) else { throw .erased(initial) }
            return initial
        }
        do {
            guard let account = try await AccountDirectory(backend: remote).current(name) else {
                throw EntitlementError.unknownAccount(initial)
            }
            try await remember(account)
            return account
        } catch let error as EntitlementError {
            throw error
        } catch {
            // Out of reach: who was here before is known here.
            if let account = try await findHere(name) { return account }
            throw Self.remoteError(error)
        }
    }

    private func findHere(_ name: String) async throws(EntitlementError) -> Account? {
        do { return try await AccountDirectory(backend: local).current(name) } catch { throw EntitlementError(error) }
    }

    private func isErasedHere(_ account: Account) async throws(EntitlementError) -> Bool {
        do { return try await AccountDirectory(backend: local).isLedgerErased(of: account) == true } catch {
            throw EntitlementError(error)
        }
    }

    /// Notes on this device which life of the account is the current one, for logging in offline, and lets go of those
    /// that the remote knows to be erased.
    private func remember(_ account: Account) async throws(EntitlementError) {
        let directory = AccountDirectory(backend: local)
        do { try await directory.adopt(account) } catch { throw EntitlementError(error) }
        guard let remote, let name = account.name else { return }
        let erased: [String]
        do { erased = try await AccountDirectory(backend: remote).entry(of: name)?.entry.erased ?? [] } catch {
            throw EntitlementError(remote: error)
        }
        for incarnation in erased where incarnation != account.incarnation {
            let life = try Account(name, incarnation: incarnation)
            let isHeld: Bool
            do { isHeld = try await directory.isLedgerErased(of: life) == false } catch {
                throw EntitlementError(error)
            }
            guard isHeld else { continue }
            try await bury(
                try AccountSession(
                    life, local: local, hasRemote: true, host: host, catalog: catalog, environment: environment))
        }
    }

    private func randomIncarnation() -> String { host.randomUUID() }

    private static func remoteError(_ error: any Error) -> EntitlementError {
        switch error {
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
