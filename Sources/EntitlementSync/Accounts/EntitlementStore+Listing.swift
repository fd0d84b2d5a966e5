public import SyncCore

extension EntitlementStore {
    /// The accounts that have a ledger in `backend` and were not erased, ascending, ``Account/anonymous`` first.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public static func accounts(in backend: any KeyValueBackend) async throws(EntitlementError) -> [Account] {
        var accounts: Set<Account> = []
        do {
            for prefix in ["", "device/"].flatMap({ [$0 + LedgerKeys.accountPrefix, $0 + LedgerKeys.anonymousPath] }) {
                var after: EntryKey?
                repeat {
                    let page = try await backend.list(prefix: prefix, after: after, limit: 1_000).outcome
                    accounts.formUnion(page.items.compactMap { LedgerKeys.account(of: $0.key) })
                    after = page.next
                } while after != nil
            }
            for account in accounts.sorted() where try await isErased(account, in: backend) {
                accounts.remove(account)
            }
        } catch {
            throw EntitlementError(error)
        }
        return accounts.sorted()
    }

    /// Whether a marker stands in the place of the account's ledger. One that cannot be read is a ledger.
    private static func isErased(_ account: Account, in backend: any KeyValueBackend) async throws(BackendError) -> Bool
    {
        do { return try await AccountDirectory(backend: backend).isLedgerErased(of: account) == true } catch {
            guard error.kind == .damaged else { throw error }
            return false
        }
    }

    /// The account that is logged in on the device whose store is `backend`, ``Account/anonymous`` after a log-out;
    /// `nil` when no one has ever logged in or out there.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public static func accountLoggedIn(in backend: any KeyValueBackend) async throws(EntitlementError) -> Account? {
        try await DeviceSession(backend: backend).noted()
    }

    /// The current life of the account `name`, as far as `backend` knows; the initial one when it knows nothing.
    ///
    /// - Throws: ``EntitlementError`` of kind `invalid`, `accountErased`, `storage` or `damaged`.
    public static func account(_ name: String, in backend: any KeyValueBackend) async throws(EntitlementError)
        -> Account
    {
        let initial = try Account(name)
        let known: DirectoryEntry?
        do { known = try await AccountDirectory(backend: backend).entry(of: name)?.entry } catch {
            throw EntitlementError(error)
        }
        if let known, known.incarnation == nil { throw .erased(initial) }
        return try known?.incarnation.map { (incarnation) throws(EntitlementError) in
            try Account(name, incarnation: incarnation)
        } ?? initial
    }
}
