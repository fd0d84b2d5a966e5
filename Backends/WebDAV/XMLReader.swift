/// A parser for the XML of WebDAV servers, in one pass and with memory proportional to the input.
///
/// It rejects what such servers do not send: document types, and therefore all entities except the five predefined
/// ones; encodings other than UTF-8; and unlimited nesting. Nothing can expand.
struct XMLReader {
    /// A parsing event.
    enum Event: Hashable {
        /// The start of an element, with its namespace and name.
        case start(namespace: String, name: String)
        /// Text of the current element.
        case text([UInt8])
        /// The end of the current element.
        case end
    }

    /// The input is not XML, or uses unsupported XML.
    struct Malformed: Error {}

    private static let deepest = 64
    private static let mostNamespaces = 256

    private let bytes: [UInt8]
    private var index = 0
    /// The open elements, with the number of namespaces in scope before each.
    private var open: [(name: [UInt8], namespaceCount: Int)] = []
    /// The prefixes and their namespaces, the innermost last.
    private var namespaces: [(prefix: [UInt8], namespace: String)] = []
    private var hasRoot = false
    private var isEndPending = false

    init(_ bytes: [UInt8]) throws(Malformed) {
        guard String(validating: bytes, as: UTF8.self) != nil else { throw Malformed() }
        self.bytes = bytes
        if starts(with: "\u{FEFF}") { index += 3 }
    }

    /// Returns the next event; `nil` at the end of the document.
    mutating func next() throws(Malformed) -> Event? {
        if isEndPending { return try end() }
        while index < bytes.count {
            if bytes[index] != UInt8(ascii: "<") {
                let text = try text()
                if !open.isEmpty { return .text(text) }
                guard text.allSatisfy(Self.isSpace) else { throw Malformed() }
            } else if starts(with: "<?") {
                try skip(past: "?>")
            } else if starts(with: "<!--") {
                try skip(past: "-->")
            } else if starts(with: "<![CDATA["), !open.isEmpty {
                let begin = index + 9
                try skip(past: "]]>")
                guard begin <= index - 3 else { throw Malformed() }
                return .text(Array(bytes[begin..<(index - 3)]))
            } else if starts(with: "</") {
                index += 2
                let name = try name()
                skipSpace()
                guard take(UInt8(ascii: ">")), open.last?.name == name else { throw Malformed() }
                return try end()
            } else {
                // A document type starts with "<!", which is not a name and is rejected.
                return try start()
            }
        }
        guard hasRoot, open.isEmpty else { throw Malformed() }
        return nil
    }

    private mutating func start() throws(Malformed) -> Event {
        index += 1
        guard !(hasRoot && open.isEmpty), open.count < Self.deepest else { throw Malformed() }
        hasRoot = true
        let name = try name()
        open.append((name, namespaces.count))
        while true {
            let hadSpace = skipSpace()
            if take(UInt8(ascii: ">")) { break }
            if take(UInt8(ascii: "/")) {
                guard take(UInt8(ascii: ">")) else { throw Malformed() }
                isEndPending = true
                break
            }
            guard hadSpace else { throw Malformed() }
            try attribute()
        }
        let parts = name.split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
        let prefix = parts.count == 2 ? Array(parts[0]) : []
        let namespace = namespaces.last { $0.prefix == prefix }?.namespace
        // Without a declaration there is no namespace. A prefix requires one.
        guard namespace != nil || prefix.isEmpty || prefix == Array("xml".utf8) else { throw Malformed() }
        return .start(namespace: namespace ?? "", name: String(decoding: parts[parts.count - 1], as: UTF8.self))
    }

