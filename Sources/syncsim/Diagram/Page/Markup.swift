/// Builds HTML from elements. Every string that is not a compile-time constant passes through ``escape(_:)``, so text
/// from a trace cannot become markup.
struct Markup: Sendable {
    private(set) var text = ""

    /// Appends an element with child elements.
    mutating func element(
        _ name: StaticString, _ attributes: KeyValuePairs<StaticString, String> = [:],
        _ content: (inout Markup) -> Void
    ) {
        open(name, attributes)
        content(&self)
        text += "</\(name)>"
    }

    /// Appends an element with text.
    mutating func element(
        _ name: StaticString, _ attributes: KeyValuePairs<StaticString, String> = [:], _ words: String
    ) {
        element(name, attributes) { $0.words(words) }
    }

    /// Appends an empty element. Void elements of HTML get no end tag.
    mutating func leaf(_ name: StaticString, _ attributes: KeyValuePairs<StaticString, String>, isVoid: Bool = false) {
        open(name, attributes)
        if !isVoid { text += "</\(name)>" }
    }

    private mutating func open(_ name: StaticString, _ attributes: KeyValuePairs<StaticString, String>) {
        text += "<\(name)"
        for (key, value) in attributes { text += " \(key)=\"\(Self.escape(value))\"" }
        text += ">"
    }

    /// Appends escaped text.
    mutating func words(_ words: String) { text += Self.escape(words) }

    /// Appends constant markup as it is.
    mutating func verbatim(_ markup: StaticString) { text += "\(markup)" }

    /// Appends a line break, to keep the source readable.
    mutating func endLine() { text += "\n" }

    /// Escapes `text` for HTML, inside and outside of quoted attributes.
    static func escape(_ text: String) -> String {
        var escaped = ""
        for scalar in visible(text).unicodeScalars {
            switch scalar {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            case "'": escaped += "&#39;"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }

    /// Puts `text` on one line: white space becomes a space, and invisible characters or those that change the text
    /// direction become replacement characters.
    static func visible(_ text: String) -> String {
        var visible = ""
        for scalar in text.unicodeScalars {
            switch scalar.value {
            case 0x09, 0x0A, 0x0D, 0x2028, 0x2029: visible.unicodeScalars.append(" ")
            case 0..<0x20, 0x7F..<0xA0, 0x200B...0x200F, 0x202A...0x202E, 0x2060...0x206F, 0xFEFF,
                0xFFFE...0xFFFF:
                visible.unicodeScalars.append("\u{FFFD}")
            default: visible.unicodeScalars.append(scalar)
            }
        }
        return visible
    }
}
