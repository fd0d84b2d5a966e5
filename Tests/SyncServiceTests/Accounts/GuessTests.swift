import HTTPTypes
import ServiceTestSupport
import SyncCore
import Synchronization
import SyncProtocol
import SyncService
import Testing

@Suite("Guesses that come at once")
struct GuessTests {
    /// Counts the passwords that it looks at, and looks slowly.
    private final class SlowCryptography: ServiceCryptography {
        private let wrapped: PlainCryptography
        private let looked = Mutex(0)
        var count: Int { looked.withLock { $0 } }

        init(_ host: HostServices) { wrapped = PlainCryptography(host: host) }

        func hash(password: [UInt8]) async throws(CryptographyError) -> String {
            try await wrapped.hash(password: password)
        }

        func verify(password: [UInt8], hash: String) async throws(CryptographyError) -> Bool {
            looked.withLock { $0 += 1 }
            for _ in 0..<1_000 { await Task.yield() }
            return try await wrapped.verify(password: password, hash: hash)
        }

        func digest(of bytes: [UInt8]) -> [UInt8] { wrapped.digest(of: bytes) }
        func authenticationCode(of bytes: [UInt8], key: [UInt8]) -> [UInt8] {
            wrapped.authenticationCode(of: bytes, key: key)
        }
        func randomBytes(_ count: Int) -> [UInt8] { wrapped.randomBytes(count) }
        func makeSigningKey() -> [UInt8] { wrapped.makeSigningKey() }
        func sign(_ claims: AccessClaims, with key: SigningKey) async throws(CryptographyError) -> String {
            try await wrapped.sign(claims, with: key)
        }
        func verify(
            _ token: String, keys: [SigningKey], now: Int64
        ) async throws(TokenRefusal) -> VerifiedToken { try await wrapped.verify(token, keys: keys, now: now) }
    }

    private let clock = SetClock(1_800_000_000_000)
    private let cryptography: SlowCryptography
    private let service: Service
    private let alice: AccountPerson

    init() async throws {
        cryptography = SlowCryptography(clock.host)
        service = try await Service(
            MemoryBackend(), configuration: ServiceConfiguration(name: "https://sync.example.com"),
            cryptography: cryptography, host: clock.host, onError: { _ in })
        alice = AccountPerson(service)
        #expect(await alice.signUp().status == 201)
    }

    private func logIn(_ passwords: [String], peer: String = "192.0.2.1") async -> [Reply] {
        await withTaskGroup(of: Reply.self) { group in
            for password in passwords {
                group.addTask { await AccountPerson(service, password: password).logIn(peer: peer) }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
    }

    @Test("400 wrong passwords at once are ten that are looked at")
    func wrong() async throws {
        let replies = await logIn((0..<400).map { "wrong password \($0)" })
        #expect(cryptography.count == 10)
        #expect(replies.filter { $0.status == 400 }.count == 10)
        let waits = replies.filter { $0.status == 429 }.compactMap { $0.fields[.retryAfter].flatMap(Int.init) }
        #expect(waits.count == 390 && waits.allSatisfy { (1...300).contains($0) })
        #expect(await alice.logIn().status == 429)
        #expect(await alice.logIn(peer: "198.51.100.7").status == 200)
    }

    @Test("right ones that come at once wait a second at most, and cost nothing when they are over")
    func right() async throws {
        for _ in 0..<20 {
            let replies = await logIn(Array(repeating: "correct horse", count: 10))
            #expect(replies.allSatisfy { $0.status == 200 })
        }
        let many = await logIn(Array(repeating: "correct horse", count: 30))
        #expect(many.allSatisfy { $0.status == 200 || ($0.status == 429 && $0.fields[.retryAfter] == "1") })
        #expect(await alice.logIn().status == 200)
    }
}
