import Entitlements
import SyncCoreTesting
import SyncSimulation

/// Traces for the diagram tests.
enum ExampleTraces {
    /// 1 January 2026, 00:00 UTC.
    static let epoch: Int64 = 1_767_225_600_000
    static let hour: Int64 = 3_600_000
    static let day: Int64 = 86_400_000

    static func lanes(replicas: Int) -> [Trace.Lane] {
        (1...replicas).flatMap { number in
            [Trace.Lane(.replica, name: "device \(number)"), Trace.Lane(.localStore, name: "store \(number)")]
        } + [Trace.Lane(.remote, name: "remote")]
    }

    static func date(_ text: String) throws -> Int64 { try Timestamp(text).milliseconds }

    /// Two devices buy three months each while neither reaches the remote. The rule keeps the later expiry, so three
    /// paid months are lost. Lanes: 0 and 1 are the first device, 2 and 3 the second, 4 the remote.
    static func lostTime() throws -> (trace: Trace, violations: [Violation]) {
        let (april, mid) = (try date("2026-04-10T09:00:00Z"), try date("2026-04-13T18:30:00Z"))
        let message = "paid until 2026-07-10T09:00:00.000Z by two purchases of 3 months, shown until 2026-04-13"
        let (bought, again) = (9 * day + 9 * hour, 12 * day + 18 * hour + 1_800_000)
        let synced = 19 * day + 12 * hour
        let events =
            begin()
            + [
                TraceEvent(at: bought, lane: 0, .begun(step: 2, "buys com.example.3months as t1")),
                TraceEvent(at: bought + 4, lane: 0, .ended(step: 2, "recorded", isFailure: false)),
                TraceEvent(at: bought + 4, lane: 0, .believes(group: "pro", expires: april, isActive: true)),
                TraceEvent(at: bought + 9, lane: 0, .begun(step: 3, "syncs")),
                TraceEvent(at: bought + 9, lane: 0, .sent(message: 1, to: 4, "write accounts/alice")),
                TraceEvent(at: bought + 9, lane: 0, .lost(message: 1, "the request is lost")),
                TraceEvent(
                    at: bought + 30_009, lane: 0, .ended(step: 3, "unavailable: no answer came", isFailure: true)),
                TraceEvent(at: again, lane: 2, .begun(step: 4, "buys com.example.3months as t2")),
                TraceEvent(at: again + 6, lane: 2, .ended(step: 4, "recorded", isFailure: false)),
                TraceEvent(at: again + 6, lane: 2, .believes(group: "pro", expires: mid, isActive: true)),
                TraceEvent(at: synced - hour, lane: 4, .healed),
            ] + sync(device: 0, step: 5, at: synced, messages: 10, outcome: "written") + [
                TraceEvent(at: synced + 80, lane: 0, .believes(group: "pro", expires: april, isActive: true))
            ] + sync(device: 2, step: 6, at: synced + 2 * hour, messages: 20, outcome: "written, 1 received") + [
                TraceEvent(
                    at: synced + 2 * hour + 80, lane: 2, .believes(group: "pro", expires: mid, isActive: true))
            ] + sync(device: 0, step: 7, at: synced + day, messages: 30, outcome: "1 received") + [
                TraceEvent(at: synced + day + 80, lane: 0, .believes(group: "pro", expires: mid, isActive: true)),
                TraceEvent(
                    at: synced + day + 80, lane: 0, .violated(oracle: Violation.Oracle.coverage.rawValue, message)),
            ]
        return (
            Trace(lanes: lanes(replicas: 2), events: events),
            [Violation(.coverage, message, at: synced + day + 80, lane: 0)]
        )
    }

    private static func begin() -> [TraceEvent] {
        [
            TraceEvent(at: 0, lane: 0, .started(process: 0)),
            TraceEvent(at: 0, lane: 2, .started(process: 0)),
            TraceEvent(at: 8 * day, lane: 0, .disturbed(.cutOutgoing, until: 15 * day, "nothing gets out")),
            TraceEvent(at: 8 * day + hour, lane: 2, .disturbed(.cutOutgoing, until: 15 * day, "nothing gets out")),
            TraceEvent(at: 8 * day + hour, lane: 2, .disturbed(.cutIncoming, until: 15 * day, "nothing gets in")),
        ]
    }

    /// A sync that reads and writes.
    private static func sync(device: Int, step: Int, at: Int64, messages: Int, outcome: String) -> [TraceEvent] {
        [
            TraceEvent(at: at, lane: device, .begun(step: step, "syncs")),
            TraceEvent(at: at, lane: device, .sent(message: messages, to: 4, "read accounts/alice")),
            TraceEvent(at: at + 14, lane: 4, .arrived(message: messages, "read accounts/alice")),
            TraceEvent(at: at + 14, lane: 4, .sent(message: messages + 1, to: device, "found, version 7")),
            TraceEvent(at: at + 31, lane: device, .arrived(message: messages + 1, "found, version 7")),
            TraceEvent(at: at + 33, lane: device, .sent(message: messages + 2, to: 4, "write accounts/alice")),
            TraceEvent(at: at + 50, lane: 4, .arrived(message: messages + 2, "write accounts/alice")),
            TraceEvent(at: at + 50, lane: 4, .sent(message: messages + 3, to: device, "written, version 8")),
            TraceEvent(at: at + 72, lane: device, .arrived(message: messages + 3, "written, version 8")),
            TraceEvent(at: at + 72, lane: device, .ended(step: step, outcome, isFailure: false)),
        ]
    }
}

