/// HTML that is put together from elements. Everything that is not known when this is compiled passes through
/// ``escape(_:)``, so text from a trace cannot become markup.
struct Markup: Sendable {
    private(set) var text = ""

    /// An element with elements in it.
    mutating func element(
        _ name: StaticString, _ attributes: KeyValuePairs<StaticString, String> = [:],
        _ content: (inout Markup) -> Void
    ) {
        open(name, attributes)
        content(&self)
        text += "</\(name)>"
    }

    /// An element with text in it.
    mutating func element(
        _ name: StaticString, _ attributes: KeyValuePairs<StaticString, String> = [:], _ words: String
    ) {
        element(name, attributes) { $0.words(words) }
    }

    /// An element with nothing in it; one of HTML's void elements has no end either.
    mutating func leaf(_ name: StaticString, _ attributes: KeyValuePairs<StaticString, String>, isVoid: Bool = false) {
        open(name, attributes)
        if !isVoid { text += "</\(name)>" }
    }

    private mutating func open(_ name: StaticString, _ attributes: KeyValuePairs<StaticString, String>) {
        text += "<\(name)"
        for (key, value) in attributes { text += " \(key)=\"\(Self.escape(value))\"" }
        text += ">"
    }

    /// Text.
    mutating func words(_ words: String) { text += Self.escape(words) }

    /// Markup that stands in the source as it is.
    mutating func verbatim(_ markup: StaticString) { text += "\(markup)" }

    /// Begins a new line of the source, for whoever reads that.
    mutating func endLine() { text += "\n" }

    /// `text` as it stands in HTML, inside and outside of quoted attributes.
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

    /// `text` in a line: white space is a space, and what cannot be seen or would turn the direction of what follows is
    /// a replacement character.
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
