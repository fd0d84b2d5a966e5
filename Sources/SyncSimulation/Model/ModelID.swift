/// An id as UTF-8 bytes: Swift's `==` on strings treats canonically equivalent spellings as equal, but they are
/// different ids.
struct ModelID: Hashable, Comparable, ExpressibleByStringLiteral, CustomStringConvertible {
    var bytes: [UInt8]

    init(bytes: [UInt8]) { self.bytes = bytes }

    init(_ text: String) { bytes = Array(text.utf8) }

    init(stringLiteral text: String) { bytes = Array(text.utf8) }

    static func < (left: ModelID, right: ModelID) -> Bool { left.bytes.lexicographicallyPrecedes(right.bytes) }

    var description: String { String(decoding: bytes, as: UTF8.self) }
}

/// The identity of a purchase.
struct ModelTransaction: Hashable, Comparable, CustomStringConvertible {
    var store: ModelID
    var environment: ModelID
    var id: ModelID

    static func < (left: ModelTransaction, right: ModelTransaction) -> Bool {
        (left.store, left.environment, left.id) < (right.store, right.environment, right.id)
    }

    var description: String { "\(store)/\(environment)/\(id)" }
}