    private mutating func attribute() throws(Malformed) {
        let name = try name()
        skipSpace()
        guard take(UInt8(ascii: "=")) else { throw Malformed() }
        skipSpace()
        guard index < bytes.count, [UInt8(ascii: "\""), UInt8(ascii: "'")].contains(bytes[index]) else {
            throw Malformed()
        }
        let quote = bytes[index]
        guard let end = bytes[(index + 1)...].firstIndex(of: quote) else { throw Malformed() }
        let value = bytes[(index + 1)..<end]
        index = end + 1
        guard !value.contains(UInt8(ascii: "<")) else { throw Malformed() }
        let mark = Array("xmlns".utf8)
        guard name.starts(with: mark) else { return }
        let prefix = name.dropFirst(mark.count)
        guard prefix.isEmpty || prefix.first == UInt8(ascii: ":") else { return }
        guard namespaces.count < Self.mostNamespaces else { throw Malformed() }
        let namespace = String(decoding: try Self.resolved(value), as: UTF8.self)
        namespaces.append((Array(prefix.dropFirst()), namespace))
    }

    private mutating func end() throws(Malformed) -> Event {
        isEndPending = false
        guard let element = open.popLast() else { throw Malformed() }
        namespaces.removeLast(namespaces.count - element.namespaceCount)
        return .end
    }

    private mutating func text() throws(Malformed) -> [UInt8] {
        let end = bytes[index...].firstIndex(of: UInt8(ascii: "<")) ?? bytes.count
        defer { index = end }
        return try Self.resolved(bytes[index..<end])
    }

    /// Resolves references: numeric ones, and the five predefined entities.
    private static func resolved(_ text: ArraySlice<UInt8>) throws(Malformed) -> [UInt8] {
        guard text.contains(UInt8(ascii: "&")) else { return Array(text) }
        var result: [UInt8] = []
        var rest = text
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "&") else {
                result.append(byte)
                continue
            }
            guard let end = rest.prefix(12).firstIndex(of: UInt8(ascii: ";")) else { throw Malformed() }
            result += try character(String(decoding: rest[..<end], as: UTF8.self))
            rest = rest[(end + 1)...]
        }
        return result
    }

    private static func character(_ reference: String) throws(Malformed) -> [UInt8] {
        switch reference {
        case "amp": return Array("&".utf8)
        case "lt": return Array("<".utf8)
        case "gt": return Array(">".utf8)
        case "quot": return Array("\"".utf8)
        case "apos": return Array("'".utf8)
        default:
            let isHexadecimal = reference.hasPrefix("#x")
            let digits = reference.dropFirst(isHexadecimal ? 2 : 1)
            guard reference.hasPrefix("#"), digits.first?.isHexDigit == true,
                let number = UInt32(digits, radix: isHexadecimal ? 16 : 10), number > 0,
                let scalar = Unicode.Scalar(number)
            else { throw Malformed() }
            return Array(String(Character(scalar)).utf8)
        }
    }

    private mutating func name() throws(Malformed) -> [UInt8] {
        let begin = index
        while index < bytes.count, Self.isOfName(bytes[index]) { index += 1 }
        guard index > begin, !Self.isDigit(bytes[begin]) else { throw Malformed() }
        return Array(bytes[begin..<index])
    }

    /// Returns true for a byte of a name. All non-ASCII characters are accepted.
    private static func isOfName(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x61...0x7A, 0x41...0x5A, 0x80...0xFF: true
        default: isDigit(byte) || ":_-.".utf8.contains(byte)
        }
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

    private static func isSpace(_ byte: UInt8) -> Bool { [0x20, 0x09, 0x0A, 0x0D].contains(byte) }

    @discardableResult
    private mutating func skipSpace() -> Bool {
        let begin = index
        while index < bytes.count, Self.isSpace(bytes[index]) { index += 1 }
        return index > begin
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard index < bytes.count, bytes[index] == byte else { return false }
        index += 1
        return true
    }

    private func starts(with text: String) -> Bool { bytes[index...].starts(with: text.utf8) }

    private mutating func skip(past text: String) throws(Malformed) {
        let mark = Array(text.utf8)
        while index < bytes.count {
            if bytes[index...].starts(with: mark) {
                index += mark.count
                return
            }
            index += 1
        }
        throw Malformed()
    }
}
