package import NIOCore

/// The status line and fields of an answer.
package struct AnswerHead: Sendable {
    package let status: Int
    /// The whole head, with the empty line at its end.
    let bytes: ByteBuffer

    /// The value of the field `name`, which is in lower case.
    package func field(_ name: String) -> String? {
        for line in bytes.readableBytesView.split(separator: UInt8(ascii: "\n")).dropFirst() {
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")),
                line[..<colon].elementsEqual(name.utf8, by: { AnswerReader.small($0) == $1 })
            else { continue }
            return AnswerReader.trimmed(line[line.index(after: colon)...])
        }
        return nil
    }
}

/// An incremental reader of HTTP/1.1 answers that interprets only what a load generator needs.
package struct AnswerReader: Sendable {
    package enum Part: Sendable {
        case head(AnswerHead)
        case body(ByteBuffer)
        /// The end of the answer.
        case end
    }

    /// The bytes are not an HTTP/1.1 answer.
    package struct Malformed: Error {}

    private enum State: Sendable {
        case head
        case counted(Int)
        case chunkSize
        case chunk(Int)
        case chunkEnd
        case trailer
        case untilClosed
        case finished
    }

    private static let longestHead = 64 << 10

    private var state = State.head
    private var buffer = ByteBuffer()
    /// True if the server closes the connection after this answer.
    package private(set) var closes = false

    package init() {}

    /// Appends received bytes.
    package mutating func feed(_ bytes: ByteBuffer) {
        if buffer.readableBytes == 0 { buffer = bytes } else { buffer.writeImmutableBuffer(bytes) }
    }

    /// The next part, or `nil` when more bytes are needed.
    package mutating func next() throws(Malformed) -> Part? {
        switch state {
        case .head: return try readHead()
        case .counted(let left):
            guard left > 0 else { return finish() }
            guard let piece = take(left) else { return nil }
            state = .counted(left - piece.readableBytes)
            return .body(piece)
        case .chunkSize:
            guard let line = try readLine() else { return nil }
            let digits = line.prefix { $0 != UInt8(ascii: ";") && $0 != UInt8(ascii: " ") }
            guard digits.count <= 15, let size = Int(String(decoding: digits, as: UTF8.self), radix: 16), size >= 0
            else { throw Malformed() }
            state = size == 0 ? .trailer : .chunk(size)
            return try next()
        case .chunk(let left):
            guard let piece = take(left) else { return nil }
            state = left == piece.readableBytes ? .chunkEnd : .chunk(left - piece.readableBytes)
            return .body(piece)
        case .chunkEnd:
            guard let line = try readLine() else { return nil }
            guard line.isEmpty else { throw Malformed() }
            state = .chunkSize
            return try next()
        case .trailer:
            while let line = try readLine() { if line.isEmpty { return finish() } }
            return nil
        case .untilClosed: return take(buffer.readableBytes).map { .body($0) }
        case .finished:
            state = .head
            return try next()
        }
    }

    private mutating func finish() -> Part {
        state = .finished
        return .end
    }

    private mutating func take(_ most: Int) -> ByteBuffer? {
        buffer.readableBytes == 0 ? nil : buffer.readSlice(length: min(most, buffer.readableBytes))
    }

    private mutating func readLine() throws(Malformed) -> [UInt8]? {
        guard let end = buffer.readableBytesView.firstIndex(of: UInt8(ascii: "\n")) else {
            guard buffer.readableBytes < Self.longestHead else { throw Malformed() }
            return nil
        }
        guard var line = buffer.readBytes(length: end + 1 - buffer.readerIndex) else { return nil }
        line.removeLast()
        if line.last == UInt8(ascii: "\r") { line.removeLast() }
        return line
    }

    private mutating func readHead() throws(Malformed) -> Part? {
        guard let length = Self.headLength(buffer.readableBytesView) else {
            guard buffer.readableBytes < Self.longestHead else { throw Malformed() }
            return nil
        }
        guard let bytes = buffer.readSlice(length: length) else { return nil }
        guard let found = bytes.withUnsafeReadableBytes(Framing.init) else { throw Malformed() }
        // An interim response (RFC 9110, section 15.2).
        if (100..<200).contains(found.status) { return try next() }
        closes = found.closes
        if found.status == 204 || found.status == 304 {
            state = .counted(0)
        } else if found.isChunked {
            state = .chunkSize
        } else if let count = found.contentLength {
            state = .counted(count)
        } else {
            (state, closes) = (.untilClosed, true)
        }
        return .head(AnswerHead(status: found.status, bytes: bytes))
    }

    /// The length of the head at the front of `view`, with the empty line.
    private static func headLength(_ view: ByteBufferView) -> Int? {
        view.withUnsafeBytes { bytes in
            var index = 3
            // CR LF CR LF is four bytes long, so that looking at every fourth byte finds it.
            while index < bytes.count {
                switch bytes[index] {
                case UInt8(ascii: "\n"):
                    if bytes[index - 1] == UInt8(ascii: "\r"), bytes[index - 2] == UInt8(ascii: "\n"),
                        bytes[index - 3] == UInt8(ascii: "\r")
                    {
                        return index + 1
                    }
                    index += 2
                case UInt8(ascii: "\r"): index += 1
                default: index += 4
                }
            }
            return nil
        }
    }

    static func small(_ byte: UInt8) -> UInt8 {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
    }

    static func trimmed(_ bytes: some Sequence<UInt8>) -> String {
        let text = String(decoding: Array(bytes), as: UTF8.self)
        let inner = text.drop { $0 == " " || $0 == "\t" }
        return String(inner.prefix { $0 != "\r" && $0 != "\n" && $0 != "\r\n" }.trimmedEnd)
    }
}

