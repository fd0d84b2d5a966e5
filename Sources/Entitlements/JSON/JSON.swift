/// A JSON value (RFC 8259). Members keep their order, and numbers that 64 bits cannot hold keep their text.
package enum JSON: Sendable {
    case null
    case bool(Bool)
    /// A number without fraction or exponent that fits into 64 bits.
    case number(Int64)
    /// Any other number, as written.
    case decimal(String)
    case string(String)
    case array([JSON])
    case object([(String, JSON)])

    package init(_ text: String?) {
        self = text.map(JSON.string) ?? .null
    }

    /// An object with its members in ascending order of their names.
    package static func object(_ members: [String: JSON]) -> JSON {
        .object(members.sorted { $0.key < $1.key }.map { ($0.key, $0.value) })
    }

    /// A description of the type for messages.
    package var typeName: String {
        switch self {
        case .null: "null"
        case .bool: "true or false"
        case .number, .decimal: "a number"
        case .string: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }

    /// The members of an object; `nil` for any other value.
    package var members: [String: JSON]? {
        if case .object(let members) = self { Dictionary(members) { $1 } } else { nil }
    }

    /// The elements of an array; `nil` for any other value.
    package var elements: [JSON]? { if case .array(let elements) = self { elements } else { nil } }

    /// The text of a string; `nil` for any other value.
    package var string: String? { if case .string(let text) = self { text } else { nil } }

    /// The member of an object; `nil` if it is missing, and for any other value.
    package subscript(name: String) -> JSON? {
        guard case .object(let members) = self else { return nil }
        return members.first { $0.0 == name }?.1
    }
}

extension JSON: Equatable {
    /// Compares the values. The order of members does not matter.
    package static func == (left: JSON, right: JSON) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.bool(let left), .bool(let right)): left == right
        case (.number(let left), .number(let right)): left == right
        case (.decimal(let left), .decimal(let right)), (.string(let left), .string(let right)): left == right
        case (.array(let left), .array(let right)): left == right
        case (.object(let first), .object(let second)): first.count == second.count && left.members == right.members
        default: false
        }
    }
}

// The printer.
extension JSON {
    private struct Layout {
        /// The level of indentation, by two spaces; `nil` for one line.
        var level: Int?
        /// True if equal values have equal texts: no spaces, and members in ascending order of their names.
        var isCanonical = false

        var inner: Layout { Layout(level: level.map { $0 + 1 }, isCanonical: isCanonical) }

        func startLine(in text: inout String) {
            if let level { text += "\n" + String(repeating: "  ", count: level) }
        }
    }

    /// Returns the JSON text, indented by two spaces per level, with empty arrays and objects on one line.
    package func text() -> String { written(Layout(level: 0)) }

    /// The JSON text on one line.
    package var line: String { written(Layout()) }

    /// The JSON text on one line without spaces, with members in ascending order of their names.
    package var canonicalText: String { written(Layout(isCanonical: true)) }

    private func written(_ layout: Layout) -> String {
        var text = ""
        write(to: &text, layout)
        return text
    }

    private func write(to text: inout String, _ layout: Layout) {
        switch self {
        case .null: text += "null"
        case .bool(let flag): text += flag ? "true" : "false"
        case .number(let number): text += String(number)
        case .decimal(let number): text += number
        case .string(let string): Self.writeQuoted(string, to: &text)
        case .array(let elements):
            Self.write(elements, in: ("[", "]"), to: &text, layout) { $0.write(to: &$1, layout.inner) }
        case .object(let members):
            let members = layout.isCanonical ? members.sorted { $0.0 < $1.0 } : members
            Self.write(members, in: ("{", "}"), to: &text, layout) { member, text in
                Self.writeQuoted(member.0, to: &text)
                text += layout.isCanonical ? ":" : ": "
                member.1.write(to: &text, layout.inner)
            }
        }
    }

    private static func write<Item>(
        _ items: [Item], in brackets: (String, String), to text: inout String, _ layout: Layout,
        _ write: (Item, inout String) -> Void
    ) {
        text += brackets.0
        for (index, item) in items.enumerated() {
            if index > 0 { text += "," }
            layout.inner.startLine(in: &text)
            write(item, &text)
        }
        if !items.isEmpty { layout.startLine(in: &text) }
        text += brackets.1
    }

    private static func writeQuoted(_ string: String, to text: inout String) {
        text += "\""
        for scalar in string.unicodeScalars {
            switch scalar {
            case "\"": text += "\\\""
            case "\\": text += "\\\\"
            case "\n": text += "\\n"
            case "\r": text += "\\r"
            case "\t": text += "\\t"
            case _ where scalar.value < 0x20 || scalar.value == 0x7F:
                let digits = String(scalar.value, radix: 16)
                text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: text.unicodeScalars.append(scalar)
            }
        }
        text += "\""
    }
}
