import Synchronization
import Testing

@testable import SyncCore

@Suite("The list of waiting tasks")
struct WaitListTests {
    private final class Payload: Sendable {}

    @Test("Waiters are resumed in order, those at the front first, also before their tasks suspend")
    func order() async {
        let list = WaitList<Int, String>()
        let waiters = [list.add(1), list.add(2), list.add(0, atFront: true), list.add(3)]
        #expect(list.resumeFirst(returning: "first"))
        #expect(list.resumeFirst(returning: "odd") { $0 == 3 })
        #expect(!list.resumeFirst(returning: "none") { $0 == 3 })
        #expect(list.resumeAll(returning: "rest"))
        #expect(!list.resumeAll(returning: "nobody"))
        var values: [String] = []
        for waiter in waiters { values.append(await waiter.value()) }
        #expect(values == ["rest", "rest", "first", "odd"])
    }

    @Test("Taken waiters keep their order when they are put back")
    func taking() async {
        let list = WaitList<Int, Int>()
        let waiters = (0..<4).map { list.add($0) }
        let taken = list.take { $0 < 3 }
        #expect(taken.map(\.payload) == [0, 1, 2])
        #expect(list.count == 1)
        list.putBack(taken.dropFirst())
        #expect(list.take().map(\.payload) == [1, 2, 3])
        #expect(list.isEmpty)
        for waiter in waiters { waiter.resume(returning: waiter.payload * 10) }
        var values: [Int] = []
        for waiter in waiters { values.append(await waiter.value()) }
        #expect(values == [0, 10, 20, 30])
    }

    @Test("A cancellation before the wait removes the waiter; one after the resumption changes nothing")
    func cancellation() async {
        let list = WaitList<Void, String>()
        let early = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await list.add().value(ifCancelled: "cancelled")
        }
        #expect(await early.value == "cancelled")
        #expect(list.isEmpty)
        let late = Task {
            let waiter = list.add()
            list.resumeFirst(returning: "resumed")
            withUnsafeCurrentTask { $0?.cancel() }
            return await waiter.value(ifCancelled: "cancelled")
        }
        #expect(await late.value == "resumed")
        let stubborn = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await list.add().value()
        }
        while !list.resumeFirst(returning: "resumed") { await Task.yield() }
        #expect(await stubborn.value == "resumed")
    }

    @Test("A waiter that left the list is not kept")
    func lifetime() async {
        let list = WaitList<Payload, Void>()
        weak var resumed: Payload?
        weak var cancelled: Payload?
        do {
            let waiters = (list.add(Payload()), list.add(Payload()))
            (resumed, cancelled) = (waiters.0.payload, waiters.1.payload)
            list.resumeFirst(returning: ())
            await waiters.0.value()
            await Task {
                withUnsafeCurrentTask { $0?.cancel() }
                await waiters.1.value(ifCancelled: ())
            }.value
        }
        #expect(resumed == nil)
        #expect(cancelled == nil)
    }

    @Test("Whatever cancellations meet resumptions, each waiter ends once and no resumption is lost")
    func races() async {
        let list = WaitList<Int, Int?>()
        for round in 0..<200 {
            let count = 8
            let tasks = (0..<count).map { number in
                Task { await list.add(number).value(ifCancelled: .some(nil)) }
            }
            let delivered = Task {
                var delivered = 0
                for _ in 0..<count where list.resumeFirst(returning: round) {
                    delivered += 1
                    await Task.yield()
                }
                return delivered
            }
            for task in tasks.dropFirst(round % count) { task.cancel() }
            let sum = await delivered.value
            // Those that are neither cancelled nor resumed still wait.
            for task in tasks { task.cancel() }
            var resumed = 0
            for task in tasks where await task.value == round { resumed += 1 }
            #expect(resumed == sum)
            #expect(list.isEmpty)
        }
    }
}

@Suite("Turns")
struct TurnsTests {
    private enum Failure: Error { case expected }

    private final class Progress: Sendable {
        let order = Mutex<[Int]>([])
        let insideCount = Mutex(0)
    }

    @Test("Tasks take turns in the order of arrival, also after one that throws")
    func order() async {
        let turns = Turns()
        let progress = Progress()
        #expect(await turns.enter())
        var tasks: [Task<Void, any Error>] = []
        for number in 0..<5 {
            tasks.append(
                Task {
                    try await turns.exclusively { () throws(Failure) in
                        progress.order.withLock { $0.append(number) }
                        if number == 2 { throw .expected }
                    }
                })
            while turns.waitingCount <= number { await Task.yield() }
        }
        turns.leave()
        for (number, task) in tasks.enumerated() {
            let result = await task.result
            #expect((try? result.get()) == nil ? number == 2 : number != 2)
        }
        #expect(progress.order.withLock { $0 } == [0, 1, 2, 3, 4])
    }

    @Test("One task at a time has its turn, and no turn is lost to a cancelled task")
    func races() async {
        let turns = Turns()
        let progress = Progress()
        for round in 0..<100 {
            let tasks = (0..<8).map { number in
                Task {
                    guard await turns.enter() else { return false }
                    progress.insideCount.withLock { $0 += 1 }
                    await Task.yield()
                    let count = progress.insideCount.withLock { count in
                        defer { count -= 1 }
                        return count
                    }
                    #expect(count == 1)
                    turns.leave()
                    return true
                }
            }
            for task in tasks where (task.hashValue &+ round).isMultiple(of: 2) { task.cancel() }
            for task in tasks { _ = await task.value }
            #expect(await turns.enter())
            turns.leave()
            #expect(turns.waitingCount == 0)
        }
    }
}
