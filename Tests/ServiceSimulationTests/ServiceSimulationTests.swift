import ServiceSimulation
import SyncCore
import SyncService
import Synchronization
import Testing

@Suite("Servers under simulation")
struct ServiceSimulationTests {
    @Test("All invariants hold", arguments: [UInt64(1), 16, 31, 46])
    func holds(first: UInt64) {
        for seed in first..<first + 15 {
            let outcome = SimulatedService(ServiceSwarm().scenario(seed: seed)).run()
            #expect(outcome.violations.isEmpty, "seed \(seed)")
        }
    }

    @Test("A seed gives the same run each time", arguments: 1...4 as ClosedRange<UInt64>)
    func repeats(seed: UInt64) {
        let scenario = ServiceSwarm().scenario(seed: seed)
        let (first, second) = (SimulatedService(scenario).run(), SimulatedService(scenario).run())
        #expect(first.traceHash == second.traceHash)
        #expect(first.jobCount == second.jobCount)
    }

    @Test("A scenario is read as it was written")
    func json() throws {
        let scenario = ServiceSwarm().scenario(seed: 7)
        #expect(try ServiceScenario(json: scenario.json) == scenario)
    }

    @Test("Sessions that survive their log-out are noticed")
    func keptSessions() {
        var subject = SimulatedService.Subject()
        subject.wrapStore = { IgnoringDeletes(base: $0, prefix: "server/sessions/") }
        var scenario = ServiceScenario(seed: 1, servers: [0, 0], devices: ["amber"])
        scenario.steps = [
            ServiceStep(at: 1_000, .signUp(device: 0)), ServiceStep(at: 5_000, .logOut(device: 0, everywhere: false)),
            ServiceStep(at: 20_000, .tryOldCredentials(device: 0)),
        ]
        #expect(SimulatedService(scenario).run().violations.isEmpty)
        let oracles = SimulatedService(scenario, of: subject).run().violations.map(\.oracle)
        #expect(oracles.contains(.revocation))
    }

    @Test("A lost update of the owners of a purchase is noticed, and shrunk")
    func lostOwners() throws {
        var subject = SimulatedService.Subject()
        subject.wrapStore = { IgnoringPreconditions(base: $0, prefix: "lines/") }
        let failing = (1...400 as ClosedRange<UInt64>).lazy
            .map { ServiceSwarm().scenario(seed: $0) }
            .first { SimulatedService($0, of: subject).run().violations.contains { $0.oracle == .ownership } }
        let scenario = try #require(failing)
        let shrunk = try #require(ServiceShrinker(of: subject, attempts: 100).shrink(scenario))
        #expect(shrunk.scenario.steps.count < scenario.steps.count)
    }
}

/// A store that answers deletions of some keys and does not perform them.
private struct IgnoringDeletes: ForwardingBackend {
    let base: any KeyValueBackend
    let prefix: String

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        guard key.hasPrefix(prefix) else { return try await base.delete(key, if: precondition) }
        return Answer(.deleted)
    }
}

/// A store that writes some keys whatever they contain.
private struct IgnoringPreconditions: ForwardingBackend {
    let base: any KeyValueBackend
    let prefix: String

    func write(
        _ value: [UInt8], to key: EntryKey, if precondition: Precondition
    ) async throws(BackendError) -> Answer<WriteOutcome> {
        try await base.write(value, to: key, if: key.hasPrefix(prefix) ? .any : precondition)
    }
}
