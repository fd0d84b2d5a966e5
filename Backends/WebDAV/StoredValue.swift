import Checksums
import SyncCore

/// What a file holds: a mark, the digest that is its version, and the value. A file that was cut, or that is somebody
/// else's, is noticed.
enum StoredValue {
    private static let mark = Array("ESV1".utf8)
    private static let headByteCount = 20

    /// How much longer a file is than its value.
    static let overhead = headByteCount

    /// The version of `value`: 128 bits of digest, and so the same for the same bytes.
    static func version(of value: [UInt8]) -> EntryVersion {
        EntryVersion(
            bytes: [0, 1].flatMap { seed in
                withUnsafeBytes(of: XXHash64.digest(of: value, seed: seed).bigEndian) { Array($0) }
            })
    }

    /// The file that holds `value`.
    static func file(of value: [UInt8]) -> [UInt8] { mark + version(of: value).bytes + value }

    /// What `file` holds; `nil` for what was not written so.
    static func entry(_ file: [UInt8]) -> Entry? {
        guard file.count >= headByteCount, file.starts(with: mark) else { return nil }
        let value = Array(file[headByteCount...])
        let version = version(of: value)
        guard Array(file[mark.count..<headByteCount]) == version.bytes else { return nil }
        return Entry(value: value, version: version)
    }
}
