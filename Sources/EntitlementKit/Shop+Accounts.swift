import EntitlementSync
import HTTPStorage
import SyncCore

extension Shop {
    /// The use of purchases that were made on this device before a log-in.
    public enum EarlierPurchases: Sendable {
        /// They move to the account, permanently. Right for a personal device. On a device that several people share,
        /// ask first: the account also gets what the others have bought before they signed in.
        case adopt
        /// They stay on this device, and are hidden while the account is logged in.
        case leaveOnDevice
    }

    /// Creates an account at the server, and logs it in.
    ///
    /// - Returns: The recovery codes. Show them to the user once: they replace a lost password. Empty if the account
    ///   existed with this password, for example because an earlier answer was lost.
    /// - Throws: ``ShopError``. A failure to send the purchases is none: the account is logged in, ``failure`` has the
    ///   reason, and ``run()`` tries again.
    @discardableResult
    public func signUp(
        _ name: String, password: String, earlierPurchases: EarlierPurchases
    ) async throws(ShopError) -> [String] {
        let opened = try await open()
        let (client, tokens) = try opened.accounts()
        do {
            let new = try await client.signUp(name, password: password)
            try await tokens.begin(new.session)
            try await enter(name, earlierPurchases, opened)
            // The codes are shown only once, so a failed sync must not hide them.
            do { try await synchronize(opened) } catch { note(error) }
            return new.recoveryCodes ?? []
        } catch {
            throw ShopError(error)
        }
    }

    /// Logs an account in, on the server and on this device, and restores its purchases.
    ///
    /// - Throws: ``ShopError``. If only the restore failed, the account is logged in, and ``run()`` tries again.
    public func logIn(
        _ name: String, password: String, earlierPurchases: EarlierPurchases
    ) async throws(ShopError) {
        try await logIn(name, earlierPurchases) { client in try await client.logIn(name, password: password) }
    }

    /// Sets a new password with one of the recovery codes, ends all sessions of the account, and logs in.
    ///
    /// - Parameter code: One of the codes from ``signUp(_:password:earlierPurchases:)``. It can be used once.
    /// - Throws: ``ShopError``.
    public func resetPassword(
        of name: String, recoveryCode code: String, to newPassword: String, earlierPurchases: EarlierPurchases
    ) async throws(ShopError) {
        try await logIn(name, earlierPurchases) { client in
            try await client.recover(name, code: code, newPassword: newPassword)
        }
    }

    /// Logs out. Purchases that could not be sent stay on this device, and are sent after the next log-in.
    ///
    /// Without a network the log-out succeeds too. The session then ends at the server when it expires.
    ///
    /// - Throws: ``ShopError``.
    public func logOut() async throws(ShopError) {
        let opened = try await open()
        do { try await opened.store.logOut() } catch { throw ShopError(error) }
        account = nil
        guard opened.client != nil else { return }
        let (client, tokens) = try opened.accounts()
        do { try await client.logOut(token: tokens.token(refused:)) } catch { note(ShopError(error)) }
        do { try await tokens.forget() } catch { throw ShopError(error) }
    }

    /// Deletes the account and its purchases, at the server and on all devices. This cannot be undone. The App Store
    /// requires that an app in which users create accounts offers this.
    ///
    /// - Throws: ``ShopError``. After a failure, calling it again completes it.
    public func deleteAccount(password: String) async throws(ShopError) {
        let opened = try await open()
        let (client, tokens) = try opened.accounts()
        guard account != nil else { throw ShopError(.logInNeeded, "no account is logged in") }
        do {
            do { try await client.erase(password: password, token: tokens.token(refused:)) } catch {
                // An earlier attempt has deleted the account, but was interrupted before this device was updated.
                guard error.kind == .notAllowed else { throw error }
            }
            do { try await opened.store.sync() } catch {
                guard error.kind == .accountErased else { throw error }
            }
            try await tokens.forget()
        } catch {
            throw ShopError(error)
        }
        account = opened.store.account.name
        await opened.model.refresh()
    }

    private func logIn(
        _ name: String, _ earlier: EarlierPurchases, with authenticate: (AccountClient) async throws -> ServerSession
    ) async throws(ShopError) {
        let opened = try await open()
        let (client, tokens) = try opened.accounts()
        do {
            try await tokens.begin(try await authenticate(client))
            try await enter(name, earlier, opened)
            try await synchronize(opened)
        } catch {
            throw ShopError(error)
        }
    }

    /// Logs in on this device, after the server has accepted the user.
    private func enter(_ name: String, _ earlier: EarlierPurchases, _ opened: OpenedShop) async throws {
        do { try await opened.store.logIn(name, adoptAnonymous: earlier == .adopt) } catch {
            // A session of an account that is not logged in here would be used for another one.
            try await opened.accounts().tokens.forget()
            throw error
        }
        account = opened.store.account.name
    }

    private func synchronize(_ opened: OpenedShop) async throws(ShopError) {
        do { try await opened.store.restore() } catch { throw ShopError(error) }
        await opened.model.refresh()
    }
}
