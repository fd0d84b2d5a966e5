import Entitlements
import SyncSimulation
import Testing

/// Mistakes of ours that the simulation found, each as the smallest scenario that showed it.
@Suite("What the simulation found")
struct FoundTests {
    private static let day: Int64 = 86_400_000

    /// Seed 11980: the app took the time from its own clock, a hundred years ahead, although the second process had
    /// been told better, and dated the purchase so; its first look at the store then put it into the future.
    @Test("A process that buys has taken up what another process of the device knows of the time")
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

    /// Seed 12061: while a mark held the clock just before the end of a period, `run` looked again every few
    /// milliseconds until the clock had caught up, for days.
    @Test("A device whose clock is held just before the end of a period sleeps until it has caught up")
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
            ], days: 20)
        let outcome = Simulation(scenario).run()
        #expect(outcome.violations.isEmpty)
        #expect(outcome.jobCount < 100_000)
    }

    /// Seed 2629: two processes had each met the server since they last looked, and counted that alike. The one took
    /// for now what the other believed since the clock was moved, right after it had been told better.
    @Test("Two processes that count their contacts alike are not taken for one")
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
}
