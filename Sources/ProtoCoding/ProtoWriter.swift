/// Writes the proto3 wire format canonically: fields in ascending order, no defaults, no padding.
///
/// Source: "Encoding", the Protocol Buffers documentation. Two replicas that state one fact must write the same bytes;
/// proto3 allows several spellings, this writer produces one.
package struct ProtoWriter {
    package internal(set) var bytes: [UInt8] = []
    @usableFromInline
    var lastField = 0

    @inlinable
    package init() {}

    /// A writer with room for `capacity` bytes.
    package init(capacity: Int) { bytes.reserveCapacity(capacity) }

    /// A bare number; 0 is the default and is left out unless the field has explicit presence.
    @inlinable
    package mutating func number(_ value: UInt64, field: Int, isOptional: Bool = false) {
        guard value != 0 || isOptional else { return }
        tag(field, wireType: 0)
        bytes.appendVarint(value)
    }

    /// A `sint64`: zigzag, so that dates before 1970 stay short.
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

    /// A message; an empty one is present all the same. A repeated field is written once for each.
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
        assert(field > lastField || isRepeated && field == lastField, "fields are written in ascending order")
        lastField = field
        bytes.appendVarint(UInt64(field) << 3 | wireType)
    }
}
