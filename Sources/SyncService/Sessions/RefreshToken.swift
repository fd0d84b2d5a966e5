import Crypto
import Entitlements

/// A refresh token: the session, a secret, and the number of tokens before it. It contains an authentication code under
/// the server's key. The code distinguishes a token that was used long ago, which reveals a copy, from a forged one,
/// which reveals nothing.
struct RefreshToken: Hashable {
    var account: String
    var session: String
    var generation: Int64
    var secret: [UInt8]
    private var code: [UInt8]

    /// The longest token that is parsed, in bytes.
    private static let maximumByteCount = 1_024

    /// A token that the server issues.
    init(account: String, session: String, generation: Int64, secret: [UInt8], key: [UInt8]) {
        (self.account, self.session, self.generation, self.secret) = (account, session, generation, secret)
        code = []
        code = authenticationCode(of: authenticated, key: key)
    }

    /// Parses a token, which may be a forgery; see ``isAuthentic(key:)``.
    init?(_ text: String) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard text.utf8.count <= Self.maximumByteCount, parts.count == 5, let name = Base64.url.decode(parts[0].utf8),
            let account = String(validating: name, as: UTF8.self), let secret = Base64.url.decode(parts[1].utf8),
            secret.count == 32, parts[2].utf8.count == 32,
            parts[2].utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }),
            let generation = Int64(parts[3]), generation >= 0, parts[3] == "\(generation)",
            let code = Base64.url.decode(parts[4].utf8), code.count == 32
        else { return nil }
        (self.account, self.session, self.generation) = (account, String(parts[2]), generation)
        (self.secret, self.code) = (secret, code)
    }

    /// The text form for clients.
    var text: String { statement + "." + Base64.url.encode(code) }

    /// Returns `true` if a server with `key` issued the token.
    func isAuthentic(key: [UInt8]) -> Bool {
        HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: authenticated, using: SymmetricKey(data: key))
    }

    private var statement: String {
        [Base64.url.encode(account.utf8), Base64.url.encode(secret), session, "\(generation)"]
            .joined(separator: ".")
    }

    /// The authenticated bytes. No other message under this key begins with this prefix.
    private var authenticated: [UInt8] { Array("refresh token ".utf8) + Array(statement.utf8) }
}
