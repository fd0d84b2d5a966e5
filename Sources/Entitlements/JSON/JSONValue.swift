/// JSON as it stands in the text, so that a reader can name the path of what it refuses and of what it does not know.
package enum JSONValue: Hashable, Sendable {
    case null
    case bool(Bool)
    /// A number without fraction or exponent that fits 64 bits.
    case integer(Int64)
    /// Any other number, as written.
    case number(String)
    case string(String)
    case array([JSONValue])
    case object([String: JSONValue])

    /// Reads `bytes` as one JSON text (RFC 8259) of at most 64 levels; a repeated member name is refused.
    ///
    /// Our own parser because Foundation's, on Linux, does not say where a text is wrong.
    ///
    /// - Throws: ``JSONSyntaxError`` with line and column.
    package init(parsing bytes: some Collection<UInt8>) throws(JSONSyntaxError) {
        var parser = JSONParser(bytes: Array(bytes))
        self = try parser.document()
    }

    /// What the value is, for a message.
    package var typeName: String {
        switch self {
        case .null: "null"
        case .bool: "true or false"
        case .integer, .number: "a number"
        case .string: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }
}

/// A text is not JSON.
package struct JSONSyntaxError: Error, Hashable, Sendable, CustomStringConvertible {
    /// Counted from 1.
    package let line: Int
    /// Counted from 1, in bytes.
    package let column: Int
    package let reason: String

    package var description: String { "line \(line), column \(column): \(reason)" }
}
