#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#elseif canImport(Darwin)
import Darwin
#endif

/// The key of an entry in a backend: 1 to 1,024 bytes of UTF-8 without control characters.
///
/// Keys are compared, hashed and ordered by their bytes. Swift's `==` on strings treats canonically equivalent
/// spellings as equal ("é" as one scalar and as two); a store must not, or two keys would share one value. A slash
/// separates levels for readers and for file names, and has no other meaning.
///
/// ```swift
/// let key = try EntryKey("accounts/alice/ledger")
/// ```
public struct EntryKey: Sendable, CustomStringConvertible {
    /// The text of the key, as it was given.
    public let text: String

    /// The length in bytes of UTF-8 up to which every backend must accept keys.
    public static let maximumByteCount = 1_024

    /// Creates a key from `text`.
    ///
    /// - Throws: ``BackendError`` of kind ``BackendError/Kind/invalidKey`` if `text` is empty, is longer than
    ///   ``maximumByteCount`` bytes, or contains a control character (U+0000–U+001F, U+007F).
    public init(_ text: String) throws(BackendError) {
        let count = text.utf8.count
        guard (1...Self.maximumByteCount).contains(count) else {
            throw BackendError(
                .invalidKey, message: "a key must have 1 to \(Self.maximumByteCount) bytes, not \(count)")
        }
        guard text.withBytes({ bytes in bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7F } }) else {
            throw BackendError(.invalidKey, message: "a key must not contain control characters")
        }
        self.text = text
    }

    /// Returns `true` if the key begins with the bytes of `prefix`.
    public func hasPrefix(_ prefix: String) -> Bool {
        text.withBytes { bytes in
            prefix.withBytes { prefix in
                prefix.count <= bytes.count
                    && UnsafeBufferPointer(rebasing: bytes[..<prefix.count]).hasSameBytes(as: prefix)
            }
        }
    }

    /// The text of the key.
    public var description: String { text }
}

extension EntryKey: Hashable, Comparable {
    /// Returns `true` if both keys consist of the same bytes.
    public static func == (left: EntryKey, right: EntryKey) -> Bool {
        left.text.withBytes { bytes in right.text.withBytes { bytes.hasSameBytes(as: $0) } }
    }

    /// Returns `true` if `left` sorts before `right`, byte by byte.
    public static func < (left: EntryKey, right: EntryKey) -> Bool {
        left.text.withBytes { bytes in right.text.withBytes { bytes.lexicographicallyPrecedes($0) } }
    }

    /// Hashes the bytes of the key.
    public func hash(into hasher: inout Hasher) {
        text.withBytes { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}

extension String {
    /// Calls `body` with the UTF-8 bytes in one buffer, which is about ten times faster than iterating over the
    /// characters.
    fileprivate func withBytes<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        utf8.withContiguousStorageIfAvailable(body) ?? Array(utf8).withUnsafeBufferPointer(body)
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// Compares with `memcmp`, because the keys of one store often share a long prefix.
    fileprivate func hasSameBytes(as other: Self) -> Bool {
        guard count == other.count, let left = baseAddress, let right = other.baseAddress else {
            return isEmpty && other.isEmpty
        }
        return memcmp(left, right, count) == 0
    }
}
