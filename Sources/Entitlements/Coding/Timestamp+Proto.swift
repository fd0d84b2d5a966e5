import ProtoCoding

extension ProtoReader.Value {
    func timestamp() throws(ProtoError) -> Timestamp { Timestamp(milliseconds: try signed()) }
}

extension ProtoWriter {
    mutating func timestamp(_ value: Timestamp, field: Int) { signed(value.milliseconds, field: field) }

    /// A `sint64` with explicit presence.
    mutating func timestamp(optional value: Timestamp?, field: Int) {
        if let value { signed(value.milliseconds, field: field, isOptional: true) }
    }
}
