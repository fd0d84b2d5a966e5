import EntitlementSync
import Entitlements
import HTTPStorage
import SyncCore

extension Shop {
    /// The use of purchases that were made on this device before a log-in.
    public enum EarlierPurchases: Sendable {
        /// They move to the account, permanently. Right for a personal device. On a device that several people share,
        /// ask first: the account also gets what the others have bought before they signed in.
        case adopt
        /// They stay on this device, and are hidden while the account is logged in. A ``Shop/restore()`` that the user
        /// asks for claims those of the App Store for the account nevertheless.
        case leaveOnDevice
    }

    /// Creates an account at the server, and logs it in.
    ///
    /// - Returns: The recovery codes. Show them to the user once: each replaces a lost password. Empty if the account
    ///   existed with this password, for example because an earlier answer was lost: see
    ///   ``renewRecoveryCodes(password:)``.
    /// - Throws: ``ShopError``. If the purchases could not be sent, the call succeeds: ``failure`` has the reason, and
    ///   ``run()`` tries again.
    @discardableResult
    public func signUp(
        _ name: String, password: String, earlierPurchases: EarlierPurchases
    ) async throws(ShopError) -> [String] {
        try await accountChanges.exclusively { () async throws(ShopError) in
            let opened = try await open()
            let client = try opened.accounts().client
            let new: AccountClient.SignUp
            do { new = try await client.signUp(name, password: password) } catch { throw ShopError(error) }
            try await enter(new.session, earlierPurchases, opened)
            // The codes are shown only once, so a failed sync must not hide them.
            do throws(ShopError) { try await synchronize(opened) } catch { note(error, in: .sync) }
            return new.recoveryCodes ?? []
        }
    }

    /// Logs an account in, on the server and on this device, and restores its purchases.
    ///
    /// - Throws: ``ShopError``. If only the restore failed, the account is logged in, and ``run()`` tries again.
    public func logIn(
        _ name: String, password: String, earlierPurchases: EarlierPurchases
    ) async throws(ShopError) {
        try await accountChanges.exclusively { () async throws(ShopError) in
            let opened = try await open()
            let client = try opened.accounts().client
            let session: ServerSession
            do { session = try await client.logIn(name, password: password) } catch { throw ShopError(error) }
            try await enter(session, earlierPurchases, opened)
            try await synchronize(opened)
        }
    }

    /// Sets a new password with one of the recovery codes, ends all sessions of the account, and logs in.
    ///
    /// - Parameters:
    ///   - name: The name of the account.
    ///   - code: One of the codes from ``signUp(_:password:earlierPurchases:)``.
    ///   - newPassword: The new password.
    ///   - earlierPurchases: The use of purchases that were made on this device.
    /// - Returns: New recovery codes: the reset makes all former ones invalid. Show them to the user once. Empty if the
    ///   server could not be reached a second time: see ``renewRecoveryCodes(password:)``.
    /// - Throws: ``ShopError``.
    @discardableResult
    public func resetPassword(
        of name: String, recoveryCode code: String, to newPassword: String, earlierPurchases: EarlierPurchases
    ) async throws(ShopError) -> [String] {
        try await accountChanges.exclusively { () async throws(ShopError) in
            let opened = try await open()
            let client = try opened.accounts().client
            let session: ServerSession
            do { session = try await client.recover(name, code: code, newPassword: newPassword) } catch {
                throw ShopError(error)
            }
            try await enter(session, earlierPurchases, opened)
            do throws(ShopError) { try await synchronize(opened) } catch { note(error, in: .sync) }
            do throws(ShopError) { return try await renewRecoveryCodes(password: newPassword) } catch {
                note(error, in: .account)
                return []
            }
        }
    }

    /// Replaces the recovery codes of the account that is logged in.
    ///
    /// - Returns: The new codes. Show them to the user once. The former ones are invalid.
    /// - Throws: ``ShopError``.
    public func renewRecoveryCodes(password: String) async throws(ShopError) -> [String] {
        let (client, tokens) = try await open().accounts()
        do { return try await client.renewRecoveryCodes(password: password, token: tokens.token(refused:)) } catch {
            throw ShopError(error)
        }
    }

