import SyncSimulation
import Testing

@Suite("A trace")
struct TraceTests {
    @Test("names the oracle and what it saw in a line")
    func violation() {
        let violation = Violation(.coverage, "device 1 lost 3 days", at: 5, lane: 0)
        #expect("\(violation)" == "coverage: device 1 lost 3 days")
    }
}
