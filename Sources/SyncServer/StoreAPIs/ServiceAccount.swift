import Crypto
import CryptoExtras
import Entitlements
import HTTPTypes
import SyncCore
import SyncService

/// A service account of Google Cloud: the credentials that obtain access tokens (RFC 7523).
struct ServiceAccount: Sendable {
    private static let scope = "https://www.googleapis.com/auth/androidpublisher"
    /// The lifetime of an assertion in seconds. Google accepts at most 60 minutes.
    private static let lifetime: Int64 = 3_600

    let email: String
    private let keyID: String
    private let signer: TokenSigner
    private let tokenURL: String

    /// - Parameter json: the key file of the account, as Google Cloud exports it.
    init(json: [UInt8]) throws(StoreAPIError) {
        let (kind, pem): (String, String)
        do {
            let file = try JSONReader(parsing: json).object()
            (kind, pem) = (try file.required("type").string(), try file.required("private_key").string())
            email = try file.required("client_email").string()
            keyID = try file.required("private_key_id").string()
            tokenURL = try file.required("token_uri").string()
        } catch {
            throw Self.badFile
        }
        guard kind == "service_account", !email.isEmpty else { throw Self.badFile }
        do {
            let key = try _RSA.Signing.PrivateKey(pemRepresentation: pem)
            signer = TokenSigner("RS256", id: keyID) { bytes in
                Array(
                    try key.signature(for: SHA256.hash(data: bytes), padding: .insecurePKCS1v1_5).rawRepresentation)
            }
        } catch {
            // The cause is left out, since it could quote a part of the key.
            throw StoreAPIError(
                .invalidArgument, "the private_key of \(email) must be PEM with an RSA key of 2,048 bits or more")
        }
        _ = try StoreAPIConnection.request(.post, tokenURL, setting: "the token_uri of \(email)")
    }

    private static let badFile = StoreAPIError(
        .invalidArgument,
        "the service account must be the JSON key file of Google Cloud with type, client_email, private_key_id,"
            + " private_key and token_uri")

    /// Obtains an access token and its lifetime in seconds.
    func accessToken(over connection: StoreAPIConnection) async throws(StoreAPIError) -> (String, Int64) {
        let now = connection.host.now() / 1_000
        let claims = JSON.object([
            ("iss", .string(email)), ("scope", .string(Self.scope)), ("aud", .string(tokenURL)), ("iat", .number(now)),
            ("exp", .number(now + Self.lifetime)),
        ])
        let assertion: String
        do throws(CryptographyError) { assertion = try signer.sign(claims) } catch {
            throw StoreAPIError(.invalidArgument, "the key of \(email) \(error.reason)")
        }
        var request = try StoreAPIConnection.request(.post, tokenURL, setting: "the token_uri of \(email)")
        request.headerFields[.contentType] = "application/x-www-form-urlencoded"
        let form = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=\(assertion)"
        let body = try await connection.send(.init(request: request, body: Array(form.utf8))) { status, problem in
            guard status == 400 || status == 401 || status == 403 else { return nil }
            return StoreAPIError(
                .unauthorized, status: status,
                "Google rejects the service account \(email)\(problem); check that its key \(keyID) is not deleted or"
                    + " disabled, and that this machine's clock is right")
        }
        let (token, expiresIn, type) = try connection.read(body) { answer throws(InputError) in
            (
                try answer.required("access_token").string(), try answer.required("expires_in").integer(),
                try answer["token_type"]?.string() ?? "Bearer"
            )
        }
        guard !token.isEmpty, token.utf8.allSatisfy({ (0x21...0x7E).contains($0) }), expiresIn > 0,
            type.lowercased() == "bearer"
        else { throw StoreAPIError(.malformed, "Google answered with an access token that cannot be used") }
        return (token, expiresIn)
    }
}
