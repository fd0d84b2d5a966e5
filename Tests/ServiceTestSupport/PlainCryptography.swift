import Checksums
package import Entitlements
package import SyncCore
package import SyncService

/// A fast and deterministic replacement for cryptography, for tests of the code above it. It protects nothing.
package struct PlainCryptography: ServiceCryptography {
    private let host: HostServices
    /// Runs before the result of a password check is returned.
    package var afterVerifying: @Sendable () async -> Void = {}
    /// Runs before a password is hashed.
    package var beforeHashing: @Sendable () async -> Void = {}
    /// The issuer whose tokens are accepted in addition to the server's own: `external|SUBJECT|EXPIRES` or
    /// `external|SUBJECT|EXPIRES|ISSUED`, in seconds.
    private let issuer: String?

    package init(host: HostServices = .system, issuer: String? = nil) { (self.host, self.issuer) = (host, issuer) }

    package func hash(password: [UInt8], peer: String) async throws(CryptographyError) -> String {
        await beforeHashing()
        return text(digest(of: password))
    }

    package func verify(password: [UInt8], hash: String, peer: String) async throws(CryptographyError) -> Bool {
        await afterVerifying()
        return text(digest(of: password)) == hash
    }

    package func digest(of bytes: [UInt8]) -> [UInt8] {
        (1...4).flatMap { seed in
            withUnsafeBytes(of: XXHash64.digest(of: bytes, seed: UInt64(seed)).bigEndian) { Array($0) }
        }
    }

    package func authenticationCode(of bytes: [UInt8], key: [UInt8]) -> [UInt8] { digest(of: key + bytes) }

    package func randomBytes(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8(truncatingIfNeeded: host.randomBits()) }
    }

    package func makeSigningKey() -> [UInt8] { randomBytes(32) }

    package func sign(_ claims: AccessClaims, with key: SigningKey) async throws(CryptographyError) -> String {
        let parts = [
            claims.account, claims.incarnation, claims.session, claims.server, "\(claims.issuedAt)",
            "\(claims.expiresAt)", key.id,
        ].map { text(Array($0.utf8)) }
        let statement = parts.joined(separator: ".")
        return statement + "." + text(authenticationCode(of: Array(statement.utf8), key: key.bytes))
    }

    package func publicKey(of key: SigningKey) throws(CryptographyError) -> [UInt8] { digest(of: key.bytes) }

    package func sign(_ payload: [UInt8], type: String, with key: SigningKey) throws(CryptographyError) -> String {
        let statement = [Array(type.utf8), Array(key.id.utf8), payload].map(text).joined(separator: ".")
        return statement + "." + text(authenticationCode(of: Array(statement.utf8), key: key.bytes))
    }

    package func verify(
        _ token: String, type: String, keys: [SigningKey]
    ) throws(TokenRefusal) -> (payload: [UInt8], key: String) {
        let parts = token.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 4, plain(parts[0]) == type, let key = keys.first(where: { $0.id == plain(parts[1]) }),
            let payload = plain(parts[2]),
            text(authenticationCode(of: Array(parts[..<3].joined(separator: ".").utf8), key: key.bytes)) == parts[3]
        else { throw TokenRefusal("forged") }
        return (Array(payload.utf8), key.id)
    }

    /// The members of the grant on lines, which no verifier accepts.
    package func sign(
        _ grant: SignedGrant, with key: GrantKey, by root: SigningKey
    ) async throws(CryptographyError) -> String {
        let items = grant.items.map { "\($0.entitlement)=\($0.until.map { "\($0)" } ?? "-")" }
        return ([grant.account, grant.device, grant.environment.rawValue, "\(grant.expires)"] + items)
            .joined(separator: "\n")
    }

    package func verify(_ token: String, keys: [SigningKey], now: Int64) async throws(TokenRefusal) -> VerifiedToken {
        if let issuer, token.hasPrefix("external|") {
            let parts = token.split(separator: "|").map(String.init)
            guard (3...4).contains(parts.count), let expiresAt = Int64(parts[2]) else {
                throw TokenRefusal("malformed")
            }
            guard expiresAt * 1_000 > now else { throw TokenRefusal("expired", isExpired: true) }
            let issuedAt = parts.count > 3 ? Int64(parts[3]) : nil
            return .external(issuer: issuer, subject: parts[1], issuedAt: issuedAt, expiresAt: expiresAt)
        }
        let parts = token.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 8, let id = plain(parts[6]), let key = keys.first(where: { $0.id == id }) else {
            throw TokenRefusal("unknown key")
        }
        let statement = parts[..<7].joined(separator: ".")
        guard text(authenticationCode(of: Array(statement.utf8), key: key.bytes)) == parts[7],
            let account = plain(parts[0]), let incarnation = plain(parts[1]), let session = plain(parts[2]),
            let server = plain(parts[3]), let issuedAt = plain(parts[4]).flatMap(Int64.init),
            let expiresAt = plain(parts[5]).flatMap(Int64.init)
        else { throw TokenRefusal("forged") }
        guard expiresAt * 1_000 > now else { throw TokenRefusal("expired", isExpired: true) }
        return .own(
            AccessClaims(
                account: account, incarnation: incarnation, session: session, server: server, issuedAt: issuedAt,
                expiresAt: expiresAt))
    }

    private func text(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    private func plain(_ text: String) -> String? {
        let digits = Array(text.utf8)
        guard digits.count.isMultiple(of: 2) else { return nil }
        let bytes = stride(from: 0, to: digits.count, by: 2).compactMap {
            UInt8(String(decoding: digits[$0...$0 + 1], as: UTF8.self), radix: 16)
        }
        return bytes.count * 2 == digits.count ? String(validating: bytes, as: UTF8.self) : nil
    }
}
