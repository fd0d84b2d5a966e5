import SyncCore
import Synchronization
import Testing

@testable import EntitlementSync

@Suite("Wake-up signals and broadcasts", .timeLimit(.minutes(15)))
struct SignalTests {
    @Test("Any number of signals before a wait end it immediately")
    func before() async {
        let wakeUp = WakeUp()
        for _ in 0..<3 { wakeUp.signal() }
        await wakeUp.wait()
    }

    @Test("Signals before a wait are merged: the next wait needs a new signal")
    func countOnce() async {
        let wakeUp = WakeUp()
        wakeUp.signal()
        wakeUp.signal()
        await wakeUp.wait()
        let wasSignalled = Switch()
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                await wakeUp.wait()
                #expect(wasSignalled.isSet)
            }
            for _ in 0..<100 { await Task.yield() }
            wasSignalled.set()
            wakeUp.signal()
        }
    }

    @Test("Cancellation ends a wait, whether it comes before or after the wait begins", arguments: [0, 100])
    func cancellation(yields: Int) async {
        let wakeUp = WakeUp()
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await wakeUp.wait() }
            for _ in 0..<yields { await Task.yield() }
            group.cancelAll()
        }
    }

    @Test("No signal is missed with four writers and a reader that is sometimes cancelled")
    func stress() async {
        let wakeUp = WakeUp()
        let written = Counter()
        let target = 4 * 5_000
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    for number in 0..<5_000 {
                        written.next()
                        wakeUp.signal()
                        if number.isMultiple(of: 50) { await Task.yield() }
                    }
                }
            }
            var rounds = 0
            while written.value < target {
                rounds += 1
                await withTaskGroup(of: Void.self) { race in
                    race.addTask { await wakeUp.wait() }
                    if rounds.isMultiple(of: 3) { race.cancelAll() }
                }
            }
        }
        #expect(written.value == target)
    }

    @Test("Every subscriber, however late or slow, receives ascending elements and the last one")
    func broadcast() async {
        let last = 5_000
        let broadcast = Broadcast<Int>()
        let newest = Newest()
        await withTaskGroup(of: Void.self) { group in
            for subscriber in 0..<8 {
                group.addTask {
                    // Subscribing under the writer's lock makes the first element the newest.
                    let stream = newest.number.withLock { broadcast.subscribe(startingWith: $0, keeping: 1) }
                    var previous = -1
                    for await element in stream {
                        #expect(element > previous)
                        previous = element
                        if element == last { break }
                        if element.isMultiple(of: subscriber + 1) { await Task.yield() }
                    }
                    #expect(previous == last)
                }
            }
            for number in 1...last {
                newest.number.withLock { newest in
                    newest = number
                    broadcast.send(number)
                }
                if number.isMultiple(of: 100) { await Task.yield() }
            }
        }
    }

    @Test("A subscriber that falls behind misses the oldest elements")
    func fallingBehind() async {
        let broadcast = Broadcast<Int>()
        let stream = broadcast.subscribe(keeping: 3)
        for number in 1...10 { broadcast.send(number) }
        #expect(await stream.take(3) == [8, 9, 10])
    }

    @Test("When one subscriber leaves, the others still receive every element")
    func leaving() async {
        let broadcast = Broadcast<Int>()
        var leaving: AsyncStream<Int>? = broadcast.subscribe(keeping: 1)
        let staying = broadcast.subscribe(keeping: 2)
        _ = leaving
        leaving = nil
        broadcast.send(1)
        broadcast.send(2)
        #expect(await staying.take(2) == [1, 2])
    }
}

private final class Newest: Sendable {
    let number = Mutex(0)
}
