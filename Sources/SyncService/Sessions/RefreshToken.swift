#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// A refresh token: whose session, its secret, and how many came before it. A seal by the server's own key says that it
/// made it, so that one that is long used up tells of a copy, and one that anybody made up tells of nothing.
struct RefreshToken: Hashable {
    var account: String
    var session: String
    var generation: Int64
    var secret: [UInt8]
    private var seal: [UInt8]

    /// The longest token that is looked at, in bytes.
    private static let maximumByteCount = 1_024

    /// A token that the server makes.
    init(
        account: String, session: String, generation: Int64, secret: [UInt8], _ cryptography: any ServiceCryptography,
        key: [UInt8]
    ) {
        (self.account, self.session, self.generation, self.secret) = (account, session, generation, secret)
        seal = []
        seal = cryptography.authenticationCode(of: sealed, key: key)
    }

    /// Reads a token, which need not be one of this server's: ``isGenuine(_:key:)`` tells.
    init?(_ text: String) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard text.utf8.count <= Self.maximumByteCount, parts.count == 5, let name = Self.data(parts[0]),
            let account = String(validating: name, as: UTF8.self), let secret = Self.data(parts[1]),
            secret.count == 32, parts[2].utf8.count == 32,
            parts[2].utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }),
            let generation = Int64(parts[3]), generation >= 0, parts[3] == "\(generation)",
            let seal = Self.data(parts[4]), seal.count == 32
        else { return nil }
        (self.account, self.session, self.generation) = (account, String(parts[2]), generation)
        (self.secret, self.seal) = (Array(secret), Array(seal))
    }

    /// As it is sent.
    var text: String { statement + "." + Self.base64URL(Data(seal)) }

    /// Whether the server that has `key` made it.
    func isGenuine(_ cryptography: any ServiceCryptography, key: [UInt8]) -> Bool {
        // By digest, so that the time it takes tells nothing of the seal.
        let right = cryptography.authenticationCode(of: sealed, key: key)
        return cryptography.digest(of: right) == cryptography.digest(of: seal)
    }

    private var statement: String {
        [Self.base64URL(Data(account.utf8)), Self.base64URL(Data(secret)), session, "\(generation)"]
            .joined(separator: ".")
    }

    /// What is sealed: nothing else is ever authenticated by this key that begins so.
    private var sealed: [UInt8] { Array("refresh token ".utf8) + Array(statement.utf8) }

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
