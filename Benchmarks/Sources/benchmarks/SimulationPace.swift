import BenchmarkSupport
import SyncSimulation

/// Measures the pace of the simulation on one core: devices that sync every hour and buy occasionally.
struct SimulationPace {
    static let devices = 5

    let days: Int

    struct Result {
        let days: Int
        let nanoseconds: Double
        let virtualNanoseconds: Double
    }

    func measure() -> Result {
        let day: Int64 = 86_400_000
        let steps = (0..<Self.devices).flatMap { device in
            (0..<4).map { quarter in
                Step(
                    at: Int64(91 * quarter + 7 * device) * day, device: device,
                    .buy(Sale("t\(device)\(quarter)", of: "quarter")))
            }
        }
        let scenario = Scenario(
            seed: 1, devices: Array(repeating: DeviceSetup(pollingHours: 1), count: Self.devices),
            steps: steps.filter { $0.at < Int64(days) * day }.sorted { $0.at < $1.at }, days: days)
        let clock = ContinuousClock()
        let start = clock.now
        let outcome = Simulation(scenario).run()
        let elapsed = clock.now - start
        expect(outcome.violations.isEmpty, "a simulation without violations, not \(outcome.violations)")
        // Every device sends a request and receives an answer each hour, and each of them takes several jobs.
        expect(outcome.jobCount > Self.devices * days * 24 * 4, "every device syncs every hour")
        return Result(
            days: days, nanoseconds: elapsed.nanoseconds, virtualNanoseconds: outcome.virtualTime.nanoseconds)
    }
}
