import SyncSimulation
import Testing

@Suite("A trace")
struct TraceTests {
    @Test("A violation is described by its oracle and message in one line")
    func violation() {
        let violation = Violation(.coverage, "device 1 lost 3 days", at: 5, lane: 0)
        #expect("\(violation)" == "coverage: device 1 lost 3 days")
    }
}
