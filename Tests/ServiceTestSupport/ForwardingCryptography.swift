package import Entitlements
package import SyncService

/// Cryptography that another one computes, except for what the conforming type implements itself.
package protocol ForwardingCryptography: ServiceCryptography {
    var base: any ServiceCryptography { get }
}

extension ForwardingCryptography {
    package func hash(password: [UInt8], peer: String) async throws(CryptographyError) -> String {
        try await base.hash(password: password, peer: peer)
    }

    package func verify(password: [UInt8], hash: String, peer: String) async throws(CryptographyError) -> Bool {
        try await base.verify(password: password, hash: hash, peer: peer)
    }

    package func digest(of bytes: [UInt8]) -> [UInt8] { base.digest(of: bytes) }

    package func authenticationCode(of bytes: [UInt8], key: [UInt8]) -> [UInt8] {
        base.authenticationCode(of: bytes, key: key)
    }

    package func randomBytes(_ count: Int) -> [UInt8] { base.randomBytes(count) }

    package func makeSigningKey() -> [UInt8] { base.makeSigningKey() }

    package func publicKey(of key: SigningKey) throws(CryptographyError) -> [UInt8] { try base.publicKey(of: key) }

    package func sign(_ claims: AccessClaims, with key: SigningKey) async throws(CryptographyError) -> String {
        try await base.sign(claims, with: key)
    }

    package func sign(_ payload: [UInt8], type: String, with key: SigningKey) throws(CryptographyError) -> String {
        try base.sign(payload, type: type, with: key)
    }

    package func verify(
        _ token: String, type: String, keys: [SigningKey]
    ) throws(TokenRefusal) -> (payload: [UInt8], key: String) {
        try base.verify(token, type: type, keys: keys)
    }

    package func sign(
        _ grant: SignedGrant, with key: GrantKey, by root: SigningKey
    ) async throws(CryptographyError) -> String {
        try await base.sign(grant, with: key, by: root)
    }

    package func verify(
        _ token: String, keys: [SigningKey], now: Int64
    ) async throws(TokenRefusal) -> VerifiedToken {
        try await base.verify(token, keys: keys, now: now)
    }
}
