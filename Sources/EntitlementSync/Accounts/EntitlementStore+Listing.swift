public import SyncCore

extension EntitlementStore {
    /// Returns the accounts with a ledger in `backend`, in ascending order, ``Account/anonymous`` first. Erased
    /// accounts are omitted.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public static func accounts(in backend: any KeyValueBackend) async throws(EntitlementError) -> [Account] {
        var accounts: Set<Account> = []
        do {
            for prefix in ["", "device/"].flatMap({ [$0 + LedgerKeys.accountPrefix, $0 + LedgerKeys.anonymousPath] }) {
                try await backend.forEachPage(prefix: prefix) { page in
                    accounts.formUnion(page.items.compactMap { LedgerKeys.account(of: $0.key) })
                }
            }
            for account in accounts.sorted() where try await isErased(account, in: backend) {
                accounts.remove(account)
            }
        } catch {
            throw EntitlementError(error)
        }
        return accounts.sorted()
    }

    /// Returns `true` if the account's ledger was erased. An undecodable ledger counts as not erased.
    private static func isErased(_ account: Account, in backend: any KeyValueBackend) async throws(BackendError) -> Bool
    {
        do { return try await AccountDirectory(backend: backend).isLedgerErased(of: account) == true } catch {
            guard error.kind == .damaged else { throw error }
            return false
        }
    }

    /// Returns the account that is logged in on the device of the local store `backend`.
    ///
    /// - Returns: The account, which is ``Account/anonymous`` after a log-out; `nil` before the first log-in or
    ///   log-out.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public static func accountLoggedIn(in backend: any KeyValueBackend) async throws(EntitlementError) -> Account? {
        try await DeviceSession(backend: backend).noted()
    }

    /// Returns the current incarnation of the account `name` as known in `backend`, or the initial incarnation if
    /// nothing is known.
    ///
    /// - Throws: ``EntitlementError`` of kind `invalid`, `accountErased`, `storage` or `damaged`.
    public static func account(_ name: String, in backend: any KeyValueBackend) async throws(EntitlementError)
        -> Account
    {
        let initial = try Account(name)
        let known = try await inLocalStore(await AccountDirectory(backend: backend).entry(of: name))
        if let known, known.incarnation == nil { throw .erased(initial) }
        return try known?.incarnation.map { (incarnation) throws(EntitlementError) in
            try Account(name, incarnation: incarnation)
        } ?? initial
    }

    /// Returns `true` if the account `name` was erased, as far as `backend` knows, and not created again.
    ///
    /// - Throws: ``EntitlementError`` of kind `invalid`, `storage` or `damaged`.
    package static func isErased(_ name: String, in backend: any KeyValueBackend) async throws(EntitlementError) -> Bool
    {
        let life: Account
        do throws(EntitlementError) { life = try await account(name, in: backend) } catch {
            guard error.kind == .accountErased else { throw error }
            return true
        }
        return try await inLocalStore(await isErased(life, in: backend))
    }

    /// Returns `true` if the device of the local store `backend` has synced `account` with the remote of this label.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage`.
    package static func hasSynced(
        _ account: Account, withRemote label: String, in backend: any KeyValueBackend
    ) async throws(EntitlementError) -> Bool {
        guard
            case .found(let entry) = try await inLocalStore(await backend.read(LedgerKeys(account).knownRemotes))
                .outcome
        else { return false }
        return AccountSession.labels(in: entry).contains(label)
    }
}
