import Foundation
package import HTTPTypes
package import SyncCore
package import SyncProtocol
package import SyncService
import Synchronization
import TestSupport

/// A complete answer of a service.
package struct Reply: Sendable {
    package var status: Int
    package var fields: HTTPFields
    package var body: [UInt8]

    /// A text member of the JSON body; `nil` if it is missing or not a text.
    package subscript(member: String) -> String? { members[member] as? String }

    package var members: [String: Any] {
        (try? JSONSerialization.jsonObject(with: Data(body))) as? [String: Any] ?? [:]
    }

    package var problem: Problem? { Problem(json: body) }
}

extension EntitlementService {
    /// Sends a request as a client with `token` would.
    package func ask(
        _ method: HTTPRequest.Method, _ path: String, token: String? = nil, _ fields: HTTPFields = [:],
        body: [UInt8] = [], peer: String = "192.0.2.1"
    ) async -> Reply {
        var fields = fields
        if let token { fields[.authorization] = "Bearer \(token)" }
        let head = HTTPRequest(method: method, scheme: "http", authority: "x", path: path, headerFields: fields)
        let answer = await respond(to: ServiceRequest(head, body: body, peer: peer))
        var body: [UInt8] = []
        if case .bytes(let bytes) = answer.body { body = bytes }
        return Reply(status: answer.head.status.code, fields: answer.head.headerFields, body: body)
    }

    /// Sends a request with a JSON object as its body.
    package func ask(
        _ method: HTTPRequest.Method, _ path: String, token: String? = nil, json: [String: any Sendable],
        peer: String = "192.0.2.1"
    ) async -> Reply {
        let body = (try? JSONSerialization.data(withJSONObject: json)).map { Array($0) } ?? []
        return await ask(method, path, token: token, [.contentType: "application/json"], body: body, peer: peer)
    }
}

/// A transport to a service in this process. Like a connection, it rejects paths that HTTP cannot carry.
package struct DirectTransport: HTTPTransport {
    private let service: EntitlementService

    package init(_ service: EntitlementService) { self.service = service }

    package func send(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
    ) async throws(TransportError) -> TransportAnswer {
        guard let path = request.path, path.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw TransportError(.malformed, mayHaveArrived: false, message: "the path is not ASCII")
        }
        let answer = await service.respond(to: ServiceRequest(request, body: body, peer: "192.0.2.1"))
        guard case .bytes(let bytes) = answer.body, bytes.count <= maximumByteCount else {
            throw TransportError(.tooLarge, mayHaveArrived: true, message: "the answer is too long, or a stream")
        }
        return TransportAnswer(answer.head, body: bytes)
    }
}

extension String {
    /// The operator's token of services for tests.
    package static let operatorToken = "operator-token-of-tests"
}

/// A wall clock and a timer that a test controls. Pauses last as long as on the machine, and do not move the timer.
package final class TestClock: Sendable {
    private let time: Mutex<Int64>
    private let elapsed = Mutex(Duration.zero)

    /// A clock that shows `time`, in milliseconds since 1970 UTC.
    package init(_ time: Int64) { self.time = Mutex(time) }

    /// The time that it shows, in milliseconds since 1970 UTC.
    package var now: Int64 { time.withLock { $0 } }

    /// Moves the clock; negative values move it backwards.
    package func advance(seconds: Int64) { time.withLock { $0 += seconds * 1_000 } }

    /// Moves the clock and the timer.
    package func pass(seconds: Int64) {
        advance(seconds: seconds)
        elapsed.withLock { $0 += .seconds(seconds) }
    }

    /// The host services of this machine, with this clock and this timer.
    package var host: HostServices {
        var host = HostServices.system
        host.now = { self.now }
        host.timer = TestTimer(
            elapsed: { self.elapsed.withLock { $0 } },
            pause: { deadline in
                try await ContinuousClock().sleep(for: deadline - self.elapsed.withLock { $0 })
            })
        return host
    }
}

extension EntitlementService {
    /// A service for tests, which accepts ``Swift/String/operatorToken``. It has followed the changes of its store, so
    /// its caches are believed for two seconds by the timer of its clock.
    package static func open(
        _ store: any KeyValueBackend, now: Int64, onError: @escaping @Sendable (BackendError) -> Void = { _ in }
    ) async throws(BackendError) -> EntitlementService {
        try await open(store, clock: TestClock(now), onError: onError)
    }

    /// A service for tests whose time is that of `clock`.
    package static func open(
        _ store: any KeyValueBackend, clock: TestClock = TestClock(1_800_000_000_000), issuer: String? = nil,
        passwords: any PasswordHasher = PlainPasswords(), projector: Projector? = nil,
        onError: @escaping @Sendable (BackendError) -> Void = { _ in },
        configure: (inout ServiceConfiguration) -> Void = { _ in }
    ) async throws(BackendError) -> EntitlementService {
        var configuration = ServiceConfiguration(name: "https://sync.example.com")
        configuration.operatorToken = .operatorToken
        configure(&configuration)
        let service = try await EntitlementService(
            store, configuration: configuration,
            passwords: passwords,
            issuers: issuer.map { [PlainIssuer(name: $0)] } ?? [], host: clock.host,
            projector: projector, onError: onError)
        await service.followChanges()
        return service
    }
}
