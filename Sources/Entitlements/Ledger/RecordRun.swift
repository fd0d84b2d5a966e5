#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#elseif canImport(WASILibc)
import WASILibc
#else
import Darwin
#endif

/// A cursor over a sorted run of encoded records. The caller owns the bytes, which must outlive the cursor.
///
/// It consists of a few pointers and integers, so that a join can keep two cursors in registers.
struct RecordRun {
    /// The start of the current record.
    private(set) var start: UnsafeRawPointer
    private let limit: UnsafeRawPointer
    private var keyStart: UnsafeRawPointer
    private var keyCount = 0
    private var orderCount = 0
    private var payloadCount = 0

    /// Creates a cursor on the first record of a validated run; `nil` if the run is empty.
    init?(checked bytes: UnsafeRawBufferPointer) {
        guard let base = bytes.baseAddress, !bytes.isEmpty else { return nil }
        start = base
        keyStart = base
        limit = base + bytes.count
        enter()
    }

    var isAtEnd: Bool { start == limit }

    var key: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: keyStart, count: keyCount) }
    var order: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: keyStart + keyCount, count: orderCount) }
    var payload: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: keyStart + keyCount + orderCount, count: payloadCount)
    }
    var record: Record { Record(key: Array(key), order: Array(order), payload: Array(payload)) }
    var raw: RawRecord { RawRecord(key: key, order: order, payload: payload) }
    /// The size of the current record, including its lengths.
    var byteCount: Int { next - start }
    /// All bytes of the current record, including its lengths.
    var encoded: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: start, count: byteCount) }
    /// The start of the next record.
    var next: UnsafeRawPointer { keyStart + keyCount + orderCount + payloadCount }

    /// The cursor on the next record; `nil` at the end.
    var following: RecordRun? {
        var cursor = self
        cursor.advance()
        return cursor.isAtEnd ? nil : cursor
    }

    @inline(__always)
    mutating func advance() {
        start = next
        if start != limit { enter() }
    }

    @inline(__always)
    private mutating func enter() {
        // A key is never empty, so every record has at least four bytes. Most parts are shorter than 128 bytes.
        let lengths = UInt32(littleEndian: start.loadUnaligned(as: UInt32.self))
        if lengths & 0x80_8080 == 0 {
            keyCount = Int(lengths & 0x7F)
            orderCount = Int(lengths >> 8 & 0x7F)
            payloadCount = Int(lengths >> 16 & 0x7F)
            keyStart = start + 3
        } else {
            keyStart = start
            keyCount = takeLength()
            orderCount = takeLength()
            payloadCount = takeLength()
        }
    }

    /// Reads a length of any size at ``keyStart`` and advances past it.
    private mutating func takeLength() -> Int {
        var value = 0
        var shift = 0
        while true {
            let byte = keyStart.load(as: UInt8.self)
            keyStart += 1
            value |= Int(byte & 0x7F) << shift
            if byte < 0x80 { return value }
            shift += 7
        }
    }

    /// Compares two records with the same key by order, then payload. Negative if `other` is larger.
    @inline(__always)
    func compareContent(with other: RecordRun) -> Int {
        if orderCount == other.orderCount { return Self.compare(content, other.content) }
        let difference = Self.compare(order, other.order)
        return difference != 0 ? difference : Self.compare(payload, other.payload)
    }

    /// The order and payload, which are adjacent.
    private var content: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: keyStart + keyCount, count: orderCount + payloadCount)
    }

    /// Compares byte by byte. Negative if `left` comes first.
    @inline(__always)
    static func compare(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Int {
        if let leftBase = left.baseAddress, let rightBase = right.baseAddress {
            let difference = memcmp(leftBase, rightBase, min(left.count, right.count))
            if difference != 0 { return Int(difference) }
        }
        return left.count - right.count
    }
}
