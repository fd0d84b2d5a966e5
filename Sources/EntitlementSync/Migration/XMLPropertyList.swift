import Entitlements

/// A reader for the top level of an XML property list.
///
/// It supports the subset of XML that property lists use: elements, comments, character data and the five predefined
/// entities, in UTF-8. A document type with its own declarations is rejected.
struct XMLPropertyList {
    private let bytes: [UInt8]
    private var position = 0

    private struct Tag {
        var name: String
        /// `</name>`
        var isClosing = false
        /// `<name/>`
        var isEmpty = false
        var start: Int
    }

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        if bytes.starts(with: Self.byteOrderMark) { position = Self.byteOrderMark.count }
    }

    private static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]

    static func isXML(_ bytes: [UInt8]) -> Bool {
        let text = bytes.starts(with: byteOrderMark) ? bytes.dropFirst(3) : bytes[...]
        return text.first { !isSpace($0) } == UInt8(ascii: "<")
    }

    mutating func root() throws(InputError) -> [ProductID: PropertyList.Value] {
        guard String(validating: bytes, as: UTF8.self) != nil else {
            throw InputError(path: "", reason: "the XML property list is not UTF-8")
        }
        let plist = try tag()
        guard plist.name == "plist", !plist.isClosing, !plist.isEmpty else {
            throw failure("<plist> is expected", at: plist.start)
        }
        let dictionary = try tag()
        guard dictionary.name == "dict", !dictionary.isClosing else {
            throw failure(
                "user defaults must be a dictionary, not <\(dictionary.name.singleLine)>", at: dictionary.start)
        }
        let values = dictionary.isEmpty ? [:] : try entries()
        let end = try tag()
        guard end.name == "plist", end.isClosing else { throw failure("</plist> is expected", at: end.start) }
        try skipMisc()
        guard position == bytes.count else { throw failure("unexpected content after the end of the property list") }
        return values
    }

    private mutating func entries() throws(InputError) -> [ProductID: PropertyList.Value] {
        var values: [ProductID: PropertyList.Value] = [:]
        while true {
            let tag = try tag()
            if tag.isClosing, tag.name == "dict" { return values }
            guard tag.name == "key", !tag.isClosing else {
                throw failure("<key> or </dict> is expected, not <\(tag.name.singleLine)>", at: tag.start)
            }
            let key = ProductID(tag.isEmpty ? "" : try text(of: "key"))
            let value = try value(of: key)
            guard values.updateValue(value, forKey: key) == nil else {
                throw failure("duplicate key \"\(key.rawValue.singleLine)\"", at: tag.start)
            }
        }
    }

    private mutating func value(of key: ProductID) throws(InputError) -> PropertyList.Value {
        let tag = try tag()
        guard !tag.isClosing else {
            throw failure("the key \"\(key.rawValue.singleLine)\" has no value", at: tag.start)
        }
        switch tag.name {
        case "true", "false":
            let content = tag.isEmpty ? "" : try text(of: tag.name)
            guard content.utf8.allSatisfy(Self.isSpace) else {
                throw failure("<\(tag.name)> must be empty", at: tag.start)
            }
            return .bool(tag.name == "true")
        case "date":
            let text = tag.isEmpty ? "" : try text(of: "date")
            do { return .date(try Timestamp(Self.trimmed(text))) } catch { return .badDate("\(error)") }
        case "string", "integer", "real", "data":
            if !tag.isEmpty { _ = try text(of: tag.name) }
            let names = ["string": "a string", "data": "data"]
            return .other(names[tag.name] ?? "a number")
        case "array", "dict":
            if !tag.isEmpty { try skip(tag) }
            return .other(tag.name == "array" ? "an array" : "a dictionary")
        default:
            throw failure("<\(tag.name.singleLine)> is not a property list element", at: tag.start)
        }
    }

    /// Skips to the end of `outermost`, at any depth of nesting.
    private mutating func skip(_ outermost: Tag) throws(InputError) {
        var open = [outermost.name]
        while let innermost = open.last {
            while position < bytes.count, bytes[position] != UInt8(ascii: "<") { position += 1 }
            if try skipCharacterData() { continue }
            let tag = try tag()
            if tag.isClosing {
                guard tag.name == innermost else { throw failure("</\(innermost)> is expected", at: tag.start) }
                open.removeLast()
            } else if !tag.isEmpty {
                open.append(tag.name)
            }
        }
    }

    /// Returns the text up to `</name>`.
    private mutating func text(of name: String) throws(InputError) -> String {
        var text: [UInt8] = []
        while position < bytes.count {
            switch bytes[position] {
            case UInt8(ascii: "<"):
                let start = position
                if try skipCharacterData() {
                    text += bytes[(start + 9)..<(position - 3)]
                    continue
                }
                if follows("<!--") { try skipMisc(); continue }
                let end = try tag()
                guard end.isClosing, end.name == name else { throw failure("</\(name)> is expected", at: end.start) }
                return String(decoding: text, as: UTF8.self)
            case UInt8(ascii: "&"): text += Array(String(try entity()).utf8)
            case let byte:
                text.append(byte)
                position += 1
            }
        }
        throw failure("the file ends within <\(name)>")
    }

    private mutating func entity() throws(InputError) -> Character {
        let start = position
        let name = bytes[(position + 1)...].prefix(10).prefix { $0 != UInt8(ascii: ";") }
        position += name.count + 2
        let text = String(decoding: name, as: UTF8.self)
        let named: [String: Character] = ["lt": "<", "gt": ">", "amp": "&", "quot": "\"", "apos": "'"]
        if position <= bytes.count {
            if let character = named[text] { return character }
            let number = text.hasPrefix("#x") ? UInt32(text.dropFirst(2), radix: 16) : UInt32(text.dropFirst())
            if text.hasPrefix("#"), let scalar = number.flatMap(Unicode.Scalar.init), scalar.value != 0 {
                return Character(scalar)
            }
        }
        throw failure("unknown entity; write & as &amp;", at: start)
    }

    /// Returns the next tag, after white space and comments.
    private mutating func tag() throws(InputError) -> Tag {
        try skipMisc()
        guard position < bytes.count else { throw failure("the file ends where a tag is expected") }
        guard bytes[position] == UInt8(ascii: "<") else { throw failure("a tag is expected here") }
        var tag = Tag(name: "", start: position)
        position += 1
        if follows("/") {
            tag.isClosing = true
            position += 1
        }
        let name = bytes[position...].prefix { !Self.isSpace($0) && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: ">") }
        tag.name = String(decoding: name, as: UTF8.self)
        position += name.count
        // An attribute value may contain ">".
        var quote: UInt8?
        while position < bytes.count, quote != nil || bytes[position] != UInt8(ascii: ">") {
            let byte = bytes[position]
            if byte == quote {
                quote = nil
            } else if quote == nil, byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") {
                quote = byte
            }
            position += 1
        }
        guard position < bytes.count else { throw failure("the file ends within a tag", at: tag.start) }
        tag.isEmpty = bytes[position - 1] == UInt8(ascii: "/") && !tag.isClosing
        position += 1
        return tag
    }

    /// Skips white space, comments, the XML declaration and the document type.
    private mutating func skipMisc() throws(InputError) {
        while position < bytes.count {
            if Self.isSpace(bytes[position]) {
                position += 1
            } else if follows("<!--") {
                _ = try take(until: "-->")
            } else if follows("<?") {
                let declaration = String(decoding: try take(until: "?>"), as: UTF8.self).lowercased()
                guard !declaration.contains("encoding") || declaration.contains("utf-8") else {
                    throw failure("the XML property list must declare UTF-8")
                }
            } else if follows("<!DOCTYPE") {
                let start = position
                guard !(try take(until: ">")).contains(UInt8(ascii: "[")) else {
                    throw failure("a document type with declarations is not supported", at: start)
                }
            } else {
                return
            }
        }
    }

    /// Skips a `<![CDATA[…]]>` section. Returns `false` if there is none at this position.
    private mutating func skipCharacterData() throws(InputError) -> Bool {
        guard follows("<![CDATA[") else { return false }
        _ = try take(until: "]]>")
        return true
    }

    private mutating func take(until end: String) throws(InputError) -> ArraySlice<UInt8> {
        let start = position
        while position < bytes.count {
            if bytes[position] == end.utf8.first, follows(end) {
                position += end.utf8.count
                return bytes[start..<position]
            }
            position += 1
        }
        throw failure("\"\(end)\" is missing", at: start)
    }

    private func follows(_ text: String) -> Bool { bytes[position...].starts(with: text.utf8) }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }

    private static func trimmed(_ text: String) -> String {
        let bytes = text.utf8.drop(while: isSpace)
        return String(decoding: bytes.reversed().drop(while: isSpace).reversed(), as: UTF8.self)
    }

    private func failure(_ reason: String, at offset: Int? = nil) -> InputError {
        let before = bytes[..<min(offset ?? position, bytes.count)]
        let line = before.count { $0 == 0x0A } + 1
        let column = before.reversed().prefix { $0 != 0x0A }.count + 1
        return InputError(path: "line \(line), column \(column)", reason: reason)
    }
}
