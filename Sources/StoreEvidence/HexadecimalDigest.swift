#if Evidence
internal import Crypto

/// Returns the SHA-256 digest of a text as 64 hexadecimal digits.
func hexadecimalDigest(of text: String) -> String {
    SHA256.hash(data: Array(text.utf8)).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}
#endif
