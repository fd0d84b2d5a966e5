/// A JSON value for output. Members keep the order in which they are given.
package enum JSON: Sendable {
    case null
    case bool(Bool)
    case number(Int64)
    case string(String)
    case array([JSON])
    case object([(String, JSON)])

    package init(_ text: String?) {
        self = text.map(JSON.string) ?? .null
    }

    /// Returns the JSON text, indented by two spaces per level, with empty arrays and objects on one line.
    package func text(indentation: Int = 0) -> String {
        let inner = String(repeating: "  ", count: indentation + 1)
        let outer = String(repeating: "  ", count: indentation)
        switch self {
        case .null: return "null"
        case .bool(let flag): return flag ? "true" : "false"
        case .number(let number): return String(number)
        case .string(let text): return Self.quoted(text)
        case .array(let elements):
            if elements.isEmpty { return "[]" }
            let lines = elements.map { inner + $0.text(indentation: indentation + 1) }
            return "[\n" + lines.joined(separator: ",\n") + "\n" + outer + "]"
        case .object(let members):
            if members.isEmpty { return "{}" }
            let lines = members.map { name, value in
                inner + Self.quoted(name) + ": " + value.text(indentation: indentation + 1)
            }
            return "{\n" + lines.joined(separator: ",\n") + "\n" + outer + "}"
        }
    }

    /// The JSON text on one line.
    package var line: String {
        // A newline in a string is escaped, so each newline is one of the layout.
        text().split(separator: "\n").map { $0.drop { $0 == " " } }.joined()
    }

    private static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case "\n": quoted += "\\n"
            case "\r": quoted += "\\r"
            case "\t": quoted += "\\t"
            case _ where scalar.value < 0x20 || scalar.value == 0x7F:
                let digits = String(scalar.value, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
