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
    private let clock = SetClock(1_800_000_000_000)

    /// The names of the keys that sign, the newest last.
    private func keys() async throws -> [String] {
        guard case .found(let entry) = try await store.read(EntryKey("server/keys")).outcome else { return [] }
        struct Ring: Decodable {
            struct Key: Decodable { var id: String }
            var keys: [Key]
        }
        return try JSONDecoder().decode(Ring.self, from: Data(entry.value)).keys.map(\.id)
    }

    @Test("a key dated more than five minutes ahead signs nothing more", arguments: [(300, 1), (301, 2)])
    func keys(_ seconds: Int64, _ count: Int) async throws {
        clock.advance(seconds: seconds)
        _ = try await EntitlementService.open(store, clock: clock)
        let first = try await keys()
        clock.advance(seconds: -seconds)
        let service = try await EntitlementService.open(store, clock: clock, configure: { $0.isClockAccepted = true })
        #expect(await AccountPerson(service).signUp().status == 201)
        let now = try await keys()
        #expect(now.count == count && now.first == first.first)
        // The next one rotates as ever.
        clock.advance(seconds: 30 * 86_400 + seconds)
        #expect(await AccountPerson(service).logIn().status == 200)
        #expect(try await keys().last != now.last)
    }

    @Test("a session that was made while it was ahead is over", arguments: [(300, 200), (301, 400)])
    func sessions(_ seconds: Int64, _ status: Int) async throws {
        let service = try await EntitlementService.open(store, clock: clock)
        clock.advance(seconds: seconds)
        let session = await AccountPerson(service).signUp()
        clock.advance(seconds: -seconds)
        #expect(await service.refresh(session["refresh_token"]).status == status)
        #expect(await AccountPerson(service).logIn().status == 200)
    }

    @Test("a session lives no longer than sessions live now, whatever was the rule when it was made")
    func shorter() async throws {
        let made = try await EntitlementService.open(store, clock: clock)
        let (first, second) = (await AccountPerson(made).signUp(), await AccountPerson(made).logIn())
        let service = try await EntitlementService.open(store, clock: clock, configure: { $0.sessionLifetime = 86_400 })
        clock.advance(seconds: 86_399)
        #expect(await service.refresh(first["refresh_token"]).status == 200)
        clock.advance(seconds: 1)
        #expect(await service.refresh(second["refresh_token"]).status == 400)
    }
}
