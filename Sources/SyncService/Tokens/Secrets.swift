import Crypto
package import SyncCore

extension HostServices {
    /// Returns `count` bytes that are as unpredictable as ``randomBits``.
    package func randomBytes(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8(truncatingIfNeeded: randomBits()) }
    }
}

/// Returns HMAC-SHA-256 of `bytes` under `key`: 32 bytes.
func authenticationCode(of bytes: [UInt8], key: [UInt8]) -> [UInt8] {
    Array(HMAC<SHA256>.authenticationCode(for: bytes, using: SymmetricKey(data: key)))
}

extension [UInt8] {
    /// Compares two secrets. The time reveals nothing about them.
    package func isEqual(toSecret other: [UInt8]) -> Bool { SHA256.hash(data: self) == SHA256.hash(data: other) }
}
