import Entitlements
import SyncCore
import SyncSimulation
import Testing

@Suite("Shrinking")
struct ShrinkerTests {
    /// The devices share a store that loses concurrent writes of other devices.
    private static let careless = Subject(makeRemote: { CarelessBackend(base: MemoryBackend(host: $0)) })

    private static func firstFailing(_ subject: Subject, _ seeds: ClosedRange<UInt64>) throws -> Scenario {
        let found = seeds.lazy.map { Swarm().scenario(seed: $0) }
            .first { !Simulation($0, of: subject).run().violations.isEmpty }
        return try #require(found, "none of \(seeds) fails")
    }

    @Test("A store that ignores preconditions is shown by at most two devices, without an unnecessary step")
    func carelessStore() throws {
        let scenario = try Self.firstFailing(Self.careless, 1...200)
        let shrunk = try #require(Shrinker(of: Self.careless).shrink(scenario))
        let small = shrunk.scenario
        #expect(shrunk.isMinimal)
        #expect(small.devices.count <= 2, "seed \(scenario.seed)")
        #expect(small.steps.count <= 6 && small.steps.count < scenario.steps.count, "seed \(scenario.seed)")
        let oracle = try #require(Simulation(scenario, of: Self.careless).run().violations.first).oracle
        func fails(_ scenario: Scenario) -> Bool {
            Simulation(scenario, of: Self.careless).run().violations.contains { $0.oracle == oracle }
        }
        #expect(shrunk.violation.oracle == oracle)
        #expect(fails(small))
        for index in small.steps.indices {
            var smaller = small
            smaller.steps.remove(at: index)
            #expect(!fails(smaller), "seed \(scenario.seed): step \(index) is unnecessary")
        }
        #expect(Simulation(small).run().violations.isEmpty, "a correct store must hold in the same scenario")
    }

    @Test(
        "latestExpiryWins is shown to lose paid time by two devices and two purchases",
        arguments: [1, 11] as [UInt64])
    func latestExpiryWins(first: UInt64) throws {
        let subject = Subject(rules: ConflictRules(expiry: LatestExpiryWins()))
        let scenario = try Self.firstFailing(subject, first...first + 99)
        let shrunk = try #require(Shrinker(of: subject).shrink(scenario))
        #expect(shrunk.violation.oracle == .paidTime, "seed \(scenario.seed)")
        #expect(shrunk.scenario.devices.count <= 2, "seed \(scenario.seed)")
        #expect(shrunk.scenario.steps.count == 2, "seed \(scenario.seed)")
        #expect(shrunk.scenario.steps.allSatisfy { EveryAction.name(of: $0.action) == "buy" }, "seed \(scenario.seed)")
        #expect(shrunk.scenario.faults == FaultRates())
        #expect(Simulation(shrunk.scenario).run().violations.isEmpty, "seed \(scenario.seed): the default must hold")
    }

    @Test("A cluster and its failovers are removed from a failure that does not need them")
    func cluster() throws {
        let subject = Subject(rules: ConflictRules(expiry: LatestExpiryWins()))
        var scenario = try Self.firstFailing(subject, 1...100)
        scenario.remote.cluster = ClusterSetup(slowCommits: 500, longestCommit: 2_000, longestLag: 9)
        scenario.steps.append(
            Step(at: scenario.steps.last?.at ?? 0, .failOver(afterWrites: 2, promotion: 5_000)))
        let shrunk = try #require(Shrinker(of: subject).shrink(scenario))
        #expect(shrunk.violation.oracle == .paidTime)
        #expect(shrunk.scenario.remote.cluster == nil)
        #expect(shrunk.scenario.steps.map { EveryAction.name(of: $0.action) } == ["buy", "buy"])
    }

    @Test("Shrinking is deterministic and reports each run")
    func repeatable() throws {
        let scenario = try Self.firstFailing(Self.careless, 201...400)
        var reports: [Shrinker.Progress] = []
        let first = try #require(Shrinker(of: Self.careless, attempts: 60).shrink(scenario) { reports.append($0) })
        let second = try #require(Shrinker(of: Self.careless, attempts: 60).shrink(scenario))
        #expect(first == second)
        #expect(reports.map(\.attempts) == Array(2...first.attempts))
        #expect(reports.last?.steps == first.scenario.steps.count)
        #expect(zip(reports, reports.dropFirst()).allSatisfy { $0.steps >= $1.steps && $0.devices >= $1.devices })
    }

    @Test("When the attempts are used up, the result still fails and is marked as not minimal")
    func exhausted() throws {
        let scenario = try Self.firstFailing(Self.careless, 1...200)
        let shrunk = try #require(Shrinker(of: Self.careless, attempts: 4).shrink(scenario))
        #expect(shrunk.attempts == 4)
        #expect(!shrunk.isMinimal)
        #expect(Simulation(shrunk.scenario, of: Self.careless).run().violations.contains(shrunk.violation))
    }

    @Test("A scenario that holds is not shrunk")
    func holds() {
        let scenario = Scenario(seed: 1, devices: [DeviceSetup()], steps: [Step(at: 0, device: 0, .sync)], days: 1)
        #expect(Shrinker().shrink(scenario) == nil)
    }
}
