import ProtoCoding

/// The encoding of a record's order.
///
/// Of two statements with the same key, the stronger has the greater bytes. All numbers are big-endian and have a fixed
/// width. Dates have their sign bit flipped, so that negative dates are less than positive ones.
enum FactOrder {
    /// Encodes a stamp: 1 if a store signed the statement, otherwise 0 (1 byte), date of the signature (8), logical
    /// time (8).
    static func bytes(_ stamp: Stamp) -> [UInt8] {
        var bytes: [UInt8] = [stamp.signedDate == nil ? 0 : 1]
        bytes.appendBigEndian(UInt64(bitPattern: stamp.signedDate?.milliseconds ?? 0) ^ 1 << 63)
        bytes.appendBigEndian(stamp.logicalTime.rawValue)
        return bytes
    }

    /// Encodes a logical time (8 bytes).
    static func bytes(_ time: LogicalTime) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.appendBigEndian(time.rawValue)
        return bytes
    }

    /// Encodes the complement of a logical time (8 bytes), so that the earlier statement is stronger.
    static func bytes(earlierWins time: LogicalTime) -> [UInt8] {
        bytes(LogicalTime(rawValue: ~time.rawValue))
    }

    /// Encodes the complement of a date (8 bytes), so that the earlier statement is stronger.
    static func bytes(earlierWins date: Timestamp) -> [UInt8] {
        bytes(LogicalTime(rawValue: ~(UInt64(bitPattern: date.milliseconds) ^ 1 << 63)))
    }

    /// Encodes a logical time (8 bytes) and a replica (16).
    static func bytes(_ time: LogicalTime, _ replica: ReplicaID) -> [UInt8] {
        bytes(time) + replica.bytes
    }

    /// Decodes a stamp.
    static func stamp(_ bytes: RawBytes) throws(ProtoError) -> Stamp {
        guard bytes.count == 17, let sign = bytes.first, sign <= 1 else {
            throw ProtoError(reason: "the order is malformed")
        }
        let date = Timestamp(milliseconds: Int64(bitPattern: bytes.number(at: 1) ^ 1 << 63))
        return Stamp(
            signedDate: sign == 1 ? date : nil, logicalTime: LogicalTime(rawValue: bytes.number(at: 9)))
    }

    /// Decodes a logical time.
    ///
    /// - Parameter trailing: The number of bytes after the time.
    static func time(_ bytes: RawBytes, trailing: Int = 0) throws(ProtoError) -> LogicalTime {
        guard bytes.count == 8 + trailing else { throw ProtoError(reason: "the order is malformed") }
        return LogicalTime(rawValue: bytes.number(at: 0))
    }

    /// Decodes the result of `bytes(earlierWins:)` for a logical time.
    static func timeWhereEarlierWins(_ bytes: RawBytes) throws(ProtoError) -> LogicalTime {
        LogicalTime(rawValue: ~(try time(bytes)).rawValue)
    }

    /// Decodes the result of `bytes(earlierWins:)` for a date.
    static func dateWhereEarlierWins(_ bytes: RawBytes) throws(ProtoError) -> Timestamp {
        Timestamp(milliseconds: Int64(bitPattern: ~(try time(bytes)).rawValue ^ 1 << 63))
    }
}

extension RawBytes {
    /// The big-endian number in the eight bytes from `offset` on.
    fileprivate func number(at offset: Int) -> UInt64 {
        UInt64(bigEndian: loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }
}
