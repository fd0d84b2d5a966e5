#if Sealed
internal import Crypto

/// A secret of 256 bits that values are sealed with.
///
/// ```swift
/// let key = try SealingKey(contentsOf: "/etc/example/store.key")  // made by: openssl rand -hex 32 > store.key
/// ```
public struct SealingKey: Sendable {
    let secret: SymmetricKey
    /// Names the key in what was sealed with it, and tells nothing about it: 8 bytes.
    let name: [UInt8]

    /// How many bytes a key has.
    public static let byteCount = 32

    /// A key of these 32 bytes: from a key store, or a random generator; never a password, which is guessed.
    ///
    /// - Throws: ``SealingKeyError`` when they are not 32, or all the same.
    public init(bytes: [UInt8]) throws(SealingKeyError) {
        guard bytes.count == Self.byteCount else {
            throw SealingKeyError("a key has \(Self.byteCount) bytes, not \(bytes.count)")
        }
        guard bytes.contains(where: { $0 != bytes[0] }) else {
            throw SealingKeyError("a key whose bytes are all the same is no secret")
        }
        secret = SymmetricKey(data: bytes)
        name = Self.derive(from: secret, salt: [], purpose: "entitlementsync key name", byteCount: 8)
            .withUnsafeBytes { Array($0) }
    }

    /// A new key, from the system's generator.
    public static func random() -> SealingKey {
        let bytes = SymmetricKey(size: .bits256).withUnsafeBytes { Array($0) }
        // 32 equal bytes come once in 2^248 times.
        do { return try SealingKey(bytes: bytes) } catch { return random() }
    }

    /// The key's bytes, for keeping it.
    public var bytes: [UInt8] { secret.withUnsafeBytes { Array($0) } }

    /// The key that seals one value: each has its own, so that no number of values is too many for one key.
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

/// The key that seals, and older ones that what they sealed can still be opened with.
public struct SealingKeys: Sendable {
    /// Seals what is written from now on.
    public var current: SealingKey
    /// Open what was sealed before.
    public var previous: [SealingKey]

    /// A key, and older ones.
    public init(_ current: SealingKey, previous: [SealingKey] = []) {
        self.current = current
        self.previous = previous
    }

    subscript(name: [UInt8]) -> SealingKey? {
        ([current] + previous).first { $0.name == name }
    }
}

/// A key cannot be used, and why. The text never holds a part of the key.
public struct SealingKeyError: Error, Sendable, CustomStringConvertible {
    /// One line for a person.
    public let description: String

    init(_ description: String) { self.description = description }
}
#endif
