extension JSON {
    /// Parses one JSON text (RFC 8259) with at most 64 levels of nesting. Repeated member names are rejected.
    ///
    /// Foundation's parser is not used, because on Linux it does not report the location of an error, and it would
    /// choose one of two members with the same name.
    ///
    /// - Parameter firstLine: The number of the first line in errors.
    /// - Throws: ``InputError`` with the path `line 4, column 7`. Columns are counted in bytes, from 1.
    package init(parsing bytes: some Collection<UInt8>, firstLine: Int = 1) throws(InputError) {
        var parser = JSONParser(bytes: Array(bytes), firstLine: firstLine)
        self = try parser.document()
    }

    /// Parses a text as ``init(parsing:firstLine:)`` does, and returns the line of each member and element by its path,
    /// such as `["products", "[3]", "duration"]`, counted from 1.
    package static func located(parsing bytes: [UInt8]) throws(InputError) -> (value: JSON, lines: [[String]: Int]) {
        var parser = JSONParser(bytes: bytes, isLocating: true)
        return (try parser.document(), parser.lines)
    }
}

/// A recursive-descent parser for JSON (RFC 8259).
private struct JSONParser {
    private let bytes: [UInt8]
    private let firstLine: Int
    private var position = 0
    private static let maximumDepth = 64
    /// `true` if the lines of members and elements are kept.
    private let isLocating: Bool
    private var path: [String] = []
    private(set) var lines: [[String]: Int] = [:]
    /// A position, and the number of line feeds before it.
    private var counted = (position: 0, lineFeeds: 0)

    init(bytes: [UInt8], firstLine: Int = 1, isLocating: Bool = false) {
        (self.bytes, self.firstLine, self.isLocating) = (bytes, firstLine, isLocating)
    }

    mutating func document() throws(InputError) -> JSON {
        guard String(validating: bytes, as: UTF8.self) != nil else {
            position = validUTF8Count
            throw failure("the text is not UTF-8")
        }
        let value = try value(depth: 0)
        skipSpace()
        guard position == bytes.count else { throw failure("unexpected text after the end") }
        return value
    }

