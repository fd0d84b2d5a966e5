#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

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
    init(
        account: String, session: String, generation: Int64, secret: [UInt8], _ cryptography: any ServiceCryptography,
        key: [UInt8]
    ) {
        (self.account, self.session, self.generation, self.secret) = (account, session, generation, secret)
        code = []
        code = cryptography.authenticationCode(of: authenticated, key: key)
    }

    /// Parses a token, which may be a forgery; see ``isAuthentic(_:key:)``.
    init?(_ text: String) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard text.utf8.count <= Self.maximumByteCount, parts.count == 5, let name = Self.data(parts[0]),
            let account = String(validating: name, as: UTF8.self), let secret = Self.data(parts[1]),
            secret.count == 32, parts[2].utf8.count == 32,
            parts[2].utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }),
            let generation = Int64(parts[3]), generation >= 0, parts[3] == "\(generation)",
            let code = Self.data(parts[4]), code.count == 32
        else { return nil }
        (self.account, self.session, self.generation) = (account, String(parts[2]), generation)
        (self.secret, self.code) = (Array(secret), Array(code))
    }

    /// The text form for clients.
    var text: String { statement + "." + Self.base64URL(Data(code)) }

    /// Returns `true` if a server with `key` issued the token.
    func isAuthentic(_ cryptography: any ServiceCryptography, key: [UInt8]) -> Bool {
        // Digests are compared, so that the time reveals nothing about the code.
        let right = cryptography.authenticationCode(of: authenticated, key: key)
        return cryptography.digest(of: right) == cryptography.digest(of: code)
    }

    private var statement: String {
        [Self.base64URL(Data(account.utf8)), Self.base64URL(Data(secret)), session, "\(generation)"]
            .joined(separator: ".")
    }

    /// The authenticated bytes. No other message under this key begins with this prefix.
    private var authenticated: [UInt8] { Array("refresh token ".utf8) + Array(statement.utf8) }

    private static func base64URL(_ data: Data) -> String {
        String(
            data.base64EncodedString().compactMap { character in
                switch character {
                case "+": "-"
                case "/": "_"
                case "=": nil
                default: character
                }
            })
    }

    private static func data(_ text: Substring) -> Data? {
        let plain = text.map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 }
        return Data(base64Encoded: String(plain) + String(repeating: "=", count: (4 - plain.count % 4) % 4))
    }
}
