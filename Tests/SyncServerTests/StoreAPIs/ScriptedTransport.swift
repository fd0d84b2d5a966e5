import Foundation
import HTTPTypes
import SyncCore
import SyncProtocol
import Synchronization
import TestSupport
import Testing

/// A transport that records requests and sends prepared responses in order; after the last it is unreachable.
final class ScriptedTransport: HTTPTransport {
    struct Sent: Sendable {
        var request: HTTPRequest
        var body: String

        /// Method and path.
        var line: String { "\(request.method.rawValue) \(request.path ?? "")" }
        var bearer: String { String((request.headerFields[.authorization] ?? "").dropFirst("Bearer ".count)) }
    }

    private let state: Mutex<(answers: [TransportAnswer], sent: [Sent])>
    var sent: [Sent] { state.withLock { $0.sent } }

    init(_ answers: [TransportAnswer]) { state = Mutex((answers, [])) }

    func send(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
    ) async throws(TransportError) -> TransportAnswer {
        let answer = state.withLock { state -> TransportAnswer? in
            state.sent.append(Sent(request: request, body: String(decoding: body, as: UTF8.self)))
            return state.answers.isEmpty ? nil : state.answers.removeFirst()
        }
        guard let answer else { throw TransportError(.unreachable, mayHaveArrived: false, message: "no server") }
        guard answer.body.count <= maximumByteCount else {
            throw TransportError(.tooLarge, mayHaveArrived: true, message: "too large")
        }
        return answer
    }

    static func answer(_ status: Int, _ body: String, retryAfter: String? = nil) -> TransportAnswer {
        var response = HTTPResponse(status: .init(code: status))
        response.headerFields[.retryAfter] = retryAfter
        return TransportAnswer(response, body: Array(body.utf8))
    }
}

/// A JSON Web Signature in compact form that a client sent.
struct SentToken {
    let header: [String: String]
    let payload: Data
    /// The bytes that are signed.
    let signed: Data
    let signature: Data

    init(_ text: String) throws {
        let parts = text.split(separator: ".")
        try #require(parts.count == 3)
        let bytes = try parts.map { part in
            let padded = part.replacing("-", with: "+").replacing("_", with: "/")
            return try #require(
                Data(base64Encoded: padded + String(repeating: "=", count: (4 - padded.count % 4) % 4)))
        }
        header = try JSONDecoder().decode([String: String].self, from: bytes[0])
        (payload, signature) = (bytes[1], bytes[2])
        signed = Data("\(parts[0]).\(parts[1])".utf8)
    }
}