    private mutating func value(depth: Int) throws(InputError) -> JSON {
        skipSpace()
        switch peek {
        case UInt8(ascii: "{") where depth == Self.maximumDepth, UInt8(ascii: "[") where depth == Self.maximumDepth:
            throw failure("nested deeper than \(Self.maximumDepth) levels")
        case UInt8(ascii: "{"): return try object(depth: depth)
        case UInt8(ascii: "["): return try array(depth: depth)
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "-"): return try number()
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        case let byte where isDigit(byte): return try number()
        case nil: throw failure("the text ends where a value is expected")
        default: throw failure("a value is expected here")
        }
    }

    private mutating func object(depth: Int) throws(InputError) -> JSON {
        position += 1
        var members: [(String, JSON)] = []
        var names: Set<String> = []
        skipSpace()
        if take("}") { return .object(members) }
        repeat {
            skipSpace()
            guard peek == UInt8(ascii: "\"") else { throw failure("a member name in quotes is expected") }
            let start = position
            let name = try string()
            skipSpace()
            guard take(":") else { throw failure("\":\" is expected after a member name") }
            members.append((name, try value(named: name, from: start, depth: depth + 1)))
            guard names.insert(name).inserted else {
                position = start
                throw failure("\"\(name.singleLine)\" is repeated")
            }
            skipSpace()
        } while take(",")
        guard take("}") else { throw failure("\",\" or \"}\" is expected") }
        return .object(members)
    }

    private mutating func array(depth: Int) throws(InputError) -> JSON {
        position += 1
        var elements: [JSON] = []
        skipSpace()
        if take("]") { return .array(elements) }
        repeat {
            skipSpace()
            elements.append(try value(named: "[\(elements.count)]", from: position, depth: depth + 1))
            skipSpace()
        } while take(",")
        guard take("]") else { throw failure("\",\" or \"]\" is expected") }
        return .array(elements)
    }

    /// Parses the value of a member or element whose text starts at `start`.
    private mutating func value(
        named name: @autoclosure () -> String, from start: Int, depth: Int
    ) throws(InputError) -> JSON {
        guard isLocating else { return try value(depth: depth) }
        path.append(name())
        counted.lineFeeds += bytes[counted.position..<start].count { $0 == 0x0A }
        counted.position = start
        lines[path] = counted.lineFeeds + 1
        let value = try value(depth: depth)
        path.removeLast()
        return value
    }

    private mutating func string() throws(InputError) -> String {
        position += 1
        var text: [UInt8] = []
        while let byte = peek {
            switch byte {
            case UInt8(ascii: "\""):
                position += 1
                return String(decoding: text, as: UTF8.self)
            case UInt8(ascii: "\\"):
                position += 1
                text.append(contentsOf: String(try escapedScalar()).utf8)
            case 0..<0x20:
                throw failure("a control character stands in a string, write it as \\u00XX")
            default:
                text.append(byte)
                position += 1
            }
        }
        throw failure("the string is not terminated")
    }

    private mutating func escapedScalar() throws(InputError) -> Unicode.Scalar {
        guard let byte = peek else { throw failure("the string is not terminated") }
        position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"):
            let first = try hexUnit()
            if let scalar = Unicode.Scalar(first) { return scalar }
            guard (0xD800..<0xDC00).contains(first), take("\\"), take("u") else {
                throw failure("unpaired surrogate")
            }
            let second = try hexUnit()
            guard (0xDC00..<0xE000).contains(second),
                let scalar = Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00))
            else { throw failure("unpaired surrogate") }
            return scalar
        default:
            throw failure("invalid escape sequence in a string")
        }
    }

    private mutating func hexUnit() throws(InputError) -> UInt32 {
        var unit: UInt32 = 0
        for _ in 0..<4 {
            guard let byte = peek, let digit = Character(UnicodeScalar(byte)).hexDigitValue else {
                throw failure("four hexadecimal digits are expected after \\u")
            }
            unit = unit << 4 | UInt32(digit)
            position += 1
        }
        return unit
    }

    private mutating func number() throws(InputError) -> JSON {
        let start = position
        _ = take("-")
        if take("0") {
            if isDigit(peek) { throw failure("a number must not have a leading zero") }
        } else {
            try digits()
        }
        var isInteger = true
        if take(".") {
            isInteger = false
            try digits()
        }
        if take("e") || take("E") {
            isInteger = false
            if !take("+") { _ = take("-") }
            try digits()
        }
        let text = String(decoding: bytes[start..<position], as: UTF8.self)
        if isInteger, let integer = Int64(text) { return .number(integer) }
        return .decimal(text)
    }

    private mutating func digits() throws(InputError) {
        guard isDigit(peek) else { throw failure("a digit is expected") }
        while isDigit(peek) { position += 1 }
    }

    private mutating func word(_ word: String, _ value: JSON) throws(InputError) -> JSON {
        guard bytes[position...].starts(with: word.utf8) else { throw failure("a value is expected here") }
        position += word.utf8.count
        return value
    }

    private var peek: UInt8? { position < bytes.count ? bytes[position] : nil }

    private func isDigit(_ byte: UInt8?) -> Bool {
        byte.map { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } ?? false
    }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard peek == UInt8(ascii: character) else { return false }
        position += 1
        return true
    }

    private mutating func skipSpace() {
        while let byte = peek, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { position += 1 }
    }

    /// The number of bytes before the first invalid UTF-8 sequence.
    private var validUTF8Count: Int {
        var parser = Unicode.UTF8.ForwardParser()
        var rest = bytes.makeIterator()
        var count = 0
        while case .valid(let scalar) = parser.parseScalar(from: &rest) { count += scalar.count }
        return count
    }

    private func failure(_ reason: String) -> InputError {
        let before = bytes[..<position]
        let line = before.count { $0 == 0x0A } + firstLine
        let column = before.reversed().prefix { $0 != 0x0A }.count + 1
        return InputError(line: line, column: column, reason: reason)
    }
}
