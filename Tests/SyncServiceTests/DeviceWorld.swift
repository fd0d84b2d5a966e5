import EntitlementSync
import Entitlements
import HTTPStorage
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService

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
        _ service: EntitlementService, _ catalog: Catalog, clock: TestClock, local: MemoryBackend = MemoryBackend(),
        environment: EnvironmentID = .production
    ) async throws {
        let transport = CountingTransport(service)
        client = try AccountClient(server: Self.server, transport: transport)
        let tokens = SessionTokens(client, store: MemorySessionStore(), host: clock.host)
        let remote = try HTTPBackend(server: Self.server, transport: transport) { (refused) throws(BackendError) in
            try await tokens.token(refused: refused)
        }
        store = try await EntitlementStore(
            catalog: catalog, local: local as any KeyValueBackend, remote: remote, server: remote,
            environment: environment, clock: .host, host: clock.host)
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
