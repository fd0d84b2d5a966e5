import ProtoCoding

/// The encoding of a record's order. Fixed-width, big-endian fields make the bytes compare like the strength of the
/// statements.
enum FactOrder {
    /// Signed flag (1 byte), signed date (8, sign bit flipped), logical time (8).
    static func bytes(_ stamp: Stamp) -> [UInt8] {
        var bytes: [UInt8] = [stamp.signedDate == nil ? 0 : 1]
        bytes.appendBigEndian(UInt64(bitPattern: stamp.signedDate?.milliseconds ?? 0) ^ 1 << 63)
        bytes.appendBigEndian(stamp.logicalTime.rawValue)
        return bytes
    }

    /// Logical time (8 bytes).
    static func bytes(_ time: LogicalTime) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.appendBigEndian(time.rawValue)
        return bytes
    }

    /// The complement of the logical time (8 bytes): the earlier statement is stronger.
    static func bytes(earlierWins time: LogicalTime) -> [UInt8] {
        bytes(LogicalTime(rawValue: ~time.rawValue))
    }

    /// The complement of the date with its sign bit flipped (8 bytes): the earlier statement is stronger.
    static func bytes(earlierWins date: Timestamp) -> [UInt8] {
        bytes(LogicalTime(rawValue: ~(UInt64(bitPattern: date.milliseconds) ^ 1 << 63)))
    }

    /// Logical time (8 bytes), replica (16).
    static func bytes(_ time: LogicalTime, _ replica: ReplicaID) -> [UInt8] {
        bytes(time) + replica.bytes
    }

    static func stamp(_ bytes: [UInt8]) throws(ProtoError) -> Stamp {
        guard bytes.count == 17, bytes[0] <= 1 else { throw ProtoError(reason: "the order is malformed") }
        let date = Timestamp(milliseconds: Int64(bitPattern: number(bytes[1..<9]) ^ 1 << 63))
        return Stamp(
            signedDate: bytes[0] == 1 ? date : nil, logicalTime: LogicalTime(rawValue: number(bytes[9..<17])))
    }

    static func time(_ bytes: [UInt8], trailing: Int = 0) throws(ProtoError) -> LogicalTime {
        guard bytes.count == 8 + trailing else { throw ProtoError(reason: "the order is malformed") }
        return LogicalTime(rawValue: number(bytes[..<8]))
    }

    static func timeWhereEarlierWins(_ bytes: [UInt8]) throws(ProtoError) -> LogicalTime {
        LogicalTime(rawValue: ~(try time(bytes)).rawValue)
    }

    static func dateWhereEarlierWins(_ bytes: [UInt8]) throws(ProtoError) -> Timestamp {
        Timestamp(milliseconds: Int64(bitPattern: ~(try time(bytes)).rawValue ^ 1 << 63))
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 {
        bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }
}
