import EntitlementSync
import HTTPStorage

// Accounts of an app that has a log-in of its own (`syncd serve --issuer`).
extension Shop {
    /// Logs the user of the app's own issuer in, on the server and on this device, and restores the purchases. The
    /// server creates the account for the first token of a user, and again after ``deleteAccount()``.
    ///
    /// ```swift
    /// try await shop.logIn(token: { try await auth.accessToken() }, earlierPurchases: .adopt)  // once
    /// shop.resume { try await auth.accessToken() }  // at each later start, before run()
    /// ```
    ///
    /// - Parameters:
    ///   - token: Returns a current token of the issuer: a signed JSON Web Token whose `sub` is the name of the
    ///     account. It is called again shortly before the token expires and when the server has refused it, once for
    ///     all requests that wait. It must not call the shop.
    ///   - earlierPurchases: The use of purchases that were made on this device.
    /// - Throws: ``ShopError``. `noToken` if `token` throws or returns something else, `logInNeeded` if the server
    ///   refuses the token, `notAllowed` if its subject is the name of an account with a password. If only the restore
    ///   failed, the account is logged in, and ``run()`` tries again.
    public func logIn(
        token: @escaping @Sendable () async throws -> String, earlierPurchases: EarlierPurchases
    ) async throws(ShopError) {
        try await changingAccount { opened in
            let session = try await opened.accounts().client.logIn(with: token)
            try await enter(session, earlierPurchases, opened, renewingWith: token)
            try await synchronize(opened)
        }
    }

    /// Supplies the tokens of the account that ``logIn(token:earlierPurchases:)`` has logged in. Call it at each start
    /// of the app, before ``run()``. Needs no network, and logs no account in.
    ///
    /// Without it, purchases on this device count as before, but once the last token has expired, syncs fail with the
    /// kind `logInNeeded`.
    public func resume(token: @escaping @Sendable () async throws -> String) {
        renewTokens(with: token)
        opened?.store.retrySync()
    }

    /// Deletes the account of the app's own issuer and its purchases, at the server and on all devices. This cannot be
    /// undone. The issuer's own account stays.
    ///
    /// The server requires a token that is at most five minutes old (`iat`): the closure is asked for a new one.
    ///
    /// - Throws: ``ShopError``. `notAllowed` if the token is older: let the user log in at the issuer again. After a
    ///   failure, calling it again completes it.
    public func deleteAccount() async throws(ShopError) {
        try await changingAccount { opened in
            guard let session = try await opened.accounts().tokens.session(), !opened.store.account.isGuest else {
                throw ShopError(.logInNeeded, "no account is logged in")
            }
            guard session.isIssued else {
                throw ShopError(.notAllowed, "the account has a password: use deleteAccount(password:)")
            }
            let source = tokenSource
            try await delete(opened) { (client, _) throws(AccountError) in
                try await client.erase(session, with: source)
            }
        }
    }

    /// Uses `source` for the tokens of the app's own issuer from now on.
    func renewTokens(with source: IssuedToken.Source?) {
        tokenSource = source
        opened?.tokens?.renewIssued(with: source)
    }
}
