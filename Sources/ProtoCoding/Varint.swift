extension [UInt8] {
    /// Appends `value` as LEB128: seven bits per byte, lowest bits first, without padding.
    @inlinable
    package mutating func appendVarint(_ value: UInt64) {
        var rest = value
        while rest > 0x7F {
            append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        append(UInt8(rest))
    }

    /// Inserts `value` as LEB128 before the byte at `index`.
    @inlinable
    package mutating func insertVarint(_ value: UInt64, at index: Int) {
        var rest = value
        var position = index
        while rest > 0x7F {
            insert(UInt8(truncatingIfNeeded: rest) | 0x80, at: position)
            rest >>= 7
            position += 1
        }
        insert(UInt8(rest), at: position)
    }
}
