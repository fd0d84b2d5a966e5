import SyncCoreTesting
import Testing

@testable import SyncService

@Suite("Attempts to deliver events")
struct DeliveryLaneTests {
    private static let hour: Int64 = 3_600_000

    /// The times of all attempts, from 0, if each fails.
    private func attempts(asked: Int64? = nil, jitter: () -> Double) -> [Int64] {
        var times: [Int64] = [0]
        while let next = DeliverySchedule.next(
            after: times.count, since: 0, at: times[times.count - 1], asked: asked, jitter: jitter())
        {
            times.append(next)
        }
        return times
    }

    @Test("Pauses grow from 5 seconds to 12 hours, and end after three days")
    func schedule() {
        let times = attempts { 0.5 }
        #expect(times.prefix(6) == [0, 5_000, 20_000, 65_000, 200_000, 605_000])
        #expect(times.last == DeliverySchedule.total)
        let pauses = zip(times, times.dropFirst()).map { $1 - $0 }
        #expect(pauses.max() == 12 * Self.hour)
        #expect(times.count == 15)
        // A receiver may ask for a longer pause, but not for one that never ends.
        #expect(attempts(asked: 600_000) { 0.5 }.prefix(3) == [0, 600_000, 1_200_000])
        #expect(attempts(asked: .max) { 0.5 }.count == 7)
        // A clock that was set back is no reason to try for ever.
        #expect(DeliverySchedule.next(after: 40, since: 0, at: -1_000_000_000, asked: nil, jitter: 0) == nil)
    }

    @Test("With any jitter there are few attempts, each after the one before, within three days", arguments: 1...20)
    func jitter(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let times = attempts { Double.random(in: 0...1, using: &generator) }
        #expect(times == times.sorted() && Set(times).count == times.count)
        #expect((14...17).contains(times.count) && times.last == DeliverySchedule.total, "\(times.count)")
    }

    @Test("An event waits for the one before, until that is delivered or dead")
    func order() {
        var lane = DeliveryLane([Delivery(event: 1), Delivery(event: 2), Delivery(event: 3)])
        #expect(lane.next(at: 0)?.event == 1)
        lane.record(.failed("no", retryAfter: nil), at: 0, jitter: 0.5)
        #expect(lane.next(at: 0) == nil && lane.failed?.due == 5_000)
        #expect(lane.next(at: 5_000)?.event == 1)
        lane.record(.delivered, at: 5_000, jitter: 0.5)
        #expect(lane.next(at: 5_000)?.event == 2)
        lane.record(.refused("gone"), at: 5_000, jitter: 0.5)
        #expect(lane.next(at: 5_000)?.event == 3 && lane.dead.map(\.event) == [2] && lane.delivered == [1])
        #expect(lane.dead.first?.error == "gone" && lane.failed == nil)
    }

    /// A model of the rows of one account, and of a receiver.
    private struct World {
        var rows: [Delivery] = []
        var dead: Set<Int64> = []
        var arrived: [Int64] = []
    }

    @Test(
        "Each event arrives, and in order, unless one is dead: whatever fails, and whichever results are lost",
        arguments: 1...50)
    func anyHistory(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var world = World()
        var (now, next): (Int64, Int64) = (0, 1)
        var outage: Int64 = 0
        while now < 20 * 24 * Self.hour {
            now += Int64.random(in: 0...(2 * Self.hour), using: &generator)
            if next <= 60, Bool.random(using: &generator) {
                world.rows.append(Delivery(event: next))
                next += 1
            }
            if now < 12 * 24 * Self.hour, Int.random(in: 0..<30, using: &generator) == 0 {
                outage = now + Int64.random(in: 0...(100 * Self.hour), using: &generator)
            }
            var lane = DeliveryLane(Array(world.rows.prefix(4)))
            while let delivery = lane.next(at: now) {
                let isAccepted = now >= outage && Int.random(in: 0..<4, using: &generator) > 0
                if isAccepted { world.arrived.append(delivery.event) }
                // A receiver may have accepted what looks like a failure.
                let isSeen = isAccepted && Int.random(in: 0..<10, using: &generator) > 0
                lane.record(
                    isSeen ? .delivered : .failed("no", retryAfter: nil), at: now,
                    jitter: Double.random(in: 0...1, using: &generator))
                #expect(lane.dead.allSatisfy { now - ($0.since ?? now) >= DeliverySchedule.total }, "seed \(seed)")
            }
            // The process was killed before the results were recorded.
            if Int.random(in: 0..<5, using: &generator) == 0 { continue }
            world.dead.formUnion(lane.dead.map(\.event))
            let done = Set(lane.delivered).union(lane.dead.map(\.event))
            world.rows.removeAll { done.contains($0.event) }
            if let failed = lane.failed, !world.rows.isEmpty { world.rows[0] = failed }
        }
        var first: [Int64] = []
        for event in world.arrived where !first.contains(event) { first.append(event) }
        #expect(first == first.sorted(), "seed \(seed)")
        #expect(Set(first).union(world.dead) == Set(1..<next), "seed \(seed)")
    }
}
