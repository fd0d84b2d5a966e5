import Entitlements

/// Verifies tokens by the rules of the issuer that each of them names. The token chooses the key, but not the algorithm
/// or any other rule.
package struct TokenVerifier: Sendable {
    let server: String
    let issuers: [any TokenIssuer]
    let onRefusal: @Sendable (RefusedToken) -> Void

    /// - Parameters:
    ///   - server: The issuer and audience of the server's own tokens.
    ///   - issuers: Further issuers whose tokens are accepted. Their names differ from each other and from `server`.
    ///   - onRefusal: Called for each refused token, if there are further issuers, but not for tokens of the server.
    package init(
        server: String, issuers: [any TokenIssuer] = [],
        onRefusal: @escaping @Sendable (RefusedToken) -> Void = { _ in }
    ) {
        (self.server, self.issuers, self.onRefusal) = (server, issuers, onRefusal)
    }

    /// Verifies a token.
    ///
    /// - Parameters:
    ///   - keys: The server's keys.
    ///   - now: The time, in milliseconds since 1970 UTC.
    package func verify(
        _ text: String, keys: [SigningKey], now: Int64
    ) async throws(TokenRefusal) -> VerifiedToken {
        var refused = RefusedToken()
        do throws(TokenRefusal) {
            let token = try WebToken(text)
            (refused.key, refused.algorithm) = (token.key, token.algorithm)
            guard token.key != nil else { throw TokenRefusal("it does not name a key") }
            let name = try token.claims { claims throws(InputError) in try claims.required("iss").string() }
            refused.issuer = name
            if name == server {
                return .own(try AccessClaims(verifying: token, keys: keys, server: server, now: now))
            }
            guard let issuer = issuers.first(where: { $0.name == name }) else {
                throw TokenRefusal("its issuer is not accepted by this server")
            }
            return try await issuer.verify(token, now: now)
        } catch {
            refused.reason = error.reason
            // Devices refresh expired tokens of this server all the time.
            if !issuers.isEmpty, refused.issuer != server { onRefusal(refused) }
            throw error
        }
    }
}
