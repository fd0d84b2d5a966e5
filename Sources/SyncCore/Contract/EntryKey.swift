#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#elseif canImport(Darwin)
import Darwin
#endif

/// The name of an entry in a backend: 1 to 1,024 bytes of UTF-8 without control characters.
///
/// Keys are compared, hashed and ordered as bytes. Swift's `==` on strings equates canonically equivalent spellings
/// ("é" as one scalar and as two); a store must not, or two keys would share one value. A slash separates levels for
/// people and for file names; nothing else about it is special.
///
/// ```swift
/// let key = try EntryKey("accounts/alice/ledger")
/// ```
public struct EntryKey: Sendable, CustomStringConvertible {
    /// The key's text, as it was given.
    public let text: String

    /// The longest key that a backend must take, in bytes of UTF-8.
    public static let maximumByteCount = 1_024

    /// Makes a key of `text`.
    ///
    /// - Throws: ``BackendError`` of kind ``BackendError/Kind/invalidKey`` when `text` is empty, longer than
    ///   ``maximumByteCount`` bytes, or contains a control character (U+0000–U+001F, U+007F).
    public init(_ text: String) throws(BackendError) {
        let count = text.utf8.count
        guard (1...Self.maximumByteCount).contains(count) else {
            throw BackendError(
                .invalidKey, message: "a key has 1 to \(Self.maximumByteCount) bytes, this one has \(count)")
        }
        guard text.withBytes({ bytes in bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7F } }) else {
            throw BackendError(.invalidKey, message: "a key has no control characters, this one has")
        }
        self.text = text
    }

    /// Whether the key begins with the bytes of `prefix`.
    public func hasPrefix(_ prefix: String) -> Bool {
        text.withBytes { bytes in
            prefix.withBytes { prefix in
                prefix.count <= bytes.count
                    && UnsafeBufferPointer(rebasing: bytes[..<prefix.count]).hasSameBytes(as: prefix)
            }
        }
    }

    /// The key's text.
    public var description: String { text }
}

extension EntryKey: Hashable, Comparable {
    /// Whether both keys are the same bytes.
    public static func == (left: EntryKey, right: EntryKey) -> Bool {
        left.text.withBytes { bytes in right.text.withBytes { bytes.hasSameBytes(as: $0) } }
    }

    /// Whether `left` comes before `right`, byte by byte.
    public static func < (left: EntryKey, right: EntryKey) -> Bool {
        left.text.withBytes { bytes in right.text.withBytes { bytes.lexicographicallyPrecedes($0) } }
    }

    /// Hashes the key's bytes.
    public func hash(into hasher: inout Hasher) {
        text.withBytes { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}

extension String {
    /// What `body` makes of the bytes of UTF-8: in one piece, where a walk through the characters takes ten times as
    /// long.
    fileprivate func withBytes<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        utf8.withContiguousStorageIfAvailable(body) ?? Array(utf8).withUnsafeBufferPointer(body)
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// Whether both have the same bytes, at the speed of memcmp: keys of one store begin alike for long.
    fileprivate func hasSameBytes(as other: Self) -> Bool {
        guard count == other.count, let left = baseAddress, let right = other.baseAddress else {
            return isEmpty && other.isEmpty
        }
        return memcmp(left, right, count) == 0
    }
}
