import SyncSimulation
import Testing

/// The job limit stops endless runs and allows long ones.
@Suite("The job limit")
struct JobLimitTests {
    private func polling(days: Int) -> Scenario {
        let devices = 0..<5
        return Scenario(
            seed: 1, devices: devices.map { _ in DeviceSetup(pollingHours: 1) },
            steps: devices.map { Step(at: 0, device: $0, .buy(Sale("t\($0)", of: "quarter"))) }, days: days)
    }

    @Test("A year of hourly syncs by five devices stays below half of the limit")
    func yearOfPolling() {
        let outcome = Simulation(polling(days: 2)).run()
        #expect(outcome.violations.isEmpty)
        // Extrapolates from two days to a year.
        #expect(outcome.jobCount / 2 * 365 < Simulation(polling(days: 365)).jobLimit / 2)
    }

    @Test("A scenario without polling has a limit of 20 million jobs")
    func withoutPolling() {
        let scenario = Scenario(seed: 1, devices: [DeviceSetup()], steps: [], days: 36_500)
        #expect(Simulation(scenario).jobLimit == 20_000_000)
    }
}
