import HTTPTypes
import SyncProtocol

/// The header of an answer, line by line as libcurl hands it out.
struct ResponseHead {
    private(set) var response: HTTPResponse?
    /// Whether its empty line has come. What comes later are trailers, which nobody asked for.
    private(set) var isComplete = false
    private let maximumByteCount: Int
    private var byteCount = 0
    /// The names of the fields, of this header and of those before: a server sends the same ones in the same order.
    private var names: [HTTPField.Name] = []

    init(maximumByteCount: Int) { self.maximumByteCount = maximumByteCount }

    /// Forgets the header, for another one.
    mutating func reset() { (response, isComplete, byteCount) = (nil, false, 0) }

    /// How long the body says that it is.
    var contentLength: Int? {
        response?.headerFields.value(of: .contentLength).flatMap { Int($0) }.flatMap { $0 < 0 ? nil : $0 }
    }

    /// Takes a line, with what ends it. Returns what is wrong, `nil` for nothing.
    mutating func add(_ raw: UnsafeRawBufferPointer) -> (kind: TransportError.Kind, message: String)? {
        byteCount += raw.count
        guard byteCount <= maximumByteCount else {
            return (.tooLarge, "the answer's header has more than \(maximumByteCount) bytes")
        }
        guard !isComplete else { return nil }
        var end = raw.count
        while end > 0, raw[end - 1] == 0x0D || raw[end - 1] == 0x0A { end -= 1 }
        guard end > 0 else {
            // One of 100 to 199 goes before another (RFC 9110, section 15.2).
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

    /// A line that goes on with the one before (RFC 9112, section 5.2).
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
        else { return (.malformed, "a line of the answer's header is no field") }
        response?.headerFields.append(HTTPField(name: name, value: Self.text(line, from: colon + 1)))
        return nil
    }

    /// The name of the field at `position`, which is most often that of the header before.
    private mutating func name(_ bytes: UnsafeRawBufferPointer, at position: Int) -> HTTPField.Name? {
        if position < names.count, names[position].rawName.utf8.elementsEqual(bytes) { return names[position] }
        guard let name = HTTPField.Name(String(decoding: bytes, as: UTF8.self)) else { return nil }
        names.removeSubrange(min(position, names.count)...)
        names.append(name)
        return name
    }

    /// What stands in `line` from an index on, without the spaces around it.
    private static func text(_ line: UnsafeRawBufferPointer, from start: Int) -> String {
        var (start, end) = (start, line.count)
        while start < end, line[start] == 0x20 || line[start] == 0x09 { start += 1 }
        while end > start, line[end - 1] == 0x20 || line[end - 1] == 0x09 { end -= 1 }
        return String(decoding: line[start..<end], as: UTF8.self)
    }
}
