import Entitlements

/// Records that a later version of the software may write, of a kind unknown to this version.
enum UnknownRecord {
    /// The record with this id: field 99 of the key, a logical time, and some bytes.
    static func record(_ id: String) -> Record {
        let text = Array(id.utf8)
        return Record(
            key: [0x9A, 0x06, UInt8(clamping: text.count)] + text, order: [0, 0, 0, 0, 0, 0, 0, 1],
            payload: [0x0A, UInt8(clamping: text.count)] + text)
    }
}
