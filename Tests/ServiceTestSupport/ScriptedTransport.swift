package import HTTPTypes
package import SyncProtocol
import Synchronization

/// A transport that returns prepared answers, one after another, and records the requests.
package final class ScriptedTransport: HTTPTransport {
    private let script: Mutex<[Result<TransportAnswer, TransportError>]>
    private let asked = Mutex<[HTTPRequest]>([])

    /// A transport that returns these answers, in this order.
    package init(_ script: [Result<TransportAnswer, TransportError>]) { self.script = Mutex(script) }

    /// The requests so far.
    package var requests: [HTTPRequest] { asked.withLock { $0 } }

    /// Returns the next answer; throws at the end of the script.
    package func send(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
    ) async throws(TransportError) -> TransportAnswer {
        asked.withLock { $0.append(request) }
        let next = script.withLock { $0.isEmpty ? nil : $0.removeFirst() }
        guard let next else { throw TransportError(.other, mayHaveArrived: false, message: "the script has ended") }
        return try next.get()
    }
}

extension TransportAnswer {
    /// An answer of a status, header fields and a text.
    package init(_ code: Int, _ fields: HTTPFields = HTTPFields(), _ text: String = "") {
        self.init(
            HTTPResponse(status: HTTPResponse.Status(code: code), headerFields: fields), body: Array(text.utf8))
    }
}
