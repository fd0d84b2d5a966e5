import EntitlementSync
import Entitlements
import HTTPStorage
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Synchronization

/// A transport to a service that records requests and loses those that a test chooses.
final class CountingTransport: HTTPTransport {
    /// The fate of an exchange.
    enum Fate: Sendable {
        case arrives
        case answerIsLost
        case neverArrives
    }

    private let direct: DirectTransport
    private let asked = Mutex<[String]>([])
    private let fate = Mutex<@Sendable (HTTPRequest) async -> Fate>({ _ in .arrives })

    init(_ service: EntitlementService) { direct = DirectTransport(service) }

    /// The requests since the last call, as `GET /v1/kv/…`.
    func take() -> [String] {
        asked.withLock { asked in
            defer { asked = [] }
            return asked
        }
    }

    func decide(_ body: @escaping @Sendable (HTTPRequest) async -> Fate) { fate.withLock { $0 = body } }

    func send(
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

/// A device of an account: its own store, its own session, one server.
struct Device {
    let transport: CountingTransport
    let client: AccountClient
    let tokens: SessionTokens
    let local: MemoryBackend
    let store: EntitlementStore

    static let server = "https://sync.example.com"
    static let password = "correct horse"

    init(
        _ service: EntitlementService, _ catalog: Catalog, clock: TestClock, local: MemoryBackend = MemoryBackend()
    ) async throws {
        let transport = CountingTransport(service)
        client = try AccountClient(server: Self.server, transport: transport)
        let tokens = SessionTokens(client, store: MemorySessionStore(), host: clock.host)
        let remote = try HTTPBackend(server: Self.server, transport: transport) { (refused) throws(BackendError) in
            try await tokens.token(refused: refused)
        }
        store = try await EntitlementStore(
            catalog: catalog, local: local as any KeyValueBackend, remote: remote, clock: .host, host: clock.host)
        (self.transport, self.tokens, self.local) = (transport, tokens, local)
    }

    func signUp(_ name: String = "alice") async throws {
        try await tokens.begin(client.signUp(name, password: Self.password).session)
        try await store.logIn(name, adoptAnonymous: true)
    }

    func logIn(_ name: String = "alice") async throws {
        try await tokens.begin(client.logIn(name, password: Self.password))
        try await store.logIn(name)
    }

    func end(of group: GroupID = "owls") async throws -> Timestamp? {
        try await store.snapshot().subscriptions.first { $0.group == group }?.expires
    }

    var token: HTTPBackend.Token {
        let tokens = tokens
        return { (refused) throws(BackendError) in try await tokens.token(refused: refused) }
    }
}
