import SyncCoreTesting
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Runs the jobs of a simulation on the calling thread, one at a time, in an order that the seed decides.
///
/// Tasks that prefer this executor, their children, default actors and the continuations of streams all return to it.
/// Jobs that do not (`Task.detached`, other threads, the global executor) have escaped. Their order would depend on
/// the machine, so they fail the run.
package final class SimulationExecutor: TaskExecutor, SerialExecutor, @unchecked Sendable {
    // Accessed only by the simulation's thread. Jobs from other threads go to `foreign`.
    private var jobs: [UnownedJob] = []
    private var generator: SeededGenerator
    private let thread = pthread_self()
    package private(set) var jobCount = 0
    private let foreign = Mutex<[UnownedJob]>([])

    init(seed: UInt64) {
        generator = SeededGenerator(seed: seed)
        jobs.reserveCapacity(64)
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        guard isOnItsThread else {
            foreign.withLock { $0.append(job) }
            return
        }
        jobs.append(job)
    }

    /// True if the caller runs on the thread of the simulation.
    package var isOnItsThread: Bool { pthread_equal(pthread_self(), thread) != 0 }

    /// Runs one ready job, picked by the generator. Returns `false` if none is ready.
    func runOne() -> Bool {
        guard !jobs.isEmpty else { return false }
        let index = jobs.count == 1 ? 0 : Int(generator.next() % UInt64(jobs.count))
        jobs.swapAt(index, jobs.count - 1)
        let job = jobs.removeLast()
        jobCount += 1
        job.runSynchronously(isolatedTo: asUnownedSerialExecutor(), taskExecutor: asUnownedTaskExecutor())
        return true
    }

    /// Accepts jobs from other threads, so that a failed run can still finish. Returns their number.
    func takeForeign() -> Int {
        let arrived = foreign.withLock { jobs in
            defer { jobs = [] }
            return jobs
        }
        jobs += arrived
        return arrived.count
    }

    package func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }
}