/// A random trace with events of all kinds.
struct RandomTrace {
    let replicas: Int
    private(set) var events: [TraceEvent] = []
    private var generator: SeededGenerator
    private var now: Int64 = 0
    private var messages = 0
    private var steps = 0
    /// Scheduled events, in the order of their times.
    private var pending: [TraceEvent] = []

    init(seed: UInt64, replicas: Int, count: Int) {
        self.replicas = replicas
        generator = SeededGenerator(seed: seed)
        for replica in 0..<replicas { events.append(TraceEvent(at: 0, lane: 2 * replica, .started(process: 0))) }
        var isHealed = false
        while events.count < count {
            if let next = pending.first, next.at <= now || roll(3) > 0 {
                pending.removeFirst()
                now = max(now, next.at)
                events.append(TraceEvent(at: now, lane: next.lane, next.kind))
            } else if !isHealed, events.count > count * 3 / 4 {
                isHealed = true
                add(remote, .healed)
            } else {
                now += roll(6) == 0 ? Int64(roll(30 * 24)) * ExampleTraces.hour : Int64(roll(400))
                happen()
            }
        }
        events = Array(events.prefix(count))
    }

    var trace: Trace { Trace(lanes: ExampleTraces.lanes(replicas: replicas), events: events) }
    private var remote: Int { 2 * replicas }

    private mutating func roll(_ count: Int) -> Int { Int.random(in: 0..<count, using: &generator) }

    private mutating func add(_ lane: Int, _ kind: TraceEvent.Kind) {
        events.append(TraceEvent(at: now, lane: lane, kind))
    }

    private mutating func later(_ delay: Int64, _ lane: Int, _ kind: TraceEvent.Kind) {
        let event = TraceEvent(at: now + delay, lane: lane, kind)
        pending.insert(event, at: pending.firstIndex { $0.at > event.at } ?? pending.endIndex)
    }

    private mutating func happen() {
        let device = 2 * roll(replicas)
        switch roll(20) {
        case 0..<6: exchange(device)
        case 6..<10: act(device)
        case 10..<13: believe(device)
        case 13: disturb(device)
        case 14:
            add(device, .crashed(process: 0))
            later(Int64(roll(5)) * ExampleTraces.hour, device, .started(process: 0))
        case 15: add(device, .clockMoved(by: Int64(roll(96) - 48) * ExampleTraces.hour))
        case 16: add(roll(2) == 0 ? device + 1 : remote, .storeChanged("is put back from its copy"))
        case 17: add(device, .note("looks at 東京 — \"quoted\" & <b>bold</b>"))
        case 18 where roll(4) == 0:
            add(device, .violated(oracle: "model", "shows until 2026-04-01, the model says 2026-07-01"))
        default: exchange(device)
        }
    }

    private mutating func exchange(_ device: Int) {
        let (request, answer, delay) = (messages, messages + 1, Int64(roll(300)) + 1)
        messages += 2
        add(device, .sent(message: request, to: remote, "write accounts/4f5c21/ledger"))
        if roll(6) == 0 {
            add(device, .lost(message: request, "the request is lost"))
            return
        }
        later(delay, remote, .arrived(message: request, "write accounts/4f5c21/ledger"))
        if roll(8) == 0 { later(delay + 900, remote, .arrived(message: request, "write accounts/4f5c21/ledger")) }
        later(delay, remote, .sent(message: answer, to: device, "conflict with version 12"))
        if roll(6) == 0 {
            later(delay, remote, .lost(message: answer, "the answer is lost"))
        } else {
            later(delay * 2, device, .arrived(message: answer, "conflict with version 12"))
        }
    }

    private mutating func act(_ device: Int) {
        steps += 1
        let words = ["syncs", "buys com.example.3months as t\(steps)", "refunds t\(steps), signed", "restores"][roll(4)]
        add(device, .begun(step: steps, words))
        let fails = roll(4) == 0
        let end = fails ? "unavailable: simulated: no answer came" : "recorded"
        later(Int64(roll(900)), device, .ended(step: steps, end, isFailure: fails))
    }

    private mutating func believe(_ device: Int) {
        let group = roll(3) == 0 ? "com.example.plus" : "pro"
        let month = Int64(roll(5)) * 30 * ExampleTraces.day
        add(
            device,
            .believes(
                group: group, expires: roll(12) == 0 ? nil : ExampleTraces.epoch + 90 * ExampleTraces.day + month,
                isActive: roll(5) > 0))
    }

    private mutating func disturb(_ device: Int) {
        let end = now + Int64(roll(40)) * ExampleTraces.hour
        switch roll(4) {
        case 0: add(device, .disturbed(.cutOutgoing, until: end, "nothing gets out"))
        case 1: add(device, .disturbed(.cutIncoming, until: end, "nothing gets in"))
        case 2: add(device + 1, .disturbed(.full, until: end, "full"))
        default: add(remote, .disturbed(.wrongClock, until: end, "wrong by 7200000 ms"))
        }
    }
}
