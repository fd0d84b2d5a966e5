import SyncCoreTesting
import SyncSimulation
import Testing

@testable import syncsim

@Suite("The layout of a diagram")
struct DiagramLayoutTests {
    private static let seeds: [UInt64] = Array(1...40)

    private func layout(_ trace: Trace, _ violations: [Violation] = []) -> (DiagramStory, DiagramLayout) {
        let story = DiagramStory(trace, violations: violations, epoch: ExampleTraces.epoch)
        return (story, DiagramLayout(story))
    }

    private func event(_ at: Int64, _ lane: Int, _ kind: TraceEvent.Kind) -> TraceEvent {
        TraceEvent(at: at, lane: lane, kind)
    }

    @Test("No two labels touch, in 200 events of five replicas", arguments: seeds)
    func labels(seed: UInt64) {
        let (story, layout) = layout(RandomTrace(seed: seed, replicas: 5, count: 200).trace)
        #expect(layout.labels.count > 60, "seed \(seed)")
        for (index, label) in layout.labels.enumerated() {
            for other in layout.labels.dropFirst(index + 1) {
                let isApart =
                    label.right <= other.left || other.right <= label.left || label.bottom <= other.top
                    || other.bottom <= label.top
                #expect(isApart, "seed \(seed): \(label.text) and \(other.text)")
            }
            #expect(label.left >= 0 && label.right <= layout.width && label.bottom <= layout.height, "seed \(seed)")
            if case .violation = label.style { continue }
            guard let column = layout.columns[label.lane] else {
                Issue.record("seed \(seed): a label on no lane")
                continue
            }
            #expect(label.left >= column.labels.lowerBound && label.right <= column.labels.upperBound, "seed \(seed)")
            #expect(!(label.left...label.right).contains(column.line), "seed \(seed): \(label.text) is on its line")
        }
        #expect(story.events.count == layout.rows.rowOfEvent.count)
    }

    @Test(
        "Every event has a row of its own, from top to bottom, and every long gap has a pause",
        arguments: seeds)
    func rows(seed: UInt64) {
        let (story, layout) = layout(RandomTrace(seed: seed, replicas: 5, count: 200).trace)
        var bottom = 0
        var drawn: [Int] = []
        var pauses: [Int] = []
        for row in layout.rows.rows {
            #expect(row.top == bottom, "seed \(seed)")
            bottom = row.bottom
            switch row.content {
            case .event(let index): drawn.append(index)
            case .pause(_, let next): pauses.append(next)
            }
        }
        #expect(drawn == Array(story.events.indices), "seed \(seed)")
        let long = story.events.indices.filter { index in
            index == 0 || story.events[index].at - story.events[index - 1].at >= DiagramRows.shortestPause
        }
        #expect(Set(pauses).isSuperset(of: long), "seed \(seed)")
        #expect(bottom <= layout.height)
    }

    @Test("Each arrival and each loss has an arrow between the lines of its lanes", arguments: seeds)
    func arrows(seed: UInt64) {
        let trace = RandomTrace(seed: seed, replicas: 5, count: 200).trace
        let (_, layout) = layout(trace)
        var sendings: [Int: (index: Int, from: Int, to: Int)] = [:]
        var expected: [Int] = []
        for (index, event) in trace.events.enumerated() {
            switch event.kind {
            case .sent(let message, let target, _): sendings[message] = (index, event.lane, target)
            case .arrived, .lost: expected.append(index)
            default: continue
            }
        }
        #expect(layout.journeys.compactMap(\.ending) == expected, "seed \(seed)")
        for journey in layout.journeys {
            guard let sending = sendings[journey.message] else {
                Issue.record("seed \(seed): an arrow for a message that was never sent")
                continue
            }
            #expect((journey.from, journey.to) == (sending.from, sending.to), "seed \(seed)")
            #expect(journey.start.x == layout.columns[sending.from]?.line, "seed \(seed)")
            #expect(journey.start.y == layout.rows.middle(ofEvent: sending.index), "seed \(seed)")
            guard let ending = journey.ending else { continue }
            #expect(journey.finish.y == layout.rows.middle(ofEvent: ending), "seed \(seed)")
            let reaches = journey.finish.x == layout.columns[sending.to]?.line
            #expect(reaches == (journey.end != .lost), "seed \(seed): only a lost message ends before its target")
        }
    }

