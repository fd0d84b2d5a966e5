/// The virtual clock, its timers, and the event loop of a simulation. Single-threaded.
package final class Scheduler: @unchecked Sendable {
    /// The reason why a run was aborted.
    package enum Failure: Error, Equatable {
        /// No job is ready and no timer is set, but the run has not finished: a deadlock.
        case stuck
        /// The run exceeded its limit of jobs.
        case endless(jobs: Int)
    }

    private struct Timer {
        var at: Int64
        var number: UInt64
        var action: () -> Void
    }

    package let executor: SimulationExecutor
    /// Microseconds since the start of the run.
    package private(set) var now: Int64 = 0
    /// The pending timers, the next one last.
    private var timers: [Timer] = []
    private var lastNumber: UInt64 = 0
    /// The number of jobs that came from other threads.
    package private(set) var foreignJobCount = 0

    package init(seed: UInt64) {
        executor = SimulationExecutor(seed: seed)
    }

    /// 1 January 2026, 00:00 UTC, in milliseconds since 1970 UTC: the start of every run.
    package static let epoch: Int64 = 1_767_225_600_000

    /// The true time of the run, in milliseconds since 1970 UTC.
    package var trueTime: Int64 { Self.epoch + now / 1_000 }

    /// Runs until `isOver` returns `true`, advancing the clock from one timer to the next.
    package func run(atMost jobLimit: Int, until isOver: () -> Bool) throws(Failure) {
        while true {
            while executor.runOne() {
                if executor.jobCount > jobLimit { throw .endless(jobs: jobLimit) }
            }
            if isOver() { break }
            let foreign = executor.takeForeign()
            foreignJobCount += foreign
            if foreign > 0 { continue }
            guard let next = timers.popLast() else { throw .stuck }
            now = max(now, next.at)
            next.action()
        }
        // Timers that are still set must not keep the run's objects alive.
        timers = []
    }

    /// Calls `action` when virtual time reaches `time`. Actions of the same time are called in the order in which they
    /// were set.
    ///
    /// - Returns: A number for ``cancel(_:)``.
    @discardableResult
    package func at(_ time: Int64, _ action: @escaping () -> Void) -> UInt64 {
        lastNumber += 1
        // The first index of a timer that fires before the new one.
        var (low, high) = (0, timers.count)
        while low < high {
            let middle = (low + high) / 2
            if timers[middle].at > time { low = middle + 1 } else { high = middle }
        }
        timers.insert(Timer(at: time, number: lastNumber, action: action), at: low)
        return lastNumber
    }

    /// Cancels an action, unless it was called already.
    package func cancel(_ number: UInt64) {
        if let index = timers.lastIndex(where: { $0.number == number }) { timers.remove(at: index) }
    }

    /// Runs `body` as an unstructured task of the run.
    @discardableResult
    package func spawn(_ body: @escaping @Sendable () async -> Void) -> Task<Void, Never> {
        Task(executorPreference: executor) { await body() }
    }

    /// Sleeps until virtual time reaches `time`. Throws if the task is cancelled.
    package func sleep(until time: Int64) async throws {
        try Task.checkCancellation()
        /// Its value is `true` if the task was cancelled.
        let wakeUp = Reply<Bool>()
        let number = at(time) { wakeUp.resolve(false) }
        let isCancelled = await withTaskCancellationHandler {
            await wakeUp.wait()
        } onCancel: {
            if wakeUp.resolve(true) { cancel(number) }
        }
        if isCancelled { throw CancellationError() }
    }
}
