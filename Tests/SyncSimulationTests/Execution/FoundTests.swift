import Entitlements
import SyncSimulation
import Testing

/// Regression tests for defects that the simulation found, each as its smallest scenario.
@Suite("Defects found by the simulation")
struct FoundTests {
    private static let day: Int64 = 86_400_000

    /// Seed 11980: the app dated the purchase by its own clock, a hundred years ahead, although the second process
    /// knew the right time. The next time it read the store, the purchase was in the future.
    @Test("A purchase is dated by the best time that any process of the device knows")
    func timeOfAnotherProcess() {
        let scenario = Scenario(
            seed: 11_980, devices: [DeviceSetup()],
            steps: [
                Step(at: 0, device: 0, .sync),
                Step(at: Self.day, device: 0, .moveClock(36_500 * Self.day)),
                Step(at: 2 * Self.day, device: 0, process: 1, .sync),
                Step(at: 3 * Self.day, device: 0, .buy(Sale("t0007", of: "quarter"))),
            ], days: 4)
        #expect(Simulation(scenario).run().violations.isEmpty)
    }

    /// Seed 12061: while the rollback guard held the clock just before the end of a period, `run` woke every few
    /// milliseconds until the clock had caught up, for days.
    @Test("A device whose clock is held just before the end of a period sleeps until it catches up")
    func heldClock() {
        let ahead = 6 * Self.day - 3_600_000
        let scenario = Scenario(
            seed: 12_061, devices: [DeviceSetup(pollingHours: 100)],
            steps: [
                Step(at: 0, device: 0, .buy(Sale("t0001", of: "week"))),
                Step(at: Self.day, device: 0, .sync),
                Step(at: Self.day + 60_000, device: 0, .cut(requests: true, answers: true, 30 * Self.day)),
                Step(at: Self.day + 3_600_000, device: 0, .moveClock(ahead - 5)),
                Step(at: Self.day + 3_600_001, device: 0, .look),
                Step(at: Self.day + 3_700_000, device: 0, .moveClock(5 - ahead)),
                Step(at: Self.day + 3_700_001, device: 0, .look),
            ], days: 5)
        let outcome = Simulation(scenario).run()
        #expect(outcome.violations.isEmpty)
        // The first poll, which fails, comes after the held time.
        #expect(outcome.jobCount < 10_000)
    }

    /// Seed 2629: two processes had each reached the server since they last read the store and had the same contact
    /// number. One of them replaced its corrected time with the outdated time of the other.
    @Test("Processes with equal contact numbers are told apart")
    func contactsCountedAlike() {
        let (start, hour) = (181 * Self.day, Int64(3_600_000))
        let scenario = Scenario(
            seed: 2_629, devices: [DeviceSetup()],
            steps: [
                Step(at: start, device: 0, .sync),
                Step(at: start + 6 * hour, device: 0, process: 1, .sync),
                Step(at: start + 7 * hour, device: 0, .moveClock(77 * Self.day)),
                Step(at: start + 8 * hour, device: 0, .sync),
                Step(at: start + 8 * hour, device: 0, process: 1, .look),
            ], days: 182)
        #expect(Simulation(scenario).run().violations.isEmpty)
    }

    /// Seed 57: a sync received the account's ledger, but could not read the server ledger. The device then took the
    /// account for completely known, although the server may have verified purchases that it lacked.
    @Test("An account without its server ledger is not taken for completely known")
    func unreadServerLedger() {
        let scenario = Scenario(
            seed: 1, devices: [DeviceSetup(), DeviceSetup()], remote: RemoteSetup(policy: .verified),
            faults: FaultRates(lostRequests: 267),
            steps: [
                Step(at: 0, device: 1, .sync),
                Step(at: Self.day, device: 1, .buy(Sale("t0004", of: "quarter"))),
            ], days: 2)
        #expect(Simulation(scenario).run().violations.isEmpty)
    }
}
