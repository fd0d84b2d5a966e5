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

/// A cursor over a sorted run of encoded records. The bytes belong to the caller and outlive it.
struct RecordRun {
    private let bytes: UnsafeRawBufferPointer
    /// Where the current record begins.
    private(set) var start = 0
    /// Where the one after it begins.
    private(set) var end = 0
    private var keyStart = 0
    private var keyCount = 0
    private var orderCount = 0

    /// A cursor on the first record of a run that was checked before.
    init(checked bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
        guard !bytes.isEmpty else { return }
        enter()
    }

    var isAtEnd: Bool { start == bytes.count }

    var key: UnsafeRawBufferPointer { part(keyStart, keyCount) }
    var order: UnsafeRawBufferPointer { part(keyStart + keyCount, orderCount) }
    var payload: UnsafeRawBufferPointer {
        let offset = keyStart + keyCount + orderCount
        return part(offset, end - offset)
    }
    var record: Record { Record(key: Array(key), order: Array(order), payload: Array(payload)) }

    private func part(_ offset: Int, _ count: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + count])
    }

    mutating func advance() {
        start = end
        if start < bytes.count { enter() }
    }

    @inline(__always)
    private mutating func enter() {
        var offset = start
        keyCount = length(&offset)
        orderCount = length(&offset)
        let payloadCount = length(&offset)
        keyStart = offset
        end = offset + keyCount + orderCount + payloadCount
    }

    @inline(__always)
    private func length(_ offset: inout Int) -> Int {
        let first = bytes[offset]
        offset += 1
        if first < 0x80 { return Int(first) }
        var value = Int(first & 0x7F)
        var shift = 7
        while true {
            let byte = bytes[offset]
            offset += 1
            value |= Int(byte & 0x7F) << shift
            if byte < 0x80 { return value }
            shift += 7
        }
    }

    /// Compares two records as merging does: by key, then order, then payload. Negative when `self` comes first.
    static func compare(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Int {
        if let leftBase = left.baseAddress, let rightBase = right.baseAddress {
            let difference = memcmp(leftBase, rightBase, min(left.count, right.count))
            if difference != 0 { return Int(difference) }
        }
        return left.count - right.count
    }

    /// Whether this cursor's record and the other's are the same bytes.
    @inline(__always)
    func holdsSameRecord(as other: RecordRun) -> Bool {
        let count = end - start
        guard count == other.end - other.start,
            let here = bytes.baseAddress, let there = other.bytes.baseAddress
        else { return false }
        return memcmp(here + start, there + other.start, count) == 0
    }
}
