/// Writes the proto3 wire format canonically: fields in ascending order, no defaults, no padding.
///
/// Source: "Encoding", the Protocol Buffers documentation. Two replicas that state one fact must write the same bytes;
/// proto3 allows several spellings, this writer produces one.
struct ProtoWriter {
    private(set) var bytes: [UInt8] = []
    private var lastField = 0

    /// A bare number; 0 is the default and is left out unless the field has explicit presence.
    mutating func number(_ value: UInt64, field: Int, isOptional: Bool = false) {
        guard value != 0 || isOptional else { return }
        tag(field, wireType: 0)
        bytes.appendVarint(value)
    }

    /// A `sint64`: zigzag, so that dates before 1970 stay short.
    mutating func signed(_ value: Int64, field: Int, isOptional: Bool = false) {
        number(UInt64(bitPattern: value << 1 ^ value >> 63), field: field, isOptional: isOptional)
    }

    mutating func timestamp(_ value: Timestamp, field: Int) {
        signed(value.milliseconds, field: field)
    }

    /// A `sint64` with explicit presence.
    mutating func timestamp(optional value: Timestamp?, field: Int) {
        if let value { signed(value.milliseconds, field: field, isOptional: true) }
    }

    mutating func text(_ value: String, field: Int, isOptional: Bool = false) {
        data(value.utf8, field: field, isOptional: isOptional)
    }

    mutating func data(_ value: some Collection<UInt8>, field: Int, isOptional: Bool = false) {
        guard !value.isEmpty || isOptional else { return }
        tag(field, wireType: 2)
        bytes.appendVarint(UInt64(value.count))
        bytes += value
    }

    /// A message; an empty one is present all the same.
    mutating func message(field: Int, _ body: (inout ProtoWriter) -> Void) {
        tag(field, wireType: 2)
        let start = bytes.count
        lastField = 0
        body(&self)
        lastField = field
        bytes.insertVarint(UInt64(bytes.count - start), at: start)
    }

    private mutating func tag(_ field: Int, wireType: UInt64) {
        assert(field > lastField, "fields are written in ascending order")
        lastField = field
        bytes.appendVarint(UInt64(field) << 3 | wireType)
    }
}
