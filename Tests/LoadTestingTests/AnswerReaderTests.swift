import LoadTesting
import NIOCore
import Testing

@Suite("Reading answers")
struct AnswerReaderTests {
    struct Seen: Equatable {
        var statuses: [Int] = []
        var tags: [String?] = []
        var bodies: [String] = []
        var isClosed = false
    }

    /// Reads `text` in pieces of `size` bytes.
    private func read(_ text: String, inPiecesOf size: Int) throws -> Seen {
        var (reader, seen, body) = (AnswerReader(), Seen(), "")
        let bytes = Array(text.utf8)
        for start in stride(from: 0, to: bytes.count, by: size) {
            reader.feed(ByteBuffer(bytes: bytes[start..<min(bytes.count, start + size)]))
            while let part = try reader.next() {
                switch part {
                case .head(let head):
                    seen.statuses.append(head.status)
                    seen.tags.append(head.field("etag"))
                case .body(let piece): body += String(buffer: piece)
                case .end:
                    seen.bodies.append(body)
                    body = ""
                    seen.isClosed = reader.closes
                }
            }
        }
        return seen
    }

    private static let answers =
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\netag:  \"a b\" \r\ncontent-LENGTH: 5\r\n\r\nhello"
        + "HTTP/1.1 100 Continue\r\n\r\n"
        + "HTTP/1.1 304 Not Modified\r\nETag: \"c\"\r\nContent-Length: 99\r\n\r\n"
        + "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        + "4;x=y\r\nwiki\r\nA\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n"
        + "HTTP/1.1 412 Precondition Failed\nContent-Length: 0\r\nConnection: close\r\n\r\n"

    @Test("Answers are the same, however they are split", arguments: 1...9)
    func cutsDoNotMatter(size: Int) throws {
        let seen = try read(Self.answers, inPiecesOf: size)
        #expect(seen.statuses == [200, 304, 200, 412])
        #expect(seen.tags == ["\"a b\"", "\"c\"", nil, nil])
        #expect(seen.bodies == ["hello", "", "wiki0123456789", ""])
        #expect(seen.isClosed)
    }

    @Test(
        "Invalid answers are rejected",
        arguments: [
            "SSH-2.0-OpenSSH_9.2 and so on\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        ])
    func nonsenseIsRefused(text: String) {
        #expect(throws: AnswerReader.Malformed.self) { try read(text, inPiecesOf: 7) }
    }
}
