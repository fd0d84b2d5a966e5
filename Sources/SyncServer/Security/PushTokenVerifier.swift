import Entitlements
package import SyncService

/// Verifies the tokens that Google Cloud Pub/Sub sends with push requests.
///
/// Every Google account can obtain a token for any audience. The service account of the subscription therefore decides:
/// it must be the token's `email`, and `email_verified` must be true.
package final class PushTokenVerifier: PushAuthentication {
    private let verifier: IssuerVerifier
    private let account: String

    /// - Parameters:
    ///   - issuer: the issuer of the tokens, their audience, and the issuer's keys. For Google the name is
    ///     `https://accounts.google.com` and the keys are at `https://www.googleapis.com/oauth2/v3/certs`.
    ///   - account: the email address of the subscription's service account.
    ///   - onError: called with a one-line message when the keys cannot be loaded.
    ///   - instant: the clock that measures the age of the issuer's keys.
    package init(
        _ issuer: ExternalIssuer, account: String,
        instant: @escaping @Sendable () -> ContinuousClock.Instant = { ContinuousClock.now },
        onError: @escaping @Sendable (String) -> Void
    ) {
        verifier = IssuerVerifier(issuer, instant: instant, onError: onError)
        self.account = account
    }

    /// Verifies a token. See `PushAuthentication`.
    package func verify(_ token: String, now: Int64) async throws(TokenRefusal) {
        let token = try WebToken(token)
        guard token.algorithm == "RS256" else { throw TokenRefusal("its algorithm is not RS256") }
        _ = try await verifier.verify(token, now: now)
        let (email, isVerified) = try token.claims { claims throws(InputError) in
            (try claims["email"]?.string(), try claims["email_verified"]?.bool())
        }
        guard isVerified == true else { throw TokenRefusal("its email address is not verified") }
        guard let email, email.utf8.elementsEqual(account.utf8) else {
            throw TokenRefusal("it is from another service account")
        }
    }
}
