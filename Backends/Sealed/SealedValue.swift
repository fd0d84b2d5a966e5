#if Sealed
internal import Crypto
internal import SyncCore

#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif

/// The format of a sealed value: `ESV1`, the name of the key (8 bytes), a salt (16), a nonce (12), the AES-256-GCM
/// ciphertext and the tag (16). The bytes before the ciphertext and the entry key are authenticated as well.
enum SealedValue {
    private static let head = Array("ESV".utf8)
    private static let format = UInt8(ascii: "1")
    private static let (nameEnd, saltEnd, nonceEnd, tagByteCount) = (12, 28, 40, 16)

    /// The number of bytes by which sealing lengthens a value.
    static let overhead = nonceEnd + tagByteCount

    static func seal(
        _ value: [UInt8], under key: EntryKey, with secret: SealingKey, using generator: inout HostRandomness
    ) throws(BackendError) -> [UInt8] {
        let salt = generator.bytes(count: 16)
        let nonce = generator.bytes(count: 12)
        let header = head + [format] + secret.name + salt + nonce
        do {
            let box = try AES.GCM.seal(
                value, using: secret.valueKey(salt: salt), nonce: AES.GCM.Nonce(data: nonce),
                authenticating: authenticated(header, key))
            return header + box.ciphertext + box.tag
        } catch {
            throw BackendError(.other, key: key, message: "the value cannot be sealed", cause: error)
        }
    }

    static func open(_ sealed: [UInt8], under key: EntryKey, with keys: SealingKeys) throws(BackendError) -> [UInt8] {
        guard sealed.starts(with: head), sealed.count > head.count else {
            throw BackendError(.damaged, key: key, message: "the value is not sealed, or its first bytes were changed")
        }
        guard sealed[head.count] == format else {
            throw BackendError(
                .newerFormat, key: key,
                message: "the value has a seal of a later version, or its fourth byte was changed")
        }
        guard sealed.count >= overhead else {
            throw BackendError(
                .damaged, key: key,
                message: "the sealed value ends after \(sealed.count) bytes, before its tag, so it was truncated")
        }
        guard let secret = keys[Array(sealed[4..<nameEnd])] else {
            throw BackendError(
                .permissionDenied, key: key,
                message: "the value was sealed with an unknown key, or its bytes 4 to 11 were changed")
        }
        do {
            let box = try AES.GCM.SealedBox(
                nonce: AES.GCM.Nonce(data: sealed[saltEnd..<nonceEnd]),
                ciphertext: sealed[nonceEnd..<(sealed.count - tagByteCount)], tag: sealed.suffix(tagByteCount))
            return Array(
                try AES.GCM.open(
                    box, using: secret.valueKey(salt: Array(sealed[nameEnd..<saltEnd])),
                    authenticating: authenticated(Array(sealed[..<nonceEnd]), key)))
        } catch {
            throw BackendError(
                .damaged, key: key,
                message: "the sealed value was changed, or belongs under another key of the store", cause: error)
        }
    }

    /// Returns `true` if a value is sealed with this key.
    static func isSealed(_ sealed: [UInt8], with secret: SealingKey) -> Bool {
        sealed.count >= overhead && Array(sealed[4..<nameEnd]) == secret.name
    }

    private static func authenticated(_ header: [UInt8], _ key: EntryKey) -> [UInt8] {
        header + Array(key.text.utf8)
    }
}

extension HostRandomness {
    fileprivate mutating func bytes(count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8(truncatingIfNeeded: next()) }
    }
}
#endif
