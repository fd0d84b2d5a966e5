import HTTPTypes
import SyncCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// A token of the app's own issuer, which the server accepts beside its own (`syncd serve --issuer`).
///
/// The server verifies it. This device reads only the subject, which is the name of the account, and the expiry.
package struct IssuedToken: Hashable, Sendable {
    /// A closure of the app that fetches a current token.
    package typealias Source = @Sendable () async throws -> String

    private struct Payload: Decodable {
        var sub: String
        var exp: Double
    }

    /// The token, a signed JSON Web Token.
    package let text: String
    /// The subject, which is the name of the account.
    package let account: String
    /// The remaining lifetime. An hour if the token has expired by the clock of this device: the token or the clock is
    /// wrong, and the server decides which.
    package let lifetime: Duration

    /// Reads a token.
    ///
    /// - Parameters:
    ///   - text: The token.
    ///   - now: The current time in milliseconds since 1970 UTC.
    /// - Throws: ``AccountError`` of kind `noToken` if `text` is no JSON Web Token with `sub` and `exp`.
    package init(_ text: String, now: Int64) throws(AccountError) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let bytes = Self.decoded(parts[1]),
            let payload = try? JSONDecoder().decode(Payload.self, from: bytes)
        else {
            throw AccountError(
                .noToken, "the app's token is no JSON Web Token with the claims sub and exp: pass the access token",
                isTransient: false)
        }
        self.text = text
        account = payload.sub
        let remaining = payload.exp - Double(now) / 1_000
        lifetime = .seconds(remaining > 0 ? max(1, Int64(min(remaining, 86_400))) : 3_600)
    }

    /// Fetches a token.
    ///
    /// - Throws: ``AccountError`` of kind `noToken`, `cancelled`, or `sessionOver` if there is no closure.
    init(from source: Source?, host: HostServices) async throws(AccountError) {
        guard let source else {
            throw AccountError(
                .sessionOver,
                "the account is one of the app's own issuer: pass the closure for its tokens at each start")
        }
        let text: String
        do { text = try await source() } catch let error as AccountError { throw error } catch {
            throw error is CancellationError
                ? AccountError(.cancelled, "the task was cancelled")
                : AccountError(.noToken, "the app gave no token: \(error)")
        }
        try self.init(text, now: host.now())
    }

    private static func decoded(_ part: Substring) -> Data? {
        let standard = part.replacing("-", with: "+").replacing("_", with: "/")
        return Data(base64Encoded: standard + String(repeating: "=", count: (4 - standard.utf8.count % 4) % 4))
    }

    /// The session of the token. It has no refresh token.
    func session(incarnation: String) -> ServerSession {
        ServerSession(
            account: account, incarnation: incarnation, accessToken: text, lifetime: lifetime, refreshToken: "")
    }
}

extension ServerSession {
    /// True if the access token comes from the app's own issuer.
    package var isIssued: Bool { refreshToken.isEmpty }
}

extension AccountClient {
    /// Starts a session of an account of the app's own issuer. The server creates the account for its first token, and
    /// again if it was erased.
    ///
    /// - Parameter source: A closure of the app that fetches a current token.
    /// - Throws: ``AccountError`` of kind `noToken`, `sessionOver` (the server refuses the token), `notAllowed` (its
    ///   subject is the name of an account with a password), `tooManyGuesses`, `unreachable`, `server` or `cancelled`.
    package func logIn(with source: @escaping IssuedToken.Source) async throws(AccountError) -> ServerSession {
        let token = try await IssuedToken(from: source, host: host)
        do throws(AccountError) {
            var account = try await ownAccount { _ in token.text }
            if account.created == nil {
                account = try await answer(.post, "/v1/accounts", nil) { _ in token.text }
            }
            guard account.name.utf8.elementsEqual(token.account.utf8) else {
                throw AccountError(.server, "\(server): the answer names another account than the token")
            }
            return token.session(incarnation: account.incarnation)
        } catch {
            guard error.kind == .sessionOver else { throw error }
            throw AccountError(
                .sessionOver, "\(server) refused the app's token, for a reason that its log has: \(error.message)")
        }
    }

    /// Erases the account of `session` permanently, as ``erase(password:token:)`` does.
    ///
    /// - Parameters:
    ///   - session: The session of an account of the app's own issuer.
    ///   - source: A closure of the app that fetches a token, which must be at most five minutes old; `nil` if the app
    ///     has passed none.
    /// - Throws: ``AccountError`` of kind `notAllowed` (the token is older, or has no `iat`, or the account was erased
    ///   before), and as ``logIn(with:)``.
    package func erase(_ session: ServerSession, with source: IssuedToken.Source?) async throws(AccountError) {
        let token = try await IssuedToken(from: source, host: host)
        let account = try await ownAccount { _ in token.text }
        guard account.name.utf8.elementsEqual(session.account.utf8) else {
            throw AccountError(
                .sessionOver, "the app's token is that of \"\(account.name)\"; log in to the account again")
        }
        guard account.incarnation == session.incarnation else {
            throw AccountError(.notAllowed, "the account was deleted before, and has been created again")
        }
        _ = try await exchange(.post, "/v1/accounts/self/erasure") { _ in token.text }
    }
}
