import Foundation
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Testing

@Suite("A server whose clock was ahead")
struct ClockTests {
    private let store = MemoryBackend()
    private let clock = TestClock(1_800_000_000_000)

    /// The names of the signing keys, the newest one last.
    private func keys() async throws -> [String] {
        guard case .found(let entry) = try await store.read(EntryKey("server/keys")).outcome else { return [] }
        struct Ring: Decodable {
            struct Key: Decodable { var id: String }
            var keys: [Key]
        }
        return try JSONDecoder().decode(Ring.self, from: Data(entry.value)).keys.map(\.id)
    }

    @Test("A key dated more than seven minutes ahead is replaced", arguments: [(420, true), (421, false)])
    func keys(_ seconds: Int64, _ isKept: Bool) async throws {
        clock.advance(seconds: seconds)
        _ = try await EntitlementService.open(store, clock: clock)
        let first = try await keys()
        clock.advance(seconds: -seconds)
        let service = try await EntitlementService.open(store, clock: clock, configure: { $0.isClockAccepted = true })
        #expect(await AccountOwner(service).signUp().status == 201)
        let now = try await keys()
        #expect(now.count == 1 && (now == first) == isKept)
        // The next key rotates as usual.
        clock.advance(seconds: 30 * 86_400 + seconds)
        #expect(await AccountOwner(service).logIn().status == 200)
        #expect(try await keys().last != now.last)
    }

    @Test(
        "A session that was created while the clock was ahead by more than two hours has ended",
        arguments: [(7_200, 200), (7_201, 400)])
    func sessions(_ seconds: Int64, _ status: Int) async throws {
        let service = try await EntitlementService.open(store, clock: clock)
        clock.advance(seconds: seconds)
        let session = await AccountOwner(service).signUp()
        clock.advance(seconds: -seconds)
        #expect(await service.refresh(session["refresh_token"]).status == status)
        #expect(await AccountOwner(service).logIn().status == 200)
    }

    @Test("The current session lifetime applies to sessions that were created under a longer one")
    func shorter() async throws {
        let made = try await EntitlementService.open(store, clock: clock)
        let (first, second) = (await AccountOwner(made).signUp(), await AccountOwner(made).logIn())
        let service = try await EntitlementService.open(store, clock: clock, configure: { $0.sessionLifetime = 86_400 })
        clock.advance(seconds: 86_399)
        #expect(await service.refresh(first["refresh_token"]).status == 200)
        clock.advance(seconds: 1)
        #expect(await service.refresh(second["refresh_token"]).status == 400)
    }
}
