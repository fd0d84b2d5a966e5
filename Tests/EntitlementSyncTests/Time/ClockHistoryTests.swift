import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import Testing

@Suite("Whatever happens to a clock")
struct ClockHistoryTests {
    /// A buyer whose three months end on 1 April, a phone whose clock is moved about, and a server that is right but
    /// for a minute now and then. True time only moves on.
    private struct World {
        var random: SeededGenerator
        let home: Household
        let server = TimedRemote(at: nil)
        let local = MemoryBackend()
        var store: EntitlementStore
        /// True time, milliseconds.
        var truth: Int64
        /// Wall clock minus true time.
        var skew: Int64 = 0
        /// The model: what the phone may believe, worked out from the contacts alone.
        var lastContact: (truth: Int64, skew: Int64)?
        /// The greatest time that the phone may have seen since the last contact.
        var seen = Int64.min

        init(seed: UInt64) async throws {
            random = SeededGenerator(seed: seed)
            home = try Household(at: "2026-01-01T00:00:00Z")
            truth = home.machine.now.milliseconds
            store = try await home.device(local, remote: server)
            try await store.record(.reported(Owls.threeMonths, transaction: "A"))
        }

        private mutating func chance(_ one: Int) -> Bool { Int.random(in: 0..<one, using: &random) == 0 }

        private func showClock() throws {
            try home.machine.set("\(Timestamp(milliseconds: truth + skew))")
        }

        mutating func step() async throws {
            truth += Int64.random(in: 0...10 * 86_400_000, using: &random)
            if chance(4) { skew = Int64.random(in: -400...400, using: &random) * 86_400_000 }
            if chance(10) { skew = 0 }
            try showClock()
            if chance(3) {
                // A store object that was killed and opened again.
                store = try await home.device(local, remote: server)
            }
            if chance(2) { try await contact() }
            let expected = believed
            let isActive = try await store.access(to: Owls.access).isGranted
            let now = store.clockStatus.now.milliseconds
            #expect(isActive == (Self.start..<Self.end).contains(now))
            // What was seen is kept every ten minutes: a kill forgets no more.
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

        /// Before any contact the wall clock; afterwards what it says with the last correction, but never before what
        /// was seen since.
        private var believed: Int64 {
            guard let lastContact else { return truth + skew }
            return max(truth + skew - lastContact.skew, seen)
        }

        private static let start: Int64 = 1_767_225_600_000  // 2026-01-01T00:00:00Z
        private static let end: Int64 = 1_775_001_600_000  // 2026-04-01T00:00:00Z
    }

    @Test("Access is that of the true time after each good contact, and never earlier than what was seen since")
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
