/// Writes the proto3 wire format canonically: fields in ascending order, no defaults, no padding.
///
/// Source: "Encoding", the Protocol Buffers documentation. Two replicas that state the same fact must write the same
/// bytes. proto3 allows several encodings of a message; this writer produces exactly one.
package struct ProtoWriter {
    package internal(set) var bytes: [UInt8] = []
    @usableFromInline
    var lastField = 0

    @inlinable
    package init() {}

    /// Creates a writer that reserves room for `capacity` bytes.
    package init(capacity: Int) { bytes.reserveCapacity(capacity) }

    /// Writes a varint. 0 is the default and is omitted unless the field has explicit presence.
    @inlinable
    package mutating func number(_ value: UInt64, field: Int, isOptional: Bool = false) {
        guard value != 0 || isOptional else { return }
        tag(field, wireType: 0)
        bytes.appendVarint(value)
    }

    /// Writes a zigzag-encoded `sint64`, which keeps dates before 1970 short.
    @inlinable
    package mutating func signed(_ value: Int64, field: Int, isOptional: Bool = false) {
        number(UInt64(bitPattern: value << 1 ^ value >> 63), field: field, isOptional: isOptional)
    }

    @inlinable
    package mutating func text(_ value: String, field: Int, isOptional: Bool = false) {
        data(value.utf8, field: field, isOptional: isOptional)
    }

    @inlinable
    package mutating func data(_ value: some Collection<UInt8>, field: Int, isOptional: Bool = false) {
        guard !value.isEmpty || isOptional else { return }
        tag(field, wireType: 2)
        bytes.appendVarint(UInt64(value.count))
        bytes += value
    }

    /// Writes an embedded message, even if it is empty. A repeated field takes one call for each element.
    @inlinable
    package mutating func message(field: Int, isRepeated: Bool = false, _ body: (inout ProtoWriter) -> Void) {
        tag(field, wireType: 2, isRepeated: isRepeated)
        let start = bytes.count
        lastField = 0
        body(&self)
        lastField = field
        bytes.insertVarint(UInt64(bytes.count - start), at: start)
    }

    @inlinable
    mutating func tag(_ field: Int, wireType: UInt64, isRepeated: Bool = false) {
        assert(field > lastField || isRepeated && field == lastField, "fields must be written in ascending order")
        lastField = field
        bytes.appendVarint(UInt64(field) << 3 | wireType)
    }
}
