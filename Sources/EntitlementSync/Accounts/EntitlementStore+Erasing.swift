import Entitlements
import SyncCore

extension EntitlementStore {
    /// Erases an account: its ledger on the remote is replaced by a marker that nothing can be joined to, then what
    /// this device holds of it. Other devices that sync with the remote erase theirs. This cannot be undone.
    ///
    /// Whoever can write to a shared folder can do so. A server erases by itself, by the account's password, and
    /// refuses it here; afterwards the next sync finds the marker.
    ///
    /// - Throws: ``EntitlementError`` of kind `invalid`, `unknownAccount`, `refused` (the remote is a server; nothing
    ///   was erased), `sync` (the remote is out of reach; nothing
    ///   was erased, or erasing it again completes it) or `storage`.
    public func eraseAccount(_ name: String) async throws(EntitlementError) {
        let account = try await lifeToErase(of: name)
        if let remote { try await erase(account, from: remote) }
        try await bury(account)
    }

    /// The marker goes out like any other ledger, from a store of its own, and takes the place of everything: until
    /// the remote has it, this device keeps what it has.
    func erase(_ account: Account, from remote: any KeyValueBackend) async throws(EntitlementError) {
        do {
            let key = try LedgerKeys(account).ledger
            let desk = MemoryBackend(host: host)
            _ = try await desk.write(LedgerDocument(ledger: .erased).encoded(), to: key, if: .absent)
            var engine = SyncEngine(local: desk, remote: remote, merge: LedgerMerge(), host: host)
            guard remote.capabilities.compareAndSwap else {
                engine = engine.writing(as: "\(try await session.ledgers.replica())")
                _ = try await engine.sync(key)
                return try await clear(key, on: remote)
            }
            _ = try await engine.sync(key)
            try await AccountDirectory(backend: remote).erase(account)
        } catch let error as SyncError {
            if let refusal = error.refusal { throw .erasing(on: remote.label, refusal) }
            throw EntitlementError(error)
        } catch let error as BackendError where error.isRefusal {
            throw EntitlementError.erasing(on: remote.label, error)
        } catch {
            throw Self.remoteError(error)
        }
    }

    /// Puts the marker in the place of what all replicas have written for an erased account on a remote that keeps an
    /// entry for each: a device that never comes back would leave its entry there for good. Nothing is lost to a device
    /// that writes its own at the same moment: what it writes is erased, too, and it clears again when it learns so.
    func clear(_ key: EntryKey, on remote: any KeyValueBackend) async throws(BackendError) {
        let marker = LedgerDocument(ledger: .erased).encoded()
        var after: EntryKey?
        repeat {
            let page = try await remote.list(prefix: key.text + "/", after: after, limit: 1_000).outcome
            for item in page.items {
                do throws(BackendError) {
                    if case .found(let entry) = try await remote.read(item.key).outcome, entry.value == marker {
                        continue
                    }
                    _ = try await remote.write(marker, to: item.key, if: .any)
                } catch {
                    // A tool's conflict copy is only read, and what cannot be read may be half of a marker: neither
                    // keeps the others from being cleared, and the marker stands against both.
                    guard error.disposition == .permanent, error.kind != .cancelled else { throw error }
                }
            }
            after = page.next
        } while after != nil
    }

    /// What the remote holds of `account`, asked from a store that knows nothing; `nil` when it holds nothing.
    func content(of account: Account, on remote: any KeyValueBackend) async throws(EntitlementError) -> Ledger? {
        do {
            let desk = MemoryBackend(host: host)
            let engine = SyncEngine(local: desk, remote: remote, merge: LedgerMerge(), replica: "nobody", host: host)
            let content = try await engine.dryRun(try LedgerKeys(account).ledger).content
            return content.isEmpty && !content.isErased ? nil : content
        } catch let error as SyncError {
            throw EntitlementError(error)
        } catch {
            throw Self.remoteError(error)
        }
    }

