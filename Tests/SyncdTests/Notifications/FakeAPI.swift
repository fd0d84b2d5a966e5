import Foundation
import Synchronization
import TestSupport

/// A server of JSON over HTTP on this machine, for stand-ins of the stores' APIs.
final class FakeAPI: Sendable {
    struct Request: Sendable {
        var method: String
        /// The path without the query.
        var path: String
        var query: [String: String]
        var bearer: String
        var body: String

        /// The body as a JSON object; empty if it is none.
        var object: [String: Any] { FakeAPI.object(Data(body.utf8)) }
    }

    struct Answer: Sendable {
        var status = "200 OK"
        var fields = ""
        var body: String

        static func error(_ status: String, _ code: Int64, _ message: String) -> Answer {
            Answer(status: status, body: #"{"errorCode":\#(code),"errorMessage":"\#(message)"}"#)
        }
    }

    private let server: RawServer
    private let log: Log

    private final class Log: Sendable {
        let requests = Mutex<[Request]>([])
    }

    /// `http://127.0.0.1:PORT`.
    var url: String { "http://\(server.authority)" }
    /// The requests so far.
    var requests: [Request] { log.requests.withLock { $0 } }

    init(_ handle: @escaping @Sendable (Request) -> Answer) throws {
        let log = Log()
        self.log = log
        server = try RawServer { connection, _ in
            while let text = connection.readRequest(), let request = Request(text) {
                log.requests.withLock { $0.append(request) }
                let answer = handle(request)
                connection.answer(
                    answer.body, fields: "Content-Type: application/json\r\n" + answer.fields, status: answer.status)
            }
        }
    }

    static func object(_ data: Data) -> [String: Any] {
        ((try? JSONSerialization.jsonObject(with: data)) as? [String: Any]) ?? [:]
    }

    /// The bytes of base64url without padding.
    static func decoded(_ text: some StringProtocol) -> Data {
        let plain = String(text).replacing("-", with: "+").replacing("_", with: "/")
        return Data(base64Encoded: plain + String(repeating: "=", count: (4 - plain.count % 4) % 4)) ?? Data()
    }
}

extension FakeAPI.Request {
    fileprivate init?(_ text: String) {
        guard let end = text.firstRange(of: "\r\n\r\n") else { return nil }
        let lines = text[..<end.lowerBound].split(separator: "\r\n")
        let words = lines.first?.split(separator: " ") ?? []
        guard words.count == 3, let url = URLComponents(string: String(words[1])) else { return nil }
        (method, path, body) = (String(words[0]), url.percentEncodedPath, String(text[end.upperBound...]))
        query = Dictionary((url.queryItems ?? []).map { ($0.name, $0.value ?? "") }) { $1 }
        let field = lines.first { $0.lowercased().hasPrefix("authorization: bearer ") }
        bearer = String(field?.dropFirst("authorization: bearer ".count) ?? "")
    }
}
