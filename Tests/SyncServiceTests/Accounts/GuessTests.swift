import HTTPTypes
import ServiceTestSupport
import SyncCore
import Synchronization
import SyncProtocol
import Testing

@testable import SyncService

@Suite("Concurrent guesses")
struct GuessTests {
    /// Counts the passwords that are checked.
    private final class Counter: Sendable {
        private let value = Mutex(0)
        var count: Int { value.withLock { $0 } }
        func increment() { value.withLock { $0 += 1 } }
    }

    private let clock = TestClock(1_800_000_000_000)
    private let checked = Counter()
    private let service: EntitlementService
    private let alice: AccountOwner

    init() async throws {
        var passwords = PlainPasswords()
        passwords.afterVerifying = { [checked] in
            checked.increment()
            for _ in 0..<1_000 { await Task.yield() }
        }
        service = try await .open(MemoryBackend(), clock: clock, passwords: passwords)
        alice = AccountOwner(service)
        #expect(await alice.signUp().status == 201)
    }

    private func logIn(_ passwords: [String], peer: String = "192.0.2.1") async -> [Reply] {
        await withTaskGroup(of: Reply.self) { group in
            for password in passwords {
                group.addTask { await AccountOwner(service, password: password).logIn(peer: peer) }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
    }

    @Test("Of 400 concurrent wrong passwords, ten are checked")
    func wrong() async throws {
        let replies = await logIn((0..<400).map { "wrong password \($0)" })
        #expect(checked.count == 10)
        #expect(replies.filter { $0.status == 400 }.count == 10)
        let waits = replies.filter { $0.status == 429 }.compactMap { $0.fields[.retryAfter].flatMap(Int.init) }
        #expect(waits.count == 390 && waits.allSatisfy { (1...300).contains($0) })
        #expect(await alice.logIn().status == 429)
        #expect(await alice.logIn(peer: "198.51.100.7").status == 200)
    }

    @Test("Concurrent correct passwords wait a second at most, and are not counted afterwards")
    func right() async throws {
        for _ in 0..<20 {
            let replies = await logIn(Array(repeating: "correct horse", count: 10))
            #expect(replies.allSatisfy { $0.status == 200 })
        }
        let many = await logIn(Array(repeating: "correct horse", count: 30))
        #expect(many.allSatisfy { $0.status == 200 || ($0.status == 429 && $0.fields[.retryAfter] == "1") })
        #expect(await alice.logIn().status == 200)
    }

    @Test("3,000 names of 60 KB are refused as wrong, and none of them is remembered")
    func longNames() async throws {
        let long = String(repeating: "x", count: 60_000)
        for number in 0..<3_000 {
            let guess = AccountOwner(service, "\(number)\(long)")
            let reply = await guess.logIn(peer: "198.51.\(number / 256).\(number % 256)")
            #expect(reply.status == 400 && reply.problem?.error == "invalid_grant")
        }
        #expect(service.accounts.credentials.guesses.count < 64)
    }

    @Test("The table of guesses has a fixed size, however many addresses guess names of full length")
    func manyNames() async throws {
        let guesses = GuessLimiter()
        let long = String(repeating: "x", count: 240)
        for number in 0..<50_000 {
            let right: Bool? = try await guesses.attempt(
                "10.\(number >> 16).\(number >> 8 & 255).\(number & 255)", .account("\(number)\(long)"),
                now: clock.now
            ) { nil }
            #expect(right == nil)
        }
        #expect(guesses.count <= 16_384)
    }
}
