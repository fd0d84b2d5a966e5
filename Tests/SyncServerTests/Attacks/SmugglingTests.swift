import Foundation
import TestSupport
import Testing

extension Attacks {
    @Suite("Request smuggling", .serialized)
    struct SmugglingTests {
        private static let post = "POST /healthz HTTP/1.1\r\nHost: x\r\n"
        private static let next = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        private static let chunked = post + "Transfer-Encoding: chunked\r\n\r\n"

        /// Ambiguous requests with their names. A request after one of them must never be answered.
        static let ambiguous: [(String, String)] = [
            ("length and coding", post + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG"),
            ("coding and length", post + "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\nG"),
            ("two lengths", post + "Content-Length: 6\r\nContent-Length: 5\r\n\r\n123456"),
            ("a length twice", post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n12345"),
            ("a list of lengths", post + "Content-Length: 5, 5\r\n\r\n12345"),
            ("a signed length", post + "Content-Length: +5\r\n\r\n12345"),
            ("a negative length", post + "Content-Length: -1\r\n\r\n12345"),
            ("a hexadecimal length", post + "Content-Length: 0x5\r\n\r\n12345"),
            ("a length beyond all numbers", post + "Content-Length: 99999999999999999999\r\n\r\n12345"),
            ("an empty length", post + "Content-Length: \r\n\r\n12345"),
            ("a length in two words", post + "Content-Length: 5 5\r\n\r\n12345"),
            ("a folded field", post + "X: a\r\n b\r\nContent-Length: 0\r\n\r\n"),
            ("a folded coding", post + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
            ("line feeds only", "GET /healthz HTTP/1.1\nHost: x\n\n"),
            ("a line feed after a field", "GET /healthz HTTP/1.1\r\nHost: x\nX: y\r\n\r\n"),
            ("a line feed at the end", "GET /healthz HTTP/1.1\r\nHost: x\r\n\n"),
            ("a carriage return in a field", "GET /healthz HTTP/1.1\r\nHost: x\rX: y\r\n\r\n"),
            ("a space before the colon", post + "Content-Length : 5\r\n\r\n12345"),
            ("a space before the coding's colon", post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
            ("a space before the first field", "GET /healthz HTTP/1.1\r\n Host: x\r\n\r\n"),
            ("another coding", post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
            ("a coding after chunked", post + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
            ("a coding before chunked", post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
            ("chunked twice", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            ("a control character before chunked", post + "Transfer-Encoding: \u{B}chunked\r\n\r\n0\r\n\r\n"),
            ("a chunk's line with a line feed", chunked + "5\n12345\r\n0\r\n\r\n"),
            ("an extension with a line feed", chunked + "5;a=\nb\r\n12345\r\n0\r\n\r\n"),
            ("a negative chunk", chunked + "-5\r\n12345\r\n0\r\n\r\n"),
            ("a chunk with 0x", chunked + "0x5\r\n12345\r\n0\r\n\r\n"),
            ("a chunk with a space", chunked + "5 \r\n12345\r\n0\r\n\r\n"),
            ("a chunk beyond all numbers", chunked + "FFFFFFFFFFFFFFFFF\r\n12345\r\n0\r\n\r\n"),
            ("a chunk longer than it says", chunked + "5\r\n12345XX0\r\n\r\n"),
            ("a chunk that ends with a line feed", chunked + "5\r\n12345\n0\r\n\r\n"),
            ("a last chunk with line feeds", chunked + "5\r\n12345\r\n0\n\n"),
            ("a length behind the body", chunked + "0\r\nContent-Length: 5\r\n\r\n"),
            ("chunks in HTTP/1.0", "POST /healthz HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            ("no host", "GET /healthz HTTP/1.1\r\n\r\n"),
            ("two hosts", "GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"),
            ("HTTP/1.2", "GET /healthz HTTP/1.2\r\nHost: x\r\n\r\n"),
            ("HTTP/2.0", "GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n"),
            ("HTTP/0.9", "GET /healthz\r\n\r\n"),
            ("the beginning of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
            ("a null in a field", "GET /healthz HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n"),
            ("a tab in the request line", "GET\t/healthz HTTP/1.1\r\nHost: x\r\n\r\n"),
            ("a field without colon", "GET /healthz HTTP/1.1\r\nHost: x\r\nfoo\r\n\r\n"),
            ("a field without name", "GET /healthz HTTP/1.1\r\nHost: x\r\n: foo\r\n\r\n"),
        ]

        @Test("An ambiguous request is refused, and the input after it is discarded")
        func ambiguous() throws {
            let server = try ServerProcess(store: "memory:", options: ["--log-level", "error"])
            for (name, text) in Self.ambiguous {
                let connection = try RawConnection(port: server.port)
                connection.send(text + Self.next + Self.next)
                let received = String(decoding: try #require(connection.receiveAll(), "\(name)"), as: UTF8.self)
                let heads = received.components(separatedBy: "HTTP/1.1 ")
                #expect(heads.count == 2, "\(name): \(received)")
                #expect(["400", "501", "505"].contains(heads.last?.prefix(3)), "\(name): \(received)")
                #expect(received.contains("application/problem+json"), "\(name): \(received)")
                #expect(received.lowercased().contains("connection: close"), "\(name): \(received)")
            }
            let text = try ask(server.port, "GET", "/metrics")?.text ?? ""
            #expect(text.contains(#"http_server_refusals_total{reason="malformed"} \#(Self.ambiguous.count)"#))
            #expect(server.stop() == 0)
        }

        @Test("An unambiguous request is answered, and so is the request after it")
        func plain() throws {
            let server = try ServerProcess(store: "memory:", options: ["--log-level", "error"])
            let plain = [
                Self.next, Self.post + "Content-Length: 5\r\n\r\n12345", Self.chunked + "5\r\n12345\r\n0\r\n\r\n",
                Self.chunked + "5;a=b\r\n12345\r\n0\r\n\r\n", Self.post + "Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n",
                "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345", "\r\n" + Self.next,
            ]
            for text in plain {
                let connection = try RawConnection(port: server.port)
                connection.send(text + Self.next)
                #expect(connection.answer() != nil, "\(text)")
                #expect(connection.answer()?.status == 200, "\(text)")
            }
            // HTTP/1.0 needs no Host, and the server closes the connection after the answer.
            let old = try RawConnection(port: server.port)
            old.send("GET /healthz HTTP/1.0\r\n\r\n")
            let received = String(decoding: try #require(old.receiveAll()), as: UTF8.self)
            #expect(received.hasPrefix("HTTP/1.1 200 ") && received.hasSuffix("up\n"))
            #expect(server.stop() == 0)
        }
    }
}
