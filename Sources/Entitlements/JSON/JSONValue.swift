/// A parsed JSON value that keeps numbers as written, so that a decoder can report the exact place of an invalid
/// value.
package enum JSONValue: Hashable, Sendable {
    case null
    case bool(Bool)
    /// A number without fraction or exponent that fits into 64 bits.
    case integer(Int64)
    /// Any other number, as written.
    case number(String)
    case string(String)
    case array([JSONValue])
    case object([String: JSONValue])

    /// Parses one JSON text (RFC 8259) with at most 64 levels of nesting. Repeated member names are rejected.
    ///
    /// Foundation's parser is not used because on Linux it does not report the place of an error.
    ///
    /// - Throws: ``JSONSyntaxError`` with the line and column.
    package init(parsing bytes: some Collection<UInt8>) throws(JSONSyntaxError) {
        var parser = JSONParser(bytes: Array(bytes))
        self = try parser.document()
    }

    /// A value with the line of each of its members and elements.
    package struct Located: Sendable {
        package let value: JSONValue
        /// The lines by paths such as `["products", "[3]", "duration"]`, counted from 1.
        package let lines: [[String]: Int]
    }

    /// Parses a text as ``init(parsing:)`` does, and keeps the lines.
    package static func located(parsing bytes: [UInt8]) throws(JSONSyntaxError) -> Located {
        var parser = JSONParser(bytes: bytes, isLocating: true)
        let value = try parser.document()
        return Located(value: value, lines: parser.lines)
    }

    /// A description of the type for messages.
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

/// An error that is thrown when a text is not valid JSON.
package struct JSONSyntaxError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The line, counted from 1.
    package let line: Int
    /// The column in bytes, counted from 1.
    package let column: Int
    package let reason: String

    package var description: String { "line \(line), column \(column): \(reason)" }
}
