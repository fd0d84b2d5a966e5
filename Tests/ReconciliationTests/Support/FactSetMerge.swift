import SyncCore

/// Documents whose content is a set of up to 64 facts, one bit each: small enough for thousands of histories.
///
/// A document is the byte 1, the set in 8 bytes, and the local section.
struct FactSetMerge: DocumentMerge {
    static let format: UInt8 = 1

    var empty: UInt64 { 0 }

    func open(_ bytes: [UInt8]) throws(DocumentError) -> OpenDocument<UInt64> {
        guard let format = bytes.first, format >= Self.format, bytes.count >= 9 else {
            throw DocumentError(isNewer: false, message: "damaged")
        }
        guard format == Self.format else { throw DocumentError(isNewer: true, message: "newer") }
        let content = bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: 1, as: UInt64.self) }
        return OpenDocument(content: UInt64(bigEndian: content), localSection: Array(bytes[9...]))
    }

    func close(_ document: OpenDocument<UInt64>) -> [UInt8] {
        [Self.format] + digest(of: document.content) + document.localSection
    }

    func join(_ left: UInt64, _ right: UInt64) -> Joined<UInt64> {
        let union = left | right
        return Joined(content: union, leftLacks: union != left, rightLacks: union != right)
    }

    func digest(of content: UInt64) -> [UInt8] {
        withUnsafeBytes(of: content.bigEndian) { Array($0) }
    }
}
