import CurlTransport
import Entitlements
import Foundation
import HTTPTypes
import SyncProtocol
import Synchronization

/// A link to a real server that fails as a scenario says.
final class FaultyLink: HTTPTransport {
    /// A fault of one request.
    enum Fault: String {
        /// The server gets nothing.
        case loseRequest = "lose-request"
        /// The server acts, and the device gets no response.
        case loseAnswer = "lose-answer"
        /// A response 401 without an act of the server, as for an expired token.
        case refuseToken = "refuse-token"
        /// A page of HTML, as from a captive portal.
        case foreign
    }

    private struct State {
        var isDown = false
        var hasUnknownFields = false
        var faults: [(fault: Fault, path: String)] = []
    }

    private let client: CurlClient
    private let state = Mutex(State())

    init() throws { client = try CurlClient() }

    /// Sets whether all requests fail.
    func setDown(_ isDown: Bool) { state.withLock { $0.isDown = isDown } }

    /// Adds an unknown member to each JSON object in a response, from now on.
    func addUnknownFields() { state.withLock { $0.hasUnknownFields = true } }

    /// Makes the next request to a path that begins with `path` fail.
    func fail(_ fault: Fault, path: String) { state.withLock { $0.faults.append((fault, path)) } }

    func send(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
    ) async throws(TransportError) -> TransportAnswer {
        let (isDown, fault, hasUnknownFields) = state.withLock { state in
            guard !state.isDown,
                let index = state.faults.firstIndex(where: { (request.path ?? "").hasPrefix($0.path) })
            else { return (state.isDown, nil as Fault?, state.hasUnknownFields) }
            return (false, state.faults.remove(at: index).fault, state.hasUnknownFields)
        }
        switch fault {
        case nil where isDown, .loseRequest:
            throw TransportError(.unreachable, mayHaveArrived: false, message: "the server does not respond")
        case .refuseToken:
            let problem = #"{"type":"about:blank","title":"Unauthorized","status":401,"detail":"it has expired"}"#
            return answer(.unauthorized, "application/problem+json", problem)
        case .foreign: return answer(.ok, "text/html", "<!doctype html><title>Welcome</title>")
        case .loseAnswer, nil: break
        }
        var answer = try await client.send(request, body: body, timeout: timeout, maximumByteCount: maximumByteCount)
        guard fault != .loseAnswer else {
            throw TransportError(.interrupted, mayHaveArrived: true, message: "the connection broke")
        }
        guard hasUnknownFields, answer.response.headerFields[.contentType]?.contains("json") == true,
            let value = try? JSON(parsing: answer.body)
        else { return answer }
        answer.body = Array(Self.withUnknownField(value).line.utf8)
        return answer
    }

    private func answer(_ status: HTTPResponse.Status, _ type: String, _ text: String) -> TransportAnswer {
        TransportAnswer(HTTPResponse(status: status, headerFields: [.contentType: type]), body: Array(text.utf8))
    }

    private static func withUnknownField(_ value: JSON) -> JSON {
        switch value {
        case .array(let elements): .array(elements.map(withUnknownField))
        case .object(let members):
            .object(members.map { ($0, withUnknownField($1)) } + [("later", .object(["version": .number(2)]))])
        default: value
        }
    }
}
