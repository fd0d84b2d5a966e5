import Entitlements
import SyncCore
import SyncSimulation
import TestSupport
import Testing

@Suite("The swarm")
struct SwarmTests {
    @Test("The first seeds hold and reach most rare states", .timeLimit(.minutes(15)))
    func firstSeeds() {
        var marks = Marks()
        for seed in UInt64(1)...(Soak.isLong ? 240 : 60) {
            let outcome = Simulation(Swarm().scenario(seed: seed)).run()
            #expect(outcome.violations.isEmpty, "seed \(seed)")
            marks.add(outcome.marks)
        }
        // Only the larger nightly set must reach all of them.
        #expect(marks.missing.count <= (Soak.isLong ? 6 : 30), "missing: \(marks.missing)")
    }

    @Test("Two runs of a seed have the same trace")
    func repeatable() {
        for seed in UInt64(301)...312 {
            let scenario = Swarm().scenario(seed: seed)
            let (first, second) = (Simulation(scenario).run(isRecording: true), Simulation(scenario).run())
            #expect(first.traceHash == second.traceHash, "seed \(seed)")
            #expect(first.jobCount == second.jobCount, "seed \(seed)")
            #expect(first.trace?.events.isEmpty == false)
        }
    }

    @Test("Different seeds give different scenarios, with the requested numbers of devices and days")
    func draws() {
        let scenarios = (UInt64(1)...50).map { Swarm(replicas: 4, days: 90).scenario(seed: $0) }
        #expect(Set(scenarios.map(\.steps)).count == 50)
        #expect(scenarios.allSatisfy { $0.devices.count == 4 && $0.days == 90 })
        #expect(scenarios.contains { !$0.remote.comparesAndSwaps } && scenarios.contains { $0.remote.comparesAndSwaps })
    }

    @Test("The tutorials' rule is caught losing paid time within 100 seeds")
    func latestExpiryWins() {
        let subject = Subject(rules: ConflictRules(expiry: LatestExpiryWins()))
        let seed = (UInt64(1)...100).first { seed in
            Simulation(Swarm().scenario(seed: seed), of: subject).run().violations.contains { $0.oracle == .paidTime }
        }
        #expect(seed != nil)
    }
}

@Suite("Escaped jobs")
struct EscapeTests {
    @Test("A store that works in a detached task fails the run")
    func detached() {
        let subject = Subject(makeRemote: { DetachedBackend(base: MemoryBackend(host: $0)) })
        let scenario = Scenario(
            seed: 1, devices: [DeviceSetup()],
            steps: [Step(at: 0, device: 0, .buy(Sale("t1", of: "owl"))), Step(at: 1_000, device: 0, .sync)], days: 1)
        #expect(Simulation(scenario).run().violations.isEmpty)
        let outcome = Simulation(scenario, of: subject).run()
        #expect(outcome.violations.contains { $0.oracle == .execution })
    }
}

/// A store whose reads run in a detached task.
private struct DetachedBackend: ForwardingBackend {
    let base: any KeyValueBackend

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        await Task.detached {}.value
        return try await base.read(key, unless: knownVersion)
    }
}