    /// Logs out. Purchases that could not be sent stay on this device, and are sent after the next log-in.
    ///
    /// Without a network the log-out succeeds too. The session then ends at the server when it expires.
    ///
    /// - Throws: ``ShopError``.
    public func logOut() async throws(ShopError) {
        try await accountChanges.exclusively { () async throws(ShopError) in
            let opened = try await open()
            // An interrupted log-out may have left the session.
            let hasSession = await opened.hasSession()
            do throws(EntitlementError) { try await opened.store.logOut() } catch {
                guard error.kind == .signInNeeded, hasSession else { throw ShopError(error) }
            }
            account = opened.store.account.name
            await opened.model.refresh()
            guard let client = opened.client, let tokens = opened.tokens else { return }
            var token: String?
            do { token = try await tokens.session()?.accessToken } catch { note(ShopError(error), in: .account) }
            do { try await tokens.forget() } catch { throw ShopError(error) }
            // The token of this session only: another account may have logged in since.
            guard let token else { return }
            do { try await client.logOut { _ in token } } catch { note(ShopError(error), in: .account) }
        }
    }

    /// Deletes the account and its purchases, at the server and on all devices. This cannot be undone. The App Store
    /// requires that an app in which users create accounts offers this.
    ///
    /// - Throws: ``ShopError``. After a failure, calling it again completes it.
    public func deleteAccount(password: String) async throws(ShopError) {
        try await accountChanges.exclusively { () async throws(ShopError) in
            let opened = try await open()
            let (client, tokens) = try opened.accounts()
            let name = account
            // An interrupted deletion may have left the session.
            let hasSession = await opened.hasSession()
            guard name != nil || hasSession else { throw ShopError(.logInNeeded, "no account is logged in") }
            do {
                do throws(AccountError) {
                    try await client.erase(password: password, token: tokens.token(refused:))
                } catch {
                    // An earlier attempt has deleted the account, but was interrupted before this device was updated.
                    guard error.kind == .notAllowed else { throw error }
                }
                do {
                    try await opened.store.sync()
                    throw ShopError(.notAllowed, "the server still has the account \((name ?? "").singleLine)")
                } catch let error as EntitlementError {
                    // A running shop may have noticed the deletion first, and have logged the account out.
                    guard error.kind == .accountErased || opened.store.account.isAnonymous else { throw error }
                }
                try await tokens.forget()
            } catch {
                throw ShopError(error)
            }
            account = opened.store.account.name
            await opened.model.refresh()
        }
    }

    /// Logs in on this device, after the server has accepted the user. After a failure the former session is in use,
    /// unless this device has switched to the new account already.
    private func enter(
        _ session: ServerSession, _ earlier: EarlierPurchases, _ opened: OpenedShop
    ) async throws(ShopError) {
        let tokens = try opened.accounts().tokens
        do {
            let former = try await tokens.session()
            do {
                try await tokens.begin(session)
                try await opened.store.logIn(session.account, adoptAnonymous: earlier == .adopt)
            } catch {
                do {
                    let now = try await EntitlementStore.accountLoggedIn(in: opened.local)?.name
                    if now != session.account {
                        if let former { try await tokens.begin(former) } else { try await tokens.forget() }
                    }
                } catch {
                    note(ShopError(error), in: .account)
                }
                throw error
            }
        } catch {
            throw ShopError(error)
        }
        account = opened.store.account.name
        note(nil, in: .account)
    }

    /// Restores the purchases, and fetches the account's token for the App Store.
    private func synchronize(_ opened: OpenedShop) async throws(ShopError) {
        do { try await opened.store.restore() } catch { throw ShopError(error) }
        note(nil, in: .sync)
        await opened.model.refresh()
        // Purchases do not depend on the token.
        do throws(ShopError) { _ = try await appAccountToken() } catch { note(error, in: .account) }
    }
}
