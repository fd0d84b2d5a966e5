import SyncSimulation
import Testing

@Suite("A trace as text")
struct TraceLineTests {
    private static let kinds: [(TraceEvent.Kind, String)] = [
        (.begun(step: 3, "buys quarter as t1"), "step 3: buys quarter as t1"),
        (.ended(step: 3, "recorded", isFailure: false), "step 3 ends: recorded"),
        (.ended(step: 3, "no room", isFailure: true), "step 3 fails: no room"),
        (.sent(message: 7, to: 2, "write"), "sends #7 to remote: write"),
        (.arrived(message: 7, "written"), "receives #7: written"),
        (.lost(message: 7, "cut off"), "loses #7: cut off"),
        (.started(process: 1), "process 1 starts"), (.crashed(process: 1), "process 1 crashes"),
        (
            .disturbed(.cutIncoming, until: 90_061_001, "nothing gets in"),
            "cut off inwards until day   1 01:01:01.001: nothing gets in"
        ),
        (
            .believes(group: "random", expires: 1_767_225_600_000, isActive: true),
            "believes that random is active, until 2026-01-01T00:00:00.000Z"
        ),
        (.believes(group: "random", expires: nil, isActive: false), "believes that random is not active, never bought"),
        (.clockMoved(by: -60_000), "its clock is moved by -60000 ms"),
        (.storeChanged("is emptied"), "is emptied"), (.healed, "faults are over"),
        (.violated(oracle: "coverage", "lost 3 days"), "VIOLATED coverage: lost 3 days"),
        (.note("two\nlines\u{1B}[2J"), "two\u{FFFD}lines\u{FFFD}[2J"),
    ]

    private static let lanes = [
        Trace.Lane(.replica, name: "device 1"), Trace.Lane(.localStore, name: "store 1"),
        Trace.Lane(.remote, name: "remote"),
    ]

    @Test("Each event has a line with time, lane and description")
    func lines() {
        let events = Self.kinds.map { TraceEvent(at: 90_061_001, lane: 1, $0.0) }
        let expected = Self.kinds.map { "day   1 01:01:01.001  store 1   \($0.1)" }
        #expect(Trace(lanes: Self.lanes, events: events).lines == expected)
    }

    @Test("An event on an unknown lane is printed too")
    func strangeLane() {
        let trace = Trace(lanes: [], events: [TraceEvent(at: 0, lane: 5, .sent(message: 1, to: -1, "read"))])
        #expect(trace.lines == ["day   0 00:00:00.000  lane 5  sends #1 to lane -1: read"])
    }

    @Test("A violation is printed with its time and lane")
    func violation() {
        let violation = Violation(.coverage, "lost\n3 days", at: 86_400_000, lane: 0)
        let line = violation.line(in: Trace(lanes: Self.lanes))
        #expect(line == "day   1 00:00:00.000  device 1  coverage: lost\u{FFFD}3 days")
        #expect("\(Violation(.coverage, "lost 3 days", at: 5, lane: 0))" == "coverage: lost 3 days")
    }
}
