import HTTPTypes

extension AccountClient {
    private struct TokenBody: Decodable { var token: String }

    /// Fetches the token by which stores name the account. The server creates it at the first request.
    ///
    /// Pass it to the store with each purchase: as `appAccountToken` to StoreKit, as `obfuscatedAccountId` to Google
    /// Play, as `client_reference_id` to Stripe. A notification of the store then finds the account, even if the app
    /// never reports the purchase.
    ///
    /// - Parameter token: an access token of the account.
    /// - Returns: A random UUID in lower case. It is not a secret, and names nothing outside this server.
    /// - Throws: ``AccountError`` of kind `sessionOver`, `notAllowed` (the account was erased), `unreachable` or
    ///   `server`.
    public func accountToken(token: @escaping HTTPBackend.Token) async throws(AccountError) -> String {
        let body: TokenBody = try await answer(.get, "/v1/accounts/self/token", nil, token: token)
        return body.token
    }

    /// Registers a token that the app passed to the store before it knew this server.
    ///
    /// - Parameters:
    ///   - accountToken: a UUID.
    ///   - token: an access token of the account.
    /// - Throws: as ``accountToken(token:)``, and ``AccountError`` of kind `invalid` for a text that is no UUID, or
    ///   `nameTaken` if the token names another account.
    public func register(accountToken: String, token: @escaping HTTPBackend.Token) async throws(AccountError) {
        _ = try await exchange(.post, "/v1/accounts/self/token", ["token": .text(accountToken)], token: token)
    }
}
