private import ProtoCoding

/// The encoded form of a fact: three byte strings that merging compares but never interprets.
///
/// Unknown kinds and fields are preserved: a record that this version cannot read survives every merge unchanged.
/// Convert between both forms with ``Fact/init(_:)`` and ``Fact/record``.
public struct Record: Hashable, Sendable {
    /// The identity of the fact. A ledger contains at most one record per key.
    public var key: [UInt8]
    /// The rank of the record among records with the same key. The larger order is kept, compared byte by byte.
    public var order: [UInt8]
    /// The content of the fact. If two orders are equal, the larger payload is kept.
    public var payload: [UInt8]

    /// Creates a record of the given bytes.
    public init(key: [UInt8], order: [UInt8], payload: [UInt8]) {
        self.key = key
        self.order = order
        self.payload = payload
    }
}

extension Record {
    /// The encoded record: three lengths (LEB128), then key, order and payload.
    var encoded: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(key.count + order.count + payload.count + 6)
        for part in [key, order, payload] { bytes.appendVarint(UInt64(part.count)) }
        bytes += key
        bytes += order
        bytes += payload
        return bytes
    }
}

extension [UInt8] {
    /// Appends the eight bytes of `value` in big-endian order, so that bytes compare like numbers.
    mutating func appendBigEndian(_ value: UInt64) {
        Swift.withUnsafeBytes(of: value.bigEndian) { append(contentsOf: $0) }
    }
}
