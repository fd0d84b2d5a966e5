#if Sealed
internal import Crypto

/// A 256-bit secret that seals values.
///
/// ```swift
/// let key = try SealingKey(contentsOf: "/etc/example/store.key")  // created by: openssl rand -hex 32 > store.key
/// ```
public struct SealingKey: Sendable {
    let secret: SymmetricKey
    /// Identifies the key in sealed values without revealing it: 8 bytes.
    let name: [UInt8]

    /// The length of a key in bytes.
    public static let byteCount = 32

    /// Creates a key from 32 bytes of a key store or a random generator. Never use a password, which can be guessed.
    ///
    /// - Throws: ``SealingKeyError`` if the number of bytes is not 32, or if all of them are equal.
    public init(bytes: [UInt8]) throws(SealingKeyError) {
        guard bytes.count == Self.byteCount else {
            throw SealingKeyError("a key must have \(Self.byteCount) bytes, not \(bytes.count)")
        }
        guard bytes.contains(where: { $0 != bytes[0] }) else {
            throw SealingKeyError("a key must not consist of equal bytes")
        }
        secret = SymmetricKey(data: bytes)
        name = Self.derive(from: secret, salt: [], purpose: "entitlementsync key name", byteCount: 8)
            .withUnsafeBytes { Array($0) }
    }

    /// Creates a key with the random generator of the system.
    public static func random() -> SealingKey {
        let bytes = SymmetricKey(size: .bits256).withUnsafeBytes { Array($0) }
        // 32 equal bytes have a probability of 2^-248.
        do { return try SealingKey(bytes: bytes) } catch { return random() }
    }

    /// The bytes of the key, for storing it.
    public var bytes: [UInt8] { secret.withUnsafeBytes { Array($0) } }

    /// Derives the key of one value. Separate keys remove the limit on the number of values for one key.
    func valueKey(salt: [UInt8]) -> SymmetricKey {
        Self.derive(from: secret, salt: salt, purpose: "entitlementsync value", byteCount: 32)
    }

    private static func derive(
        from secret: SymmetricKey, salt: [UInt8], purpose: String, byteCount: Int
    ) -> SymmetricKey {
        HKDF<SHA256>.deriveKey(
            inputKeyMaterial: secret, salt: salt, info: Array(purpose.utf8), outputByteCount: byteCount)
    }
}

/// The current key, and previous keys for existing values.
public struct SealingKeys: Sendable {
    /// The key that seals new values.
    public var current: SealingKey
    /// Keys that open values sealed earlier.
    public var previous: [SealingKey]

    /// Creates a set of keys.
    public init(_ current: SealingKey, previous: [SealingKey] = []) {
        self.current = current
        self.previous = previous
    }

    subscript(name: [UInt8]) -> SealingKey? {
        ([current] + previous).first { $0.name == name }
    }
}

/// The reason why a key cannot be used. The text never contains a part of the key.
public struct SealingKeyError: Error, Sendable, CustomStringConvertible {
    /// A description in one line.
    public let description: String

    init(_ description: String) { self.description = description }
}
#endif
