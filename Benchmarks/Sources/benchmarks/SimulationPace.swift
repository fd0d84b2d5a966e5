import BenchmarkSupport
import SyncSimulation

/// How much faster than life the simulation is, on one core: devices that sync every hour for a year, whether anything
/// happens or not, and buy now and then.
struct SimulationPace {
    static let devices = 5
    static let days = 365

    /// Nanoseconds of real time, and how much virtual time went by in them.
    func measure() -> (nanoseconds: Double, virtualNanoseconds: Double) {
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
            steps: steps.sorted { $0.at < $1.at }, days: Self.days)
        let clock = ContinuousClock()
        let start = clock.now
        let outcome = Simulation(scenario).run()
        let elapsed = clock.now - start
        expect(outcome.violations.isEmpty, "nothing is violated")
        // An hour of which every device makes at least one request and one answer, each several jobs.
        expect(outcome.jobCount > Self.devices * Self.days * 24 * 4, "every device syncs every hour")
        return (elapsed.nanoseconds, outcome.virtualTime.nanoseconds)
    }
}
