public import SyncCore

/// The path of a key in a request: `/v1/kv/` followed by the percent-encoded key.
///
/// Slashes are not encoded, so that a path reads like its key. If a part of the key is empty or consists of dots only,
/// all slashes are written as `%2F` and the dots as `%2E`: clients and proxies may remove such parts from a path (RFC
/// 3986, section 6.2.2.3), and the key `a/../b` must not become `b`.
///
/// ```swift
/// WirePath.path(of: try EntryKey("accounts/alice/ledger"))  // /v1/kv/accounts/alice/ledger
/// ```
public enum WirePath {
    /// The prefix of the path of every key.
    public static let prefix = "/v1/kv/"

    /// The path of `key`: ASCII, without a query.
    public static func path(of key: EntryKey) -> String {
        let parts = key.text.utf8.split(separator: slash, omittingEmptySubsequences: false)
        let isPlain = parts.allSatisfy { part in part.contains { $0 != dot } }
        var path = Array(prefix.utf8)
        path.reserveCapacity(path.count + key.text.utf8.count)
        for (index, part) in parts.enumerated() {
            if index > 0 {
                if isPlain { path.append(slash) } else { path += PercentCoding.encoded(slash) }
            }
            let isOnlyDots = part.allSatisfy { $0 == dot }
            for byte in part {
                let isLiteral = PercentCoding.isUnreserved(byte) && !isOnlyDots
                if isLiteral { path.append(byte) } else { path += PercentCoding.encoded(byte) }
            }
        }
        return String(decoding: path, as: UTF8.self)
    }

    /// The key that `path` names. The path is taken from the request line, without its query, and is decoded exactly
    /// once.
    ///
    /// - Throws: `BackendError.Kind.invalidKey` for a path with another prefix, an empty part, a part of one or two
    ///   dots, a percent sign without two hexadecimal digits, a character that a path cannot contain (RFC 3986, section
    ///   3.3), or bytes that are not UTF-8, and for an invalid key (see `EntryKey`).
    package static func key(ofPath path: String) throws(BackendError) -> EntryKey {
        let whole = Array(path.utf8)
        guard whole.starts(with: prefix.utf8) else { throw invalid("the path of a key must begin with \(prefix)") }
        let rest = whole[prefix.utf8.count...]
        // Most paths contain nothing encoded and need no decoding.
        var isPlain = true
        var partStart = rest.startIndex
        for index in rest.startIndex...rest.endIndex {
            if index < rest.endIndex, rest[index] != slash {
                guard PercentCoding.isUnreserved(rest[index]) || otherCharacters.contains(rest[index]) else {
                    throw invalid("the path has a character that must be percent-encoded")
                }
                isPlain = isPlain && rest[index] != percent
                continue
            }
            let part = rest[partStart..<index]
            if part.isEmpty || (part.count <= 2 && part.allSatisfy { $0 == dot }) {
                throw invalid("a part between two slashes is empty, . or ..; write the slashes of the key as %2F")
            }
            partStart = index + 1
        }
        if isPlain { return try EntryKey(String(decoding: rest, as: UTF8.self)) }
        guard let bytes = PercentCoding.decoded(rest) else {
            throw invalid("a percent sign must be followed by two hexadecimal digits")
        }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw invalid("a key must be UTF-8") }
        return try EntryKey(text)
    }

    private static let slash = UInt8(ascii: "/")
    private static let percent = UInt8(ascii: "%")
    private static let dot = UInt8(ascii: ".")
    /// Characters that a path may contain in addition to the unreserved ones.
    private static let otherCharacters = Array("/%!$&'()*+,;=:@".utf8)

    private static func invalid(_ reason: String) -> BackendError { BackendError(.invalidKey, message: reason) }
}
