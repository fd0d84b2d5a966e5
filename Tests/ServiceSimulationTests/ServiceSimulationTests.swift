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

    /// Seed 27: a fresh token was refused by a server whose clock was 77 seconds behind that of the issuer.
    @Test("Servers whose clocks differ by less than five minutes accept each other's tokens")
    func laggingClock() {
        var scenario = ServiceScenario(seed: 27, servers: [-76_908, 0, 0], devices: ["amber", "amber"])
        scenario.steps = [
            ServiceStep(at: 1_238, .signUp(device: 0)), ServiceStep(at: 2_238, .notify(sale: 4)),
            ServiceStep(at: 3_238, .notify(sale: 4)),
        ]
        #expect(SimulatedService(scenario).run().violations.isEmpty)
    }

    /// Seed 132: the answer named the key of the owner's ledger, which could not be read.
    @Test("A failure of the store does not name the owner of a purchase to another account")
    func errorAboutAnother() {
        var scenario = ServiceScenario(seed: 1, devices: ["amber", "birch"])
        scenario.steps = [
            ServiceStep(at: 1_000, .signUp(device: 0)), ServiceStep(at: 2_000, .signUp(device: 1)),
            ServiceStep(at: 10_000, .present(device: 0, sale: 4, isRestore: false)),
            ServiceStep(at: 79_000, .failStore(perMille: 300, milliseconds: 20_000)),
        ]
        for time in 80...87 as ClosedRange<Int64> {
            scenario.steps.append(ServiceStep(at: time * 1_000, .present(device: 1, sale: 4, isRestore: false)))
        }
        #expect(SimulatedService(scenario).run().violations.isEmpty)
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
        subject.wrapStore = { IgnoringPreconditions(base: $0, prefix: "owners/") }
        /// Two accounts present one purchase at the same moment, at any of two servers.
        func scenario(seed: UInt64) -> ServiceScenario {
            var scenario = ServiceScenario(seed: seed, servers: [0, 0], devices: ["amber", "birch"])
            scenario.steps = [
                ServiceStep(at: 1_000, .signUp(device: 0)), ServiceStep(at: 2_000, .signUp(device: 1)),
                ServiceStep(at: 3_000, .rotateKeys(removesFormer: false)),
                ServiceStep(at: 4_000, .write(device: 0, key: 1)), ServiceStep(at: 5_000, .write(device: 1, key: 1)),
                ServiceStep(at: 6_000, .read(device: 0, key: 1)), ServiceStep(at: 7_000, .read(device: 1, key: 1)),
                ServiceStep(at: 20_000, .present(device: 0, sale: 1, isRestore: false)),
                ServiceStep(at: 20_000, .present(device: 1, sale: 1, isRestore: false)),
            ]
            return scenario
        }
        let failing = (1...60 as ClosedRange<UInt64>).lazy.map(scenario)
            .first { SimulatedService($0, of: subject).run().violations.contains { $0.oracle == .ownership } }
        let found = try #require(failing)
        #expect(SimulatedService(found).run().violations.isEmpty)
        let shrunk = try #require(ServiceShrinker(of: subject, attempts: 100).shrink(found))
        #expect(shrunk.scenario.steps.count < found.steps.count)
    }
}