extension Substring {
    fileprivate var trimmedEnd: Substring {
        var text = self
        while text.last == " " || text.last == "\t" { text.removeLast() }
        return text
    }
}

/// The fields that determine where an answer ends (RFC 9112, section 6.3).
private struct Framing {
    var status = 0
    var contentLength: Int?
    var isChunked = false
    var closes = false

    init?(_ bytes: UnsafeRawBufferPointer) {
        let prefix: StaticString = "HTTP/1."
        guard bytes.count > 12, Self.begins(bytes, at: 0, with: prefix) else { return nil }
        for byte in bytes[9..<12] {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
            status = status * 10 + Int(byte - UInt8(ascii: "0"))
        }
        closes = bytes[7] == UInt8(ascii: "0")
        var start = 0
        for index in bytes.indices where bytes[index] == UInt8(ascii: "\n") {
            guard read(bytes, from: start, to: index) else { return nil }
            start = index + 1
        }
    }

    /// Reads one line and returns `false` if it is invalid.
    private mutating func read(_ bytes: UnsafeRawBufferPointer, from start: Int, to end: Int) -> Bool {
        switch AnswerReader.small(bytes[start]) {
        case UInt8(ascii: "c") where Self.begins(bytes, at: start, with: "content-length:"):
            let text = AnswerReader.trimmed(bytes[(start + 15)..<end])
            guard let count = Int(text), count >= 0, contentLength == nil || contentLength == count else {
                return false
            }
            contentLength = count
        case UInt8(ascii: "c") where Self.begins(bytes, at: start, with: "connection:"):
            if AnswerReader.trimmed(bytes[(start + 11)..<end]).lowercased() == "close" { closes = true }
        case UInt8(ascii: "t") where Self.begins(bytes, at: start, with: "transfer-encoding:"):
            guard AnswerReader.trimmed(bytes[(start + 18)..<end]).lowercased() == "chunked" else { return false }
            isChunked = true
        default: break
        }
        return true
    }

    private static func begins(_ bytes: UnsafeRawBufferPointer, at start: Int, with text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        guard bytes.count - start >= count else { return false }
        let isName = text.utf8Start[count - 1] == UInt8(ascii: ":")
        for index in 0..<count {
            let byte = isName ? AnswerReader.small(bytes[start + index]) : bytes[start + index]
            if byte != text.utf8Start[index] { return false }
        }
        return true
    }
}
