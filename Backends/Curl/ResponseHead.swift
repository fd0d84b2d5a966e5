import HTTPTypes
import SyncProtocol

/// A parser for the header of an answer, which libcurl delivers line by line.
struct ResponseHead {
    private(set) var response: HTTPResponse?
    /// True after the empty line. Later lines are trailers, which are ignored.
    private(set) var isComplete = false
    private let maximumByteCount: Int
    private var byteCount = 0
    /// The field names of this and the previous header. A server usually sends the same names in the same order.
    private var names: [HTTPField.Name] = []

    init(maximumByteCount: Int) { self.maximumByteCount = maximumByteCount }

    /// Resets the parser for the next header.
    mutating func reset() { (response, isComplete, byteCount) = (nil, false, 0) }

    /// The declared length of the body.
    var contentLength: Int? {
        response?.headerFields.value(of: .contentLength).flatMap { Int($0) }.flatMap { $0 < 0 ? nil : $0 }
    }

    /// Parses a line with its line ending.
    ///
    /// - Returns: the error, or `nil`.
    mutating func add(_ raw: UnsafeRawBufferPointer) -> (kind: TransportError.Kind, message: String)? {
        byteCount += raw.count
        guard byteCount <= maximumByteCount else {
            return (.tooLarge, "the answer's header has more than \(maximumByteCount) bytes")
        }
        guard !isComplete else { return nil }
        var end = raw.count
        while end > 0, raw[end - 1] == 0x0D || raw[end - 1] == 0x0A { end -= 1 }
        guard end > 0 else {
            // An interim response is followed by another one (RFC 9110, section 15.2).
            if let response, response.status.kind != .informational { isComplete = true }
            return nil
        }
        let line = UnsafeRawBufferPointer(rebasing: raw[..<end])
        if line.starts(with: Self.protocolName) { return begin(line) }
        if line[0] == 0x20 || line[0] == 0x09 { return fold(line) }
        return field(line)
    }

    private static let protocolName = Array("HTTP/".utf8)

    private mutating func begin(_ line: UnsafeRawBufferPointer) -> (TransportError.Kind, String)? {
        let rest = line.drop { $0 != 0x20 }.drop { $0 == 0x20 }
        guard let code = Int(String(decoding: rest.prefix { $0 != 0x20 }, as: UTF8.self)), (100...999).contains(code)
        else { return (.malformed, "the answer's first line has no status") }
        response = HTTPResponse(status: HTTPResponse.Status(code: code))
        return nil
    }

    /// Appends a folded line to the previous field (RFC 9112, section 5.2).
    private mutating func fold(_ line: UnsafeRawBufferPointer) -> (TransportError.Kind, String)? {
        guard var fields = response?.headerFields, let last = fields.last else {
            return (.malformed, "the answer's header begins with a space")
        }
        fields[fields.index(before: fields.endIndex)].value = last.value + " " + Self.text(line, from: 0)
        response?.headerFields = fields
        return nil
    }

    private mutating func field(_ line: UnsafeRawBufferPointer) -> (TransportError.Kind, String)? {
        guard let position = response?.headerFields.count, let colon = line.firstIndex(of: UInt8(ascii: ":")),
            let name = name(UnsafeRawBufferPointer(rebasing: line[..<colon]), at: position)
        else { return (.malformed, "a line of the answer's header is not a field") }
        response?.headerFields.append(HTTPField(name: name, value: Self.text(line, from: colon + 1)))
        return nil
    }

    /// The name of the field at `position`, which is usually the same as in the previous header.
    private mutating func name(_ bytes: UnsafeRawBufferPointer, at position: Int) -> HTTPField.Name? {
        if position < names.count, names[position].rawName.utf8.elementsEqual(bytes) { return names[position] }
        guard let name = HTTPField.Name(String(decoding: bytes, as: UTF8.self)) else { return nil }
        names.removeSubrange(min(position, names.count)...)
        names.append(name)
        return name
    }

    /// The text of `line` from an index, without surrounding spaces.
    private static func text(_ line: UnsafeRawBufferPointer, from start: Int) -> String {
        var (start, end) = (start, line.count)
        while start < end, line[start] == 0x20 || line[start] == 0x09 { start += 1 }
        while end > start, line[end - 1] == 0x20 || line[end - 1] == 0x09 { end -= 1 }
        return String(decoding: line[start..<end], as: UTF8.self)
    }
}
