public import SyncCore

/// How a key stands in the path of a request: `/v1/kv/` and the key, percent-encoded.
///
/// Slashes stay, so that a path reads like its key. Where a key has an empty part, or one of only dots, they are
/// written as `%2F` and the dots as `%2E`: what stands between two slashes there, clients and proxies on the way may
/// take out (RFC 3986, section 6.2.2.3), and the key `a/../b` must not become `b`.
///
/// ```swift
/// WirePath.path(of: try EntryKey("accounts/alice/ledger"))  // /v1/kv/accounts/alice/ledger
/// ```
public enum WirePath {
    /// What every path of a key begins with.
    public static let prefix = "/v1/kv/"

    /// The path of `key`: ASCII, without query.
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
                let isAsItIs = PercentCoding.isUnreserved(byte) && !isOnlyDots
                if isAsItIs { path.append(byte) } else { path += PercentCoding.encoded(byte) }
            }
        }
        return String(decoding: path, as: UTF8.self)
    }

    /// The key that `path` names, as it came in the request line and without its query; decoded once and only once.
    ///
    /// - Throws: `BackendError.Kind.invalidKey` for a path of another prefix, with an empty part or one of dots between
    ///   slashes, with a percent sign and no two hexadecimal digits after it, with a character that a path cannot have
    ///   (RFC 3986, section 3.3), with bytes that are no UTF-8, or of no key (see `EntryKey`).
    public static func key(ofPath path: String) throws(BackendError) -> EntryKey {
        let whole = Array(path.utf8)
        guard whole.starts(with: prefix.utf8) else { throw invalid("a key's path begins with \(prefix)") }
        let rest = whole[prefix.utf8.count...]
        // Most have nothing that is encoded, and need no second look.
        var isPlain = true
        var partStart = rest.startIndex
        for index in rest.startIndex...rest.endIndex {
            if index < rest.endIndex, rest[index] != slash {
                guard PercentCoding.isUnreserved(rest[index]) || others.contains(rest[index]) else {
                    throw invalid("a character of the path has to be percent-encoded")
                }
                isPlain = isPlain && rest[index] != percent
                continue
            }
            let part = rest[partStart..<index]
            if part.isEmpty || (part.count <= 2 && part.allSatisfy { $0 == dot }) {
                throw invalid("a part between two slashes is empty or of dots; write the slashes of the key as %2F")
            }
            partStart = index + 1
        }
        if isPlain { return try EntryKey(String(decoding: rest, as: UTF8.self)) }
        guard let bytes = PercentCoding.decoded(rest) else {
            throw invalid("a percent sign is followed by two hexadecimal digits")
        }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw invalid("a key is UTF-8") }
        return try EntryKey(text)
    }

    private static let slash = UInt8(ascii: "/")
    private static let percent = UInt8(ascii: "%")
    private static let dot = UInt8(ascii: ".")
    /// What a path may have besides.
    private static let others = Array("/%!$&'()*+,;=:@".utf8)

    private static func invalid(_ reason: String) -> BackendError { BackendError(.invalidKey, message: reason) }
}
