/// The virtual clock, its timers, and the event loop of a simulation. Single-threaded.
final class Scheduler: @unchecked Sendable {
    /// The reason why a run was aborted.
    enum Failure: Error, Equatable {
        /// No job is ready and no timer is set, but the run has not finished: a deadlock.
        case stuck
        /// The run exceeded its limit of jobs.
        case endless(jobs: Int)
    }

    private struct Timer {
        var at: Int64
        /// Timers of equal times fire in the order in which they were set.
        var number: UInt64
        var action: () -> Void
    }

    let executor: SimulationExecutor
    /// Microseconds since the start of the run.
    private(set) var now: Int64 = 0
    private var timers: [Timer] = []
    private var cancelled: Set<UInt64> = []
    private var lastNumber: UInt64 = 0
    /// The number of jobs that came from other threads.
    private(set) var foreignJobCount = 0

    init(seed: UInt64) {
        executor = SimulationExecutor(seed: seed)
    }

    /// 1 January 2026, 00:00 UTC, in milliseconds since 1970 UTC: the start of every run.
    static let epoch: Int64 = 1_767_225_600_000

    /// The true time of the run, in milliseconds since 1970 UTC.
    var trueTime: Int64 { Self.epoch + now / 1_000 }

    /// Runs until `isOver` returns `true`, advancing the clock from one timer to the next.
    func run(atMost jobLimit: Int, until isOver: () -> Bool) throws(Failure) {
        while true {
            while executor.runOne() {
                if executor.jobCount > jobLimit { throw .endless(jobs: jobLimit) }
            }
            if isOver() { break }
            let foreign = executor.takeForeign()
            foreignJobCount += foreign
            if foreign > 0 { continue }
            guard let next = nextTimer() else { throw .stuck }
            now = max(now, next.at)
            next.action()
        }
        // Timers that are still set must not keep the run's objects alive.
        timers = []
    }

    /// Calls `action` when virtual time reaches `time`.
    ///
    /// - Returns: A number for ``cancel(_:)``.
    @discardableResult
    func at(_ time: Int64, _ action: @escaping () -> Void) -> UInt64 {
        lastNumber += 1
        insert(Timer(at: time, number: lastNumber, action: action))
        return lastNumber
    }

    /// Cancels a pending action.
    func cancel(_ number: UInt64) {
        // The timer stays in the heap until its time comes, which is usually soon.
        cancelled.insert(number)
    }

    /// Cancels an action that may have been called already.
    func cancelIfPending(_ number: UInt64) {
        if timers.contains(where: { $0.number == number }) { cancel(number) }
    }

    /// Runs `body` as an unstructured task of the run.
    @discardableResult
    func spawn(_ body: @escaping @Sendable () async -> Void) -> Task<Void, Never> {
        Task(executorPreference: executor) { await body() }
    }

    /// Sleeps until virtual time reaches `time`. Throws if the task is cancelled.
    func sleep(until time: Int64) async throws {
        try Task.checkCancellation()
        let sleeper = Sleeper()
        let number = at(time) { sleeper.wake(isCancelled: false) }
        let isCancelled = await withTaskCancellationHandler {
            await sleeper.wait()
        } onCancel: {
            if sleeper.wake(isCancelled: true) { cancel(number) }
        }
        if isCancelled { throw CancellationError() }
    }

    private func nextTimer() -> Timer? {
        while let first = timers.first {
            removeFirst()
            if cancelled.isEmpty || cancelled.remove(first.number) == nil { return first }
        }
        return nil
    }
}

/// A suspended task. Single-threaded.
private final class Sleeper: @unchecked Sendable {
    private var continuation: UnsafeContinuation<Bool, Never>?
    private var result: Bool?

    func wait() async -> Bool {
        await withUnsafeContinuation { continuation in
            if let result { continuation.resume(returning: result) } else { self.continuation = continuation }
        }
    }

    /// Resumes the task. Returns `false` if it was already resumed.
    @discardableResult
    func wake(isCancelled: Bool) -> Bool {
        guard result == nil else { return false }
        result = isCancelled
        continuation?.resume(returning: isCancelled)
        continuation = nil
        return true
    }
}

// MARK: a binary heap

extension Scheduler {
    private func precedes(_ left: Timer, _ right: Timer) -> Bool {
        (left.at, left.number) < (right.at, right.number)
    }

    private func insert(_ timer: Timer) {
        timers.append(timer)
        var child = timers.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard precedes(timers[child], timers[parent]) else { return }
            timers.swapAt(child, parent)
            child = parent
        }
    }

    private func removeFirst() {
        timers.swapAt(0, timers.count - 1)
        timers.removeLast()
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < timers.count {
                if precedes(timers[child], timers[least]) { least = child }
            }
            guard least != parent else { return }
            timers.swapAt(least, parent)
            parent = least
        }
    }
}