    @Test("A lost message ends before its target, with the reason beside it")
    func lost() throws {
        let trace = Trace(
            lanes: ExampleTraces.lanes(replicas: 2),
            events: [
                event(0, 0, .sent(message: 1, to: 4, "write")), event(1, 0, .lost(message: 1, "cut")),
                event(2, 4, .sent(message: 2, to: 2, "written")), event(3, 4, .lost(message: 2, "late")),
            ])
        let (_, layout) = layout(trace)
        let (device, remote) = (try #require(layout.columns[2]), try #require(layout.columns[4]))
        #expect(layout.journeys.map(\.end) == [.lost, .lost])
        #expect(layout.journeys[0].finish.x < remote.line && layout.journeys[0].finish.x > device.right)
        #expect(layout.journeys[1].finish.x > device.line && layout.journeys[1].finish.x < device.right)
        #expect(layout.labels.map(\.text) == ["cut", "late"])
        #expect(layout.labels.map(\.lane) == [4, 2])
        #expect(layout.labels[1].right < layout.journeys[1].finish.x, "the arrow must not cross its label")
    }

    @Test("First arrivals, repeated arrivals and messages in transit are distinguished")
    func repeated() {
        let trace = Trace(
            lanes: ExampleTraces.lanes(replicas: 1),
            events: [
                event(0, 0, .sent(message: 1, to: 2, "write")), event(1, 2, .arrived(message: 1, "write")),
                event(2, 0, .sent(message: 2, to: 2, "read")), event(9, 2, .arrived(message: 1, "write")),
                event(9, 2, .arrived(message: 7, "from nobody")),
            ])
        #expect(layout(trace).1.journeys.map(\.end) == [.arrived, .repeated, .underWay])
        #expect(layout(trace).1.journeys.map(\.message) == [1, 1, 2])
    }

    @Test("A device and its store share a panel, and the remote has its own")
    func panels() {
        let (_, layout) = layout(Trace(lanes: ExampleTraces.lanes(replicas: 3)))
        #expect(layout.columns.panels.map(\.lanes) == [[0, 1], [2, 3], [4, 5], [6]])
        for (panel, next) in zip(layout.columns.panels, layout.columns.panels.dropFirst()) {
            #expect(panel.right < next.left)
        }
        #expect(layout.columns.panels.last?.right == layout.width)
    }

    @Test("A fault ends in the pause that contains its end, or with the trace")
    func bands() {
        let hour = ExampleTraces.hour
        let trace = Trace(
            lanes: ExampleTraces.lanes(replicas: 1),
            events: [
                event(0, 0, .disturbed(.cutOutgoing, until: hour, "")), event(1, 2, .disturbed(.full, until: .max, "")),
                event(2, 0, .note("during")), event(2 * hour, 0, .note("after")),
                event(2 * hour, 0, .clockMoved(by: -hour)), event(3 * hour, 0, .clockMoved(by: hour)),
                event(4 * hour, 0, .note("later")),
            ])
        let (_, layout) = layout(trace)
        let rows = layout.rows
        #expect(layout.bands.map(\.kind) == [.cutOutgoing, .full, .wrongClock])
        #expect(layout.bands.map(\.top) == [0, 1, 4].map { rows.middle(ofEvent: $0) })
        let end = layout.bands[0].bottom
        #expect(end > rows.rows[rows.rowOfEvent[2]].bottom && end < rows.rows[rows.rowOfEvent[3]].top)
        #expect(layout.bands[1].bottom == layout.height)
        #expect(layout.bands[2].bottom == rows.middle(ofEvent: 5))
    }

    @Test("A crashed process has no lifeline until it restarts, and a lane without running processes is shaded")
    func crashes() {
        let trace = Trace(
            lanes: ExampleTraces.lanes(replicas: 1),
            events: [
                event(0, 0, .started(process: 0)), event(1, 0, .started(process: 1)), event(2, 0, .crashed(process: 0)),
                event(3, 0, .crashed(process: 1)), event(4, 0, .started(process: 0)), event(5, 0, .note("runs")),
            ])
        let (_, layout) = layout(trace)
        let y = trace.events.indices.map { layout.rows.middle(ofEvent: $0) }
        let lives = layout.lives.filter { $0.lane == 0 && $0.isAlive }
        #expect(lives.map(\.process) == [0, 1, 0])
        #expect(lives.map(\.top) == [y[0], y[1], y[4]])
        #expect(lives.map(\.bottom) == [y[2], y[3], layout.height])
        let down = layout.bands.filter { $0.kind == .down }
        #expect(down.map(\.top) == [y[3]] && down.map(\.bottom) == [y[4]])
    }

    @Test("Equal expiries have the same colour on all devices, and only changes start a bar")
    func beliefs() {
        func believes(_ at: Int64, _ lane: Int, _ expires: Int64?, _ isActive: Bool = true) -> TraceEvent {
            event(at, lane, .believes(group: "pro", expires: expires, isActive: isActive))
        }
        let trace = Trace(
            lanes: ExampleTraces.lanes(replicas: 2),
            events: [
                believes(0, 0, 100), believes(1, 2, 200), believes(2, 0, 100), believes(3, 2, 100),
                believes(4, 0, 100, false),
            ])
        let (_, layout) = layout(trace)
        #expect(layout.beliefs.map(\.event) == [0, 1, 3, 4])
        #expect(layout.beliefs.map(\.color) == [0, 1, 0, 0])
        #expect(layout.beliefs.map(\.isActive) == [true, true, true, false])
        #expect(layout.beliefs[0].bottom == layout.beliefs[3].top && layout.beliefs[1].bottom == layout.beliefs[2].top)
    }

    @Test("An inconsistent trace is drawn as far as possible")
    func nonsense() {
        let trace = Trace(
            lanes: [Trace.Lane(.localStore, name: "alone"), Trace.Lane(.replica, name: "without a store")],
            events: [
                event(0, 9, .note("nowhere")), event(0, -1, .crashed(process: 0)),
                event(1, 0, .sent(message: 1, to: 7, "to nobody")), event(2, 1, .arrived(message: 1, "from somebody")),
                event(3, 1, .ended(step: 4, "never begun", isFailure: true)), event(.max, 1, .clockMoved(by: .min)),
                event(.max, 1, .clockMoved(by: .min)),
                event(.max, 1, .believes(group: "", expires: .min, isActive: true)),
            ])
        let (story, layout) = layout(trace, [Violation(.errors, "out of range", at: -5, lane: 70)])
        #expect(story.events.count == 9 && story.violations == [0])
        #expect(layout.journeys.isEmpty)
        #expect(layout.columns.panels.map(\.lanes) == [[0], [1]])
        #expect(layout.rows.rowOfEvent.count == 9)
    }

    @Test("An empty trace has an empty layout")
    func empty() {
        let (_, layout) = layout(Trace(lanes: []))
        #expect(layout.width == 0 && layout.labels.isEmpty && layout.rows.rows.isEmpty)
    }
}
