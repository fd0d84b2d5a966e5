#if Evidence
internal import Crypto
import Entitlements

/// Returns the SHA-256 digest of a text as 64 hexadecimal digits.
package func hexadecimalDigest(of text: String) -> String { hexadecimalDigest(of: Array(text.utf8)) }

/// Returns the SHA-256 digest of `bytes` as 64 hexadecimal digits.
package func hexadecimalDigest(of bytes: [UInt8]) -> String { SHA256.hash(data: bytes).hexadecimal }
#endif