    /// The life of `name` that is to be erased, also one whose erasure was interrupted.
    private func lifeToErase(of name: String) async throws(EntitlementError) -> Account {
        let initial = try Account(name)
        if let remote {
            do {
                if !remote.capabilities.compareAndSwap {
                    let content = try await content(of: initial, on: remote)
                    if let content, !content.isErased { return initial }
                } else if let account = try await life(of: name, in: remote) {
                    return account
                }
            } catch {
                throw Self.remoteError(error)
            }
        }
        do {
            if let account = try await life(of: name, in: local) { return account }
        } catch {
            throw EntitlementError(error)
        }
        throw .unknownAccount(initial)
    }

    private func life(of name: String, in backend: any KeyValueBackend) async throws(BackendError) -> Account? {
        let directory = AccountDirectory(backend: backend)
        let entry = try await directory.entry(of: name)?.entry
        if let incarnation = entry?.incarnation { return try AccountDirectory.account(name, incarnation) }
        let initial = try AccountDirectory.account(name, Account.initialIncarnation)
        guard let isErased = try await directory.isLedgerErased(of: initial) else { return nil }
        let isComplete = isErased && entry?.erased.contains(initial.incarnation) == true
        return isComplete ? nil : initial
    }

    /// Completes what an interrupted erasure left of the account that is logged in.
    func completeErasure() async throws(EntitlementError) {
        var accounts: Set = [session.account]
        do { accounts.insert(try await DeviceSession(backend: local).account()) } catch {
            // An entry that cannot be read names nobody; logging in replaces it.
            guard error.kind == .damaged else { throw error }
        }
        for account in accounts.sorted() where !account.isAnonymous {
            if try await isErasedHere(account) { try await bury(account) }
        }
    }

    /// A sync has found the marker: nothing stays here, and where other devices' entries may lie around, none there.
    func learnOfErasure(of session: AccountSession) async throws(EntitlementError) {
        try await bury(session.account)
        if let remote, !remote.capabilities.compareAndSwap {
            do { try await clear(session.keys.ledger, on: remote) } catch { throw EntitlementError(remote: error) }
        }
    }

    /// Replaces what this device holds of an erased account by markers, and ends its session. What the account is found
    /// by comes last: interrupted, it is taken up by erasing again, or by the account's next sync.
    func bury(_ account: Account) async throws(EntitlementError) {
        let keys: LedgerKeys
        do { keys = try LedgerKeys(account) } catch { throw EntitlementError(error) }
        let entries = LedgerEntries(backend: local)
        for key in [keys.device, keys.remote] { try await entries.replace(key) { _ in .erased } }
        if try await entries.read(keys.knownDecisions).version != nil {
            try await entries.replace(keys.knownDecisions) { _ in .erased }
        }
        do { try await DeviceSession(backend: local).end(account) } catch {
            guard error.kind == .damaged else { throw error }
        }
        try await entries.replace(keys.ledger) { _ in .erased }
        // What it had claimed and not moved yet is nobody's again: behind the claim nobody would see it.
        try await Adoption(backend: local, host: host).settle(claimOf: account)
        do { try await AccountDirectory(backend: local).erase(account) } catch { throw EntitlementError(error) }
        if session.account == account {
            feed.tell(.accountErased(account))
            try await switchSession(to: .anonymous)
        }
    }
}

extension EntitlementError {
    fileprivate static func erasing(on remote: String, _ error: BackendError) -> EntitlementError {
        EntitlementError(
            refusedBy: remote, "erases accounts itself: erase this one there, by its password; then sync here", error)
    }
}

extension SyncError {
    /// Why the remote did not take what it was sent; `nil` where it failed otherwise.
    fileprivate var refusal: BackendError? {
        if case .backend(let error) = reason, side == .remote, error.isRefusal { error } else { nil }
    }
}

extension BackendError {
    /// Whether the store understood, and does not do it.
    var isRefusal: Bool { (kind == .permissionDenied || kind == .refused) && disposition == .permanent }
}
