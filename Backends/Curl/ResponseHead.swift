import HTTPTypes
import SyncProtocol

/// The header of an answer, line by line as libcurl hands it out.
struct ResponseHead {
    private(set) var response: HTTPResponse?
    /// Whether its empty line has come. What comes later are trailers, which nobody asked for.
    private(set) var isComplete = false
    private let maximumByteCount: Int
    private var byteCount = 0

    init(maximumByteCount: Int) { self.maximumByteCount = maximumByteCount }

    /// How long the body says that it is.
    var contentLength: Int? { response?.headerFields[.contentLength].flatMap { Int($0) }.flatMap { $0 < 0 ? nil : $0 } }

    /// Takes a line, with what ends it. Returns what is wrong, `nil` for nothing.
    mutating func add(_ raw: UnsafeRawBufferPointer) -> (kind: TransportError.Kind, message: String)? {
        byteCount += raw.count
        guard byteCount <= maximumByteCount else {
            return (.tooLarge, "the answer's header has more than \(maximumByteCount) bytes")
        }
        guard !isComplete else { return nil }
        var line = raw[...]
        while let last = line.last, last == 0x0D || last == 0x0A { line = line.dropLast() }
        if line.isEmpty {
            // One of 100 to 199 goes before another (RFC 9110, section 15.2).
            if let response, response.status.kind != .informational { isComplete = true }
            return nil
        }
        if line.starts(with: Self.protocolName) { return begin(line) }
        if line.first == 0x20 || line.first == 0x09 { return fold(line) }
        return field(line)
    }

    private static let protocolName = Array("HTTP/".utf8)

    private mutating func begin(_ line: Slice<UnsafeRawBufferPointer>) -> (TransportError.Kind, String)? {
        let rest = line.drop { $0 != 0x20 }.drop { $0 == 0x20 }
        guard let code = Int(String(decoding: rest.prefix { $0 != 0x20 }, as: UTF8.self)), (100...999).contains(code)
        else { return (.malformed, "the answer's first line has no status") }
        response = HTTPResponse(status: HTTPResponse.Status(code: code))
        return nil
    }

    /// A line that goes on with the one before (RFC 9112, section 5.2).
    private mutating func fold(_ line: Slice<UnsafeRawBufferPointer>) -> (TransportError.Kind, String)? {
        guard var fields = response?.headerFields, let last = fields.last else {
            return (.malformed, "the answer's header begins with a space")
        }
        fields[fields.index(before: fields.endIndex)].value = last.value + " " + Self.text(line)
        response?.headerFields = fields
        return nil
    }

    private mutating func field(_ line: Slice<UnsafeRawBufferPointer>) -> (TransportError.Kind, String)? {
        guard response != nil, let colon = line.firstIndex(of: UInt8(ascii: ":")),
            let name = HTTPField.Name(String(decoding: line[..<colon], as: UTF8.self))
        else { return (.malformed, "a line of the answer's header is no field") }
        response?.headerFields.append(HTTPField(name: name, value: Self.text(line[colon...].dropFirst())))
        return nil
    }

    private static func text(_ bytes: Slice<UnsafeRawBufferPointer>) -> String {
        var text = bytes.drop { $0 == 0x20 || $0 == 0x09 }
        while let last = text.last, last == 0x20 || last == 0x09 { text = text.dropLast() }
        return String(decoding: text, as: UTF8.self)
    }
}
