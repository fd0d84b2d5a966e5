package import Entitlements

/// Reads the objects of an export one at a time, in memory that does not grow with the file.
///
/// An export is one object a line (mongoexport), an array (`mongoexport --jsonArray`) or `{"results":[…]}` (parse.com).
/// Objects that span lines may follow one another if the caller allows it.
package struct ExportReader {
    /// An object of the export.
    package struct Object: Sendable {
        /// The object.
        package var value: JSON
        /// The line in which it begins, counted from 1.
        package var line: Int
    }

    /// The largest size of an object, in bytes: that of a document of MongoDB, written as JSON.
    package static let objectByteCount = 32 << 20

    private enum Form { case lines, documents, array, results }

    private let source: () throws -> [UInt8]
    private let maySpanLines: Bool
    private var form: Form?
    private var buffer: [UInt8] = []
    private var position = 0
    private var isAtEnd = false
    private var line = 1
    private var objectCount = 0
    /// The number of bytes that were read from the source.
    package private(set) var byteCount = 0
    /// The number of bytes that are held in memory.
    package var bufferedByteCount: Int { buffer.count }

    /// A reader of the bytes that `source` returns, piece by piece, until it returns none.
    ///
    /// - Parameter maySpanLines: True if an object that is not in an array may span lines.
    package init(maySpanLines: Bool = false, _ source: @escaping () throws -> [UInt8]) {
        (self.maySpanLines, self.source) = (maySpanLines, source)
    }

    /// The next object; `nil` at the end.
    ///
    /// - Throws: `InputError` with the line of a syntax error or of a file that is cut off, or the source's error.
    package mutating func next() throws -> Object? {
        if form == nil { form = try begin() }
        let object = try form == .lines ? nextLine() : nextElement()
        if object != nil { objectCount += 1 }
        return object
    }

    // MARK: Bytes

    /// The byte `offset` bytes ahead; `nil` at the end.
    private mutating func peek(_ offset: Int = 0) throws -> UInt8? {
        while position + offset >= buffer.count {
            guard try fill() else { return nil }
        }
        return buffer[position + offset]
    }

    /// Reads more bytes. Bytes before the position are dropped.
    private mutating func fill() throws -> Bool {
        guard !isAtEnd else { return false }
        let bytes = try source()
        guard !bytes.isEmpty else {
            isAtEnd = true
            return false
        }
        byteCount += bytes.count
        if position > 0 { buffer.removeSubrange(..<position) }
        position = 0
        buffer += bytes
        return true
    }

    private mutating func skipSpace() throws {
        while let byte = try peek(), [0x20, 0x09, 0x0A, 0x0D].contains(byte) {
            if byte == 0x0A { line += 1 }
            position += 1
        }
    }

    private func error(_ reason: String, line: Int? = nil) -> InputError {
        InputError(path: "line \(line ?? self.line)", reason: reason)
    }

    // MARK: Form

    private mutating func begin() throws -> Form {
        // A byte order mark.
        if try peek() == 0xEF, try peek(1) == 0xBB, try peek(2) == 0xBF { position += 3 }
        try skipSpace()
        switch try peek() {
        case nil: return .lines
        case UInt8(ascii: "["):
            position += 1
            return .array
        case UInt8(ascii: "{"):
            guard let length = try lengthOfResults() else { return maySpanLines ? .documents : .lines }
            line += buffer[position..<position + length].count { $0 == 0x0A }
            position += length
            return .results
        default:
            throw error("JSON is expected: an export of mongoexport, not BSON of mongodump and not CSV")
        }
    }

    /// The length of `{"results":[`; `nil` if the file begins otherwise.
    private mutating func lengthOfResults() throws -> Int? {
        var offset = 0
        for part in ["{", "\"results\"", ":", "["] {
            while let byte = try peek(offset), [0x20, 0x09, 0x0A, 0x0D].contains(byte), offset < 4_096 { offset += 1 }
            for byte in part.utf8 {
                guard try peek(offset) == byte else { return nil }
                offset += 1
            }
        }
        return offset
    }

    // MARK: Objects

    private mutating func nextLine() throws -> Object? {
        while true {
            var length = 0
            while let byte = try peek(length), byte != 0x0A {
                length += 1
                guard length <= Self.objectByteCount else { throw tooLong() }
            }
            let text = buffer[position..<position + length]
            let (number, isLast) = (line, isAtEnd && position + length == buffer.count)
            position += length + (isLast ? 0 : 1)
            line += isLast ? 0 : 1
            let isBlank = text.allSatisfy { [0x20, 0x09, 0x0D].contains($0) }
            if isBlank, isLast { return nil }
            if isBlank { continue }
            do {
                return Object(value: try object(text, line: number), line: number)
            } catch let failure as InputError {
                guard isLast else {
                    let isOpen = text.last { ![0x20, 0x09, 0x0D].contains($0) } != UInt8(ascii: "}")
                    let hint = isOpen ? "; an object must be on one line: export without --pretty" : ""
                    throw InputError(path: failure.path, reason: failure.reason + hint)
                }
                throw InputError(
                    path: failure.path, reason: "\(failure.reason); the last line is cut off: export again")
            }
        }
    }

    private mutating func nextElement() throws -> Object? {
        try skipSpace()
        guard var byte = try peek() else {
            guard form == .documents else { throw cutOff() }
            return nil
        }
        if form != .documents, byte == UInt8(ascii: "]") { return try end() }
        if form != .documents, objectCount > 0 {
            guard byte == UInt8(ascii: ",") else { throw error("a comma or ] is expected after an object") }
            position += 1
            try skipSpace()
            guard let next = try peek() else { throw cutOff() }
            byte = next
        }
        guard byte == UInt8(ascii: "{") else { throw error("an object is expected") }
        let start = line
        let length = try lengthOfElement()
        let text = buffer[position..<position + length]
        position += length
        line += text.count { $0 == 0x0A }
        return Object(value: try object(text, line: start), line: start)
    }

    /// The length of the object at the position, judging by braces outside of strings.
    private mutating func lengthOfElement() throws -> Int {
        var (length, depth, isText, isEscaped) = (0, 0, false, false)
        while let byte = try peek(length) {
            length += 1
            guard length <= Self.objectByteCount else { throw tooLong() }
            if isText {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte
                    == UInt8(ascii: "\"")
                {
                    isText = false
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""): isText = true
            case UInt8(ascii: "{"): depth += 1
            case UInt8(ascii: "}"):
                depth -= 1
                if depth == 0 { return length }
            default: break
            }
        }
        throw cutOff()
    }

    /// Reads what follows the last object. Called again, it finds the end again.
    private mutating func end() throws -> Object? {
        position += 1
        try skipSpace()
        if form == .results {
            guard let byte = try peek() else { throw cutOff() }
            guard byte == UInt8(ascii: "}") else { throw error("} is expected after the array of results") }
            position += 1
            try skipSpace()
        }
        guard try peek() == nil else { throw error("nothing is expected after the array") }
        form = .lines
        return nil
    }

    private func object(_ text: ArraySlice<UInt8>, line: Int) throws -> JSON {
        let value = try JSON(parsing: text, firstLine: line)
        guard case .object = value else { throw error("an object is expected, not \(value.typeName)", line: line) }
        return value
    }

    private func cutOff() -> InputError {
        error("the file ends within the \(form == .documents ? "object" : "array"), so it is cut off: export again")
    }

    private func tooLong() -> InputError {
        error("an object can have at most \(Self.objectByteCount) bytes")
    }
}
