/// Bytes in memory that the caller keeps alive. Unlike slices of an array they need no reference counting.
package typealias RawBytes = UnsafeRawBufferPointer

/// Reads the proto3 wire format as any conforming encoder may write it: fields in any order, unknown fields, and
/// repeated occurrences of a field, of which the last counts.
package struct ProtoReader {
    @usableFromInline
    let bytes: RawBytes
    @usableFromInline
    var position = 0
    @usableFromInline
    var lastField: UInt64 = 0
    /// True while the fields are as ``ProtoWriter`` writes them: known wire types in ascending order, numbers without
    /// padding and not 0. The reader cannot know which fields exist, or which of them may be empty.
    package internal(set) var isCanonical = true

    @inlinable
    package init(_ bytes: RawBytes) { self.bytes = bytes }

    /// True if all fields were read.
    @inlinable
    package var isAtEnd: Bool { position == bytes.count }

    /// The value of one field.
    package enum Value {
        case number(UInt64)
        case data(RawBytes)
        /// A `fixed32`, `fixed64` or other fixed-width field. The project's messages use none; the value is skipped.
        case fixed
    }

    /// The next field, or `nil` at the end.
    ///
    /// - Throws: ``ProtoError`` if the bytes are not a proto3 message.
    @inlinable
    package mutating func nextField() throws(ProtoError) -> (field: Int, value: Value)? {
        guard position < bytes.count else { return nil }
        let tag = try varint()
        guard tag >> 3 > 0, tag >> 3 < 1 << 29 else { throw ProtoError(reason: "a field number is out of range") }
        if tag >> 3 <= lastField { isCanonical = false }
        lastField = tag >> 3
        let field = Int(lastField)
        switch tag & 7 {
        case 0:
            let number = try varint()
            if number == 0 { isCanonical = false }
            return (field, .number(number))
        case 1:
            _ = try take(8)
            isCanonical = false
            return (field, .fixed)
        case 2:
            let count = try varint()
            return (field, .data(try take(Int(clamping: count))))
        case 5:
            _ = try take(4)
            isCanonical = false
            return (field, .fixed)
        case let wireType: throw ProtoError(reason: "wire type \(wireType) is not proto3")
        }
    }

    @inlinable
    mutating func varint() throws(ProtoError) -> UInt64 {
        var value: UInt64 = 0
        var shift: UInt64 = 0
        while shift < 70 {
            guard position < bytes.count else { throw ProtoError(reason: "a number runs past the end") }
            let byte = bytes[position]
            position += 1
            // The tenth byte may hold only the one remaining bit of 64.
            guard shift < 63 || byte <= 1 else { break }
            value |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 {
                if byte == 0, shift > 0 { isCanonical = false }
                return value
            }
            shift += 7
        }
        throw ProtoError(reason: "a number is longer than 64 bits")
    }

    @inlinable
    mutating func take(_ count: Int) throws(ProtoError) -> RawBytes {
        guard count <= bytes.count - position else { throw ProtoError(reason: "a field runs past the end") }
        defer { position += count }
        return RawBytes(rebasing: bytes[position..<position + count])
    }
}

extension ProtoReader.Value {
    /// The varint value as it is.
    ///
    /// - Throws: ``ProtoError`` if the field is not a varint.
    @inlinable
    package func number() throws(ProtoError) -> UInt64 {
        guard case .number(let value) = self else { throw ProtoError(reason: "a number is expected") }
        return value
    }

    /// A count or duration: a number of at most `Int64.max`.
    @inlinable
    package func count() throws(ProtoError) -> Int64 {
        guard let value = Int64(exactly: try number()) else { throw ProtoError(reason: "a count is out of range") }
        return value
    }

    /// A zigzag-encoded `sint64`.
    @inlinable
    package func signed() throws(ProtoError) -> Int64 {
        let raw = try number()
        return Int64(bitPattern: raw >> 1) ^ -Int64(bitPattern: raw & 1)
    }

    /// The bytes of a length-delimited field: raw bytes, a string or an embedded message.
    @inlinable
    package func data() throws(ProtoError) -> RawBytes {
        guard case .data(let value) = self else { throw ProtoError(reason: "a length-delimited field is expected") }
        return value
    }

    /// A string, which must be valid UTF-8.
    @inlinable
    package func text() throws(ProtoError) -> String {
        let bytes = try data()
        // Decoding with repair and comparing the result takes half the time of String(validating:). ASCII needs no
        // comparison, which would take longer than the decoding.
        let text = String(decoding: bytes, as: UTF8.self)
        guard bytes.reduce(0, |) < 0x80 || text.utf8.elementsEqual(bytes) else {
            throw ProtoError(reason: "a text is not UTF-8")
        }
        return text
    }
}

/// The error of bytes that are not the expected message.
package struct ProtoError: Error, Hashable, CustomStringConvertible {
    package let reason: String

    package init(reason: String) { self.reason = reason }

    package var description: String { reason }
}
