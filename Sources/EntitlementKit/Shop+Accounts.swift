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
        /// They stay on this device, and are hidden while the account is logged in. If the user restores, App Store
        /// purchases still move to the account; see ``Shop/restore()``.
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
        try await changingAccount { opened in
            let new = try await opened.accounts().client.signUp(name, password: password)
            try await enter(new.session, earlierPurchases, opened)
            // The codes are shown only once, so a failed sync must not hide them.
            await attempt(.sync) { try await synchronize(opened) }
            return new.recoveryCodes ?? []
        }
    }

    /// Logs an account in, on the server and on this device, and restores its purchases.
    ///
    /// - Throws: ``ShopError``. If only the restore failed, the account is logged in, and ``run()`` tries again.
    public func logIn(
        _ name: String, password: String, earlierPurchases: EarlierPurchases
    ) async throws(ShopError) {
        try await changingAccount { opened in
            let session = try await opened.accounts().client.logIn(name, password: password)
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
        try await changingAccount { opened in
            let client = try opened.accounts().client
            try await enter(
                try await client.recover(name, code: code, newPassword: newPassword), earlierPurchases, opened)
            await attempt(.sync) { try await synchronize(opened) }
            return await attempt(.account) { try await renewRecoveryCodes(password: newPassword) } ?? []
        }
    }

    /// Replaces the recovery codes of the account that is logged in.
    ///
    /// - Returns: The new codes. Show them to the user once. The former ones are invalid.
    /// - Throws: ``ShopError``.
    public func renewRecoveryCodes(password: String) async throws(ShopError) -> [String] {
        try await whileOpen { opened in
            let (client, tokens) = try opened.accounts()
            return try await client.renewRecoveryCodes(password: password, token: tokens.token(refused:))
        }
    }

    /// Logs out. Purchases that could not be sent stay on this device, and are sent after the next log-in.
    ///
    /// Without a network the log-out succeeds too. The session then ends at the server when it expires.
    ///
    /// - Parameter everywhere: True to end the sessions of all devices of the account at the server first, which needs
    ///   the network. Other devices notice it at their next sync.
    /// - Throws: ``ShopError``. With `everywhere`, this device stays logged in if the server could not end the
    ///   sessions; `notAllowed` for an account of the app's own issuer, which alone can end them.
    public func logOut(everywhere: Bool = false) async throws(ShopError) {
        try await changingAccount { opened in
            if opened.store.account.isGuest { throw ShopError(.logInNeeded, "no account is logged in") }
            // An interrupted log-out may have left the session.
            let hasSession = await opened.hasSession()
            if everywhere { try await endAllSessions(opened) }
            do throws(EntitlementError) { try await opened.store.logOut() } catch {
                guard error.kind == .signInNeeded, hasSession else { throw error }
            }
            account = opened.accountName
            await opened.model.refresh()
            guard let client = opened.client, let tokens = opened.tokens else { return }
            let session = await attempt(.account) { try await tokens.session() } ?? nil
            try await tokens.forget()
            renewTokens(with: nil)
            // The token of this session only: another account may have logged in since. Only its issuer can end a token
            // of the app's own issuer.
            guard let session, !session.isIssued, !everywhere else { return }
            let token = session.accessToken
            await attempt(.account) { try await client.logOut { _ in token } }
        }
    }

    /// Ends all sessions of the account at the server. Purchases that wait are sent before, while that is possible.
    private func endAllSessions(_ opened: OpenedShop) async throws {
        let (client, tokens) = try opened.accounts()
        if let session = try await tokens.session(), session.isIssued {
            throw ShopError(.notAllowed, "only the app's own issuer can end its sessions: log out there")
        }
        await attempt(.sync) { try await opened.store.sync() }
        try await client.logOut(everywhere: true, token: tokens.token(refused:))
    }

    /// Deletes the account and its purchases, at the server and on all devices. This cannot be undone. The App Store
    /// requires that an app in which users create accounts offers this.
    ///
    /// For an account of the app's own issuer, use ``deleteAccount()``.
    ///
    /// - Throws: ``ShopError``. After a failure, calling it again completes it.
    public func deleteAccount(password: String) async throws(ShopError) {
        try await changingAccount { opened in
            if let session = try await opened.accounts().tokens.session(), session.isIssued {
                throw ShopError(.notAllowed, "the account is one of the app's own issuer: use deleteAccount()")
            }
            try await delete(opened) { (client, tokens) throws(AccountError) in
                try await client.erase(password: password, token: tokens.token(refused:))
            }
        }
    }

    /// Deletes the account at the server by `erase`, and then on this device.
    func delete(
        _ opened: OpenedShop, _ erase: (AccountClient, SessionTokens) async throws(AccountError) -> Void
    ) async throws {
        let (client, tokens) = try opened.accounts()
        let name = account
        // An interrupted deletion may have left the session.
        let hasSession = await opened.hasSession()
        guard name != nil || hasSession else { throw ShopError(.logInNeeded, "no account is logged in") }
        var refusal = ""
        do throws(AccountError) { try await erase(client, tokens) } catch {
            // An earlier attempt has deleted the account, but was interrupted before this device was updated.
            guard error.kind == .notAllowed else { throw error }
            refusal = ": \(error.message)"
        }
        do {
            try await opened.store.sync()
            throw ShopError(.notAllowed, "the server still has the account \((name ?? "").singleLine)\(refusal)")
        } catch let error as EntitlementError {
            // A running shop may have noticed the deletion first, and have logged the account out.
            guard error.kind == .accountErased || opened.store.account.isAnonymous else { throw error }
        }
        try await tokens.forget()
        renewTokens(with: nil)
        account = opened.accountName
        await opened.model.refresh()
    }

    /// Logs in on this device, after the server has accepted the user. After a failure the former session is in use,
    /// unless this device has switched to the new account already.
    func enter(
        _ session: ServerSession, _ earlier: EarlierPurchases, _ opened: OpenedShop,
        renewingWith source: IssuedToken.Source? = nil
    ) async throws {
        let tokens = try opened.accounts().tokens
        if earlier == .adopt { try await endGuest(opened, before: session.account) }
        let former = try await tokens.session()
        let formerSource = tokenSource
        do {
            if let source { renewTokens(with: source) }
            try await tokens.begin(session)
            try await opened.store.logIn(session.account, adoptAnonymous: earlier == .adopt)
        } catch {
            await attempt(.account) {
                let now = try await EntitlementStore.accountLoggedIn(in: opened.local)?.name
                guard now != session.account else { return }
                renewTokens(with: formerSource)
                if let former { try await tokens.begin(former) } else { try await tokens.forget() }
            }
            throw error
        }
        account = opened.accountName
        report(nil, in: .account)
    }

    /// Restores the purchases, and fetches the account's token for the App Store.
    func synchronize(_ opened: OpenedShop) async throws {
        try await opened.store.restore()
        report(nil, in: .sync)
        await opened.model.refresh()
        // Purchases do not depend on the token.
        await attempt(.account) { _ = try await appAccountToken() }
    }

    /// Changes the account while no other call does, and translates the error.
    func changingAccount<Outcome: Sendable>(
        _ body: @MainActor (OpenedShop) async throws -> Outcome
    ) async throws(ShopError) -> Outcome {
        try await accountChanges.exclusively { () async throws(ShopError) in try await whileOpen(body) }
    }

    /// Calls `body`, whose failure is noted and fails no call. Returns `nil` after a failure.
    @discardableResult
    func attempt<Outcome: Sendable>(
        _ activity: Activity, _ body: @MainActor () async throws -> Outcome
    ) async -> Outcome? {
        do { return try await body() } catch {
            report(ShopError(error), in: activity)
            return nil
        }
    }
}
