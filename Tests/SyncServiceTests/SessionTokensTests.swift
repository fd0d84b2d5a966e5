import HTTPStorage
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Synchronization
import TestSupport
import Testing

/// A session store that fails to save while a test wants it to.
private final class FailingSessionStore: SessionStore {
    let wrapped = MemorySessionStore()
    let isFull = Mutex(false)

    func load() async throws(BackendError) -> KeptSession? { try await wrapped.load() }
    func delete() async throws(BackendError) { try await wrapped.delete() }
    func save(_ session: KeptSession) async throws(BackendError) {
        guard !isFull.withLock({ $0 }) else { throw BackendError(.full, operation: .write, message: "full") }
        try await wrapped.save(session)
    }
    func exclusively<Outcome: Sendable>(
        _ body: @Sendable () async throws(BackendError) -> Outcome
    ) async throws(BackendError) -> Outcome { try await wrapped.exclusively(body) }
}

@Suite("Access tokens of a session")
struct SessionTokensTests {
    private let clock = TestClock(1_800_000_000_000)
    private let machine = ManualHost(seed: 7)
    private let service: EntitlementService
    private let transport: CountingTransport
    private let client: AccountClient
    private let sessions = FailingSessionStore()

    init() async throws {
        service = try await .open(MemoryBackend(), clock: clock)
        transport = CountingTransport(service)
        client = try AccountClient(server: Device.server, transport: transport)
    }

    /// The wall clock of the server's machine, and a timer that each sleep advances.
    private var host: HostServices {
        var host = machine.host
        host.now = { clock.now }
        return host
    }

    private func begin() async throws -> SessionTokens {
        let tokens = SessionTokens(client, store: sessions, host: host)
        try await tokens.begin(client.signUp("alice", password: Device.password).session)
        _ = transport.take()
        return tokens
    }

    private func own(_ tokens: SessionTokens) async throws {
        let account = try await client.ownAccount { (refused) throws(BackendError) in
            try await tokens.token(refused: refused)
        }
        #expect(account.name == "alice")
    }

    /// Advances the clocks of the server and of the devices.
    private func wait(_ seconds: Int64) async throws {
        clock.advance(seconds: seconds)
        try await machine.host.sleep(for: .seconds(seconds))
    }

    @Test("A token is replaced shortly before it expires and not earlier, whatever the wall clock shows")
    func inTime() async throws {
        let tokens = try await begin()
        try await wait(500)
        try await own(tokens)
        #expect(transport.take() == ["GET /v1/accounts/self"])
        try await wait(75)
        try await own(tokens)
        #expect(transport.take() == ["POST /v1/sessions", "GET /v1/accounts/self"])
        // The wall clock is changed by hand, and no time passes.
        clock.advance(seconds: -86_400)
        clock.advance(seconds: 86_400 + 500)
        clock.advance(seconds: -500)
        try await own(tokens)
        #expect(transport.take() == ["GET /v1/accounts/self"])
    }

    @Test("64 requests that are refused together, and two programs that share the session, cause one refresh")
    func together() async throws {
        let programs = [try await begin(), SessionTokens(client, store: sessions, host: host)]
        for tokens in programs { try await own(tokens) }
        // Only the server's time passes, so the devices learn of it by a refusal.
        clock.advance(seconds: 700)
        _ = transport.take()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<64 { group.addTask { try await own(programs[number % 2]) } }
            try await group.waitForAll()
        }
        #expect(transport.take().filter { $0 == "POST /v1/sessions" }.count == 1)
    }

    @Test("A refresh whose answer is lost is repeated with the same token, also after a restart of the program")
    func lostAnswer() async throws {
        let tokens = try await begin()
        let count = Mutex(0)
        transport.decide { request in
            guard request.path == "/v1/sessions" else { return .arrives }
            return count.withLock { count in
                count += 1
                return count <= 3 ? .answerIsLost : .arrives
            }
        }
        try await wait(700)
        await expectKind(.unavailable) { _ = try await tokens.token() }
        #expect(count.withLock { $0 } == 3, "three attempts")
        try await wait(50)
        try await own(SessionTokens(client, store: sessions, host: host))
        try await own(tokens)
    }

    @Test("A token that cannot be stored is not used, and nothing is lost")
    func fullDisk() async throws {
        let tokens = try await begin()
        let before = try await sessions.load()
        sessions.isFull.withLock { $0 = true }
        try await wait(700)
        await expectKind(.full) { _ = try await tokens.token() }
        #expect(try await sessions.load() == before)
        sessions.isFull.withLock { $0 = false }
        try await own(tokens)
        #expect(try await sessions.load() != before)
    }

    @Test("A session that has ended is dropped, callers are told to log in, and a new session is used at once")
    func over() async throws {
        let tokens = try await begin()
        let other = try await client.logIn("alice", password: Device.password)
        try await client.logOut(everywhere: true) { _ in other.accessToken }
        let error = await #expect(throws: AccountError.self) { try await own(tokens) }
        #expect(error?.kind == .sessionOver)
        #expect(try await sessions.load() == nil)
        _ = transport.take()
        await expectKind(.permissionDenied) { _ = try await tokens.token() }
        #expect(transport.take().isEmpty, "no request is sent")
        try await tokens.begin(client.logIn("alice", password: Device.password))
        try await own(tokens)
        try await tokens.forget()
        await expectKind(.permissionDenied) { _ = try await tokens.token() }
    }

    @Test("A session of another account is not used")
    func otherAccount() async throws {
        _ = try await begin()
        let bob = SessionTokens(client, store: sessions, account: "bob", host: host)
        await expectKind(.permissionDenied) { _ = try await bob.token() }
    }
}
