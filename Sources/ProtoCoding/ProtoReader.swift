/// Reads the proto3 wire format as any conforming encoder may write it: fields in any order, unknown fields, and
/// repeated occurrences of a field, of which the last counts.
package struct ProtoReader {
    @usableFromInline
    let bytes: ArraySlice<UInt8>
    @usableFromInline
    var position: Int

    @inlinable
    package init(_ bytes: [UInt8]) { self.init(bytes[...]) }

    @inlinable
    package init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
        position = bytes.startIndex
    }

    /// The value of one field.
    package enum Value {
        case number(UInt64)
        case data(ArraySlice<UInt8>)
        /// A `fixed32`, `fixed64` or other fixed-width field. The project's messages use none; the value is skipped.
        case fixed
    }

    /// The next field, or `nil` at the end.
    ///
    /// - Throws: ``ProtoError`` if the bytes are not a proto3 message.
    @inlinable
    package mutating func nextField() throws(ProtoError) -> (field: Int, value: Value)? {
        guard position < bytes.endIndex else { return nil }
        let tag = try varint()
        guard tag >> 3 > 0, tag >> 3 < 1 << 29 else { throw ProtoError(reason: "a field number is out of range") }
        let field = Int(tag >> 3)
        switch tag & 7 {
        case 0: return (field, .number(try varint()))
        case 1:
            _ = try take(8)
            return (field, .fixed)
        case 2:
            let count = try varint()
            return (field, .data(try take(Int(clamping: count))))
        case 5:
            _ = try take(4)
            return (field, .fixed)
        case let wireType: throw ProtoError(reason: "wire type \(wireType) is not proto3")
        }
    }

    @inlinable
    mutating func varint() throws(ProtoError) -> UInt64 {
        var value: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 70, by: 7) {
            guard position < bytes.endIndex else { throw ProtoError(reason: "a number runs past the end") }
            let byte = bytes[position]
            position += 1
            // The tenth byte may hold only the one remaining bit of 64.
            guard shift < 63 || byte <= 1 else { break }
            value |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return value }
        }
        throw ProtoError(reason: "a number is longer than 64 bits")
    }

    @inlinable
    mutating func take(_ count: Int) throws(ProtoError) -> ArraySlice<UInt8> {
        guard count <= bytes.endIndex - position else { throw ProtoError(reason: "a field runs past the end") }
        defer { position += count }
        return bytes[position..<position + count]
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
    package func data() throws(ProtoError) -> ArraySlice<UInt8> {
        guard case .data(let value) = self else { throw ProtoError(reason: "a length-delimited field is expected") }
        return value
    }

    /// A string, which must be valid UTF-8.
    @inlinable
    package func text() throws(ProtoError) -> String {
        let bytes = try data()
        // Decoding with repair and comparing the result takes half the time of String(validating:).
        let text = String(decoding: bytes, as: UTF8.self)
        guard text.utf8.elementsEqual(bytes) else { throw ProtoError(reason: "a text is not UTF-8") }
        return text
    }
}

/// The error of bytes that are not the expected message.
package struct ProtoError: Error, Hashable, CustomStringConvertible {
    package let reason: String

    package init(reason: String) { self.reason = reason }

    package var description: String { reason }
}
