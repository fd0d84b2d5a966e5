private import ProtoCoding

/// One fact as a ledger keeps it: three runs of bytes that merging compares and never interprets.
///
/// Kinds and fields that this version does not know are records like any other, and survive every merge unchanged.
public struct Record: Hashable, Sendable {
    /// Names the fact. A ledger holds one record a key.
    public var key: [UInt8]
    /// Decides which of two records with one key stays: the larger, byte by byte.
    public var order: [UInt8]
    /// What the fact says; of two with equal orders the larger stays.
    public var payload: [UInt8]

    /// A record of the given bytes.
    public init(key: [UInt8], order: [UInt8], payload: [UInt8]) {
        self.key = key
        self.order = order
        self.payload = payload
    }
}

extension Record {
    /// The record as it stands in a run: three lengths (LEB128), then key, order and payload.
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
    /// Appends the eight bytes of `value`, highest first, so that bytes order as numbers do.
    mutating func appendBigEndian(_ value: UInt64) {
        Swift.withUnsafeBytes(of: value.bigEndian) { append(contentsOf: $0) }
    }
}
