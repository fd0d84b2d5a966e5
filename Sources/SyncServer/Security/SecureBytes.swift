import Crypto

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Operations on secret bytes.
enum SecureBytes {
    /// Returns random bytes from the system's cryptographic generator.
    static func random(_ count: Int) -> [UInt8] {
        SymmetricKey(size: SymmetricKeySize(bitCount: max(1, count) * 8)).withUnsafeBytes { Array($0.prefix(count)) }
    }

    /// Compares in a time that does not depend on where the bytes differ. Returns `false` at once if the lengths
    /// differ.
    static func areEqual(_ one: [UInt8], _ other: [UInt8]) -> Bool {
        guard one.count == other.count else { return false }
        var difference: UInt8 = 0
        for index in one.indices { difference |= one[index] ^ other[index] }
        return difference == 0
    }
}

/// Base64 without padding (RFC 4648). Decoding accepts only the canonical text of a sequence of bytes.
enum UnpaddedBase64 {
    static func text(of bytes: [UInt8]) -> String {
        Data(bytes).base64EncodedString().replacing("=", with: "")
    }

    /// Encodes base64url, as JSON Web Tokens use it (RFC 7515, section 2).
    static func urlSafeText(of bytes: [UInt8]) -> String {
        text(of: bytes).replacing("+", with: "-").replacing("/", with: "_")
    }

    static func bytes(of text: some StringProtocol) -> [UInt8]? {
        let padded = String(text) + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
        guard let data = Data(base64Encoded: padded), self.text(of: Array(data)) == String(text) else { return nil }
        return Array(data)
    }

    /// Decodes base64url, as JSON Web Tokens use it (RFC 7515, section 2).
    static func bytes(ofURLSafe text: some StringProtocol) -> [UInt8]? {
        guard !text.utf8.contains(UInt8(ascii: "+")), !text.utf8.contains(UInt8(ascii: "/")) else { return nil }
        return bytes(of: String(text).replacing("-", with: "+").replacing("_", with: "/"))
    }
}
