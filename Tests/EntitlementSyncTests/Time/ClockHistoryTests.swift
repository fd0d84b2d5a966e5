import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Random clock histories")
struct ClockHistoryTests {
    /// A phone with a subscription until 1 April and a clock that is set at random, and a server that is sometimes
    /// wrong for a minute. True time only moves forward.
    private struct World {
        var random: SeededGenerator
        let home: Household
        let server = TimedRemote(at: nil)
        let local = MemoryBackend()
        var store: EntitlementStore
        /// The true time, in milliseconds since 1970.
        var truth: Int64
        /// The wall clock minus the true time, in milliseconds.
        var skew: Int64 = 0
        /// True time and skew at the last contact, from which the model derives the expected trusted time.
        var lastContact: (truth: Int64, skew: Int64)?
        /// The greatest time that the phone may have read since the last contact.
        var seen = Int64.min

        init(seed: UInt64) async throws {
            random = SeededGenerator(seed: seed)
            home = try Household(at: "2026-01-01T00:00:00Z")
            truth = home.machine.now.milliseconds
            store = try await home.device(local, remote: server)
            try await store.record(.reported(Owls.threeMonths, transaction: "A"))
        }

        /// True once in `count` calls on average.
        private mutating func chance(_ count: Int) -> Bool { Int.random(in: 0..<count, using: &random) == 0 }

        private func showClock() throws {
            try home.machine.set("\(Timestamp(milliseconds: truth + skew))")
        }

        mutating func step() async throws {
            truth += Int64.random(in: 0...10 * 86_400_000, using: &random)
            if chance(4) { skew = Int64.random(in: -400...400, using: &random) * 86_400_000 }
            if chance(10) { skew = 0 }
            try showClock()
            if chance(3) {
                // Simulates a killed and restarted process.
                store = try await home.device(local, remote: server)
            }
            if chance(2) { try await contact() }
            let expected = expectedTime
            let isActive = try await store.access(to: Owls.access).isGranted
            let now = store.clockStatus.now.milliseconds
            #expect(isActive == (Self.start..<Self.end).contains(now))
            // The time read is saved every ten minutes, so a kill loses at most that much.
            #expect((expected - 600_000...expected).contains(now))
            seen = max(seen, now)
        }

        private mutating func contact() async throws {
            if chance(5) {
                server.time = truth + Int64.random(in: -400...400, using: &random) * 86_400_000
                try await store.sync()
                truth += 60_000
                try showClock()
            }
            server.time = truth
            try await store.sync()
            lastContact = (truth, skew)
            seen = truth
        }

        /// The wall clock before any contact; afterwards the corrected wall clock, but never before a time read since
        /// the last contact.
        private var expectedTime: Int64 {
            guard let lastContact else { return truth + skew }
            return max(truth + skew - lastContact.skew, seen)
        }

        private static let start: Int64 = 1_767_225_600_000  // 2026-01-01T00:00:00Z
        private static let end: Int64 = 1_775_001_600_000  // 2026-04-01T00:00:00Z
    }

    @Test("Access follows the true time after each correct contact, and the trusted time never moves back")
    func histories() async throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("clock histories: seed \(seed)")
        var random = SeededGenerator(seed: seed)
        for _ in 0..<2_000 {
            var world = try await World(seed: random.next())
            for _ in 0..<10 { try await world.step() }
        }
    }
}
