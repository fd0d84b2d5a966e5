import HTTPTypes
import JWTKit
import SyncCore
import SyncService

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// A service account of Google Cloud: the credentials that obtain access tokens (RFC 7523).
struct ServiceAccount: Sendable {
    private struct File: Decodable {
        var type: String
        var clientEmail: String
        var privateKeyID: String
        var privateKey: String
        var tokenURI: String

        private enum CodingKeys: String, CodingKey {
            case type
            case clientEmail = "client_email"
            case privateKeyID = "private_key_id"
            case privateKey = "private_key"
            case tokenURI = "token_uri"
        }
    }

    private static let scope = "https://www.googleapis.com/auth/androidpublisher"
    /// The lifetime of a grant in seconds. Google accepts at most 60 minutes.
    private static let grantLifetime: Int64 = 3_600

    let email: String
    private let keyID: String
    private let key: Insecure.RSA.PrivateKey
    private let tokenURL: String

    /// - Parameter json: the key file of the account, as Google Cloud exports it.
    init(json: [UInt8]) throws(StoreAPIError) {
        guard StrictJSON.isUnambiguous(json), let file = try? JSONDecoder().decode(File.self, from: Data(json)),
            file.type == "service_account", !file.clientEmail.isEmpty
        else {
            throw StoreAPIError(
                .invalidArgument,
                "the service account must be the JSON key file of Google Cloud with type, client_email, private_key_id,"
                    + " private_key and token_uri")
        }
        do {
            key = try Insecure.RSA.PrivateKey(pem: file.privateKey)
        } catch {
            // The cause is left out, since it could quote a part of the key.
            throw StoreAPIError(
                .invalidArgument,
                "the private_key of \(file.clientEmail) must be PEM with an RSA key of 2,048 bits or more")
        }
        _ = try StoreAPIConnection.request(.post, file.tokenURI, setting: "the token_uri of \(file.clientEmail)")
        (email, keyID, tokenURL) = (file.clientEmail, file.privateKeyID, file.tokenURI)
    }

    private struct Grant: JWTPayload {
        var iss: String
        var scope: String
        var aud: String
        var iat: Int64
        var exp: Int64

        // Only Google verifies this token.
        func verify(using algorithm: some JWTAlgorithm) throws {}
    }

    private struct Answer: Decodable {
        var accessToken: String
        var expiresIn: Int64
        var tokenType: String?

        private enum CodingKeys: String, CodingKey {
            case accessToken = "access_token"
            case expiresIn = "expires_in"
            case tokenType = "token_type"
        }
    }

    /// Obtains an access token and its lifetime in seconds.
    func accessToken(over connection: StoreAPIConnection) async throws(StoreAPIError) -> (String, Int64) {
        let now = connection.host.now() / 1_000
        let grant = Grant(iss: email, scope: Self.scope, aud: tokenURL, iat: now, exp: now + Self.grantLifetime)
        let assertion: String
        do {
            let keys = JWTKeyCollection()
            await keys.add(rsa: key, digestAlgorithm: .sha256)
            assertion = try await keys.sign(grant, header: ["kid": .string(keyID), "typ": "JWT"])
        } catch {
            throw StoreAPIError(.invalidArgument, "the key of \(email) cannot sign a token: \(error)")
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
        let answer = try connection.decode(Answer.self, body)
        let isUsable = answer.accessToken.utf8.allSatisfy { (0x21...0x7E).contains($0) }
        guard !answer.accessToken.isEmpty, isUsable, answer.expiresIn > 0,
            answer.tokenType.map({ $0.lowercased() == "bearer" }) ?? true
        else { throw StoreAPIError(.malformed, "Google answered with an access token that cannot be used") }
        return (answer.accessToken, answer.expiresIn)
    }
}
