import EntitlementsTestSupport
import Testing

@testable import SyncCore

@Suite("The reconciler in random simulations")
struct ModelCheckTests {
    @Test("Under any faults, syncing loses no facts; once the faults end, all stores converge and stop writing")
    func worlds() throws {
        var unions = 0
        let cases = try forAll("reconciler worlds", cases: 5_000) { random, place in
            var world = World(devices: Int(random.int(2...3)), random: random)
            for _ in 0..<120 { world.step() }
            try #require(world.violation == nil, "\(place)")

            let expected = world.surviving
            unions += expected == 0 ? 0 : 1
            _ = world.heal(rounds: 2)
            try #require(world.violation == nil, "\(place)")
            try #require(world.contents.allSatisfy { $0 == expected }, "\(world.contents) is not \(expected); \(place)")
            try #require(expected & ~world.recorded == 0, "facts that were never recorded; \(place)")

            let (writes, requests) = world.heal(rounds: 1)
            try #require(writes == 0, "an idle round writes; \(place)")
            try #require(requests.allSatisfy { $0 == 1 }, "idle syncs ask \(requests) times; \(place)")
        }
        #expect(unions * 5 > cases * 4, "most worlds should end with something to hold")
    }
}
