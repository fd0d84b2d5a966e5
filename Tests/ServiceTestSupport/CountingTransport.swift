package import HTTPTypes
package import SyncProtocol
package import SyncService
import Synchronization

/// A transport to a service that records requests and loses those that a test chooses.
package final class CountingTransport: HTTPTransport {
    /// The fate of an exchange.
    package enum Fate: Sendable {
        case arrives
        case answerIsLost
        case neverArrives
    }

    private let direct: DirectTransport
    private let asked = Mutex<[String]>([])
    private let fate = Mutex<@Sendable (HTTPRequest) async -> Fate>({ _ in .arrives })

    /// Creates a transport to `service`.
    package init(_ service: EntitlementService) { direct = DirectTransport(service) }

    /// The number of requests since the last ``take()``.
    package var count: Int { asked.withLock { $0.count } }

    /// The requests since the last call, as `GET /v1/kv/…`.
    package func take() -> [String] {
        asked.withLock { asked in
            defer { asked = [] }
            return asked
        }
    }

    /// Asks `body` for the fate of each exchange from now on.
    package func decide(_ body: @escaping @Sendable (HTTPRequest) async -> Fate) { fate.withLock { $0 = body } }

    package func send(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
    ) async throws(TransportError) -> TransportAnswer {
        asked.withLock { $0.append("\(request.method) \(request.path ?? "")") }
        let fate = await fate.withLock { $0 }(request)
        guard fate != .neverArrives else {
            throw TransportError(.unreachable, mayHaveArrived: false, message: "the server does not respond")
        }
        let answer = try await direct.send(request, body: body, timeout: timeout, maximumByteCount: maximumByteCount)
        guard fate != .answerIsLost else {
            throw TransportError(.interrupted, mayHaveArrived: true, message: "the connection broke")
        }
        return answer
    }
}
