import SyncCoreTesting
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Runs the jobs of a simulation on the thread that called, one at a time, in an order that a seed decides.
///
/// Tasks that prefer this executor, their children, default actors and the continuations of streams all come back to
/// it. What does not come back (`Task.detached`, a thread of its own, the global executor) has escaped: the order of
/// things would depend on the machine, so that the run fails.
final class SimulationExecutor: TaskExecutor, SerialExecutor, @unchecked Sendable {
    // Only the simulation's thread touches these; what comes from another goes to `escapes`.
    private var jobs: [UnownedJob] = []
    private var generator: SeededGenerator
    private let thread = pthread_self()
    private(set) var jobCount = 0
    private let foreign = Mutex<[UnownedJob]>([])

    init(seed: UInt64) {
        generator = SeededGenerator(seed: seed)
        jobs.reserveCapacity(64)
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        guard isOnItsThread else {
            foreign.withLock { $0.append(job) }
            return
        }
        jobs.append(job)
    }

    /// Whether the caller runs on the thread of the simulation.
    var isOnItsThread: Bool { pthread_equal(pthread_self(), thread) != 0 }

    /// Runs one job that is ready, whichever the generator picks. Returns whether there was one.
    func runOne() -> Bool {
        guard !jobs.isEmpty else { return false }
        let index = jobs.count == 1 ? 0 : Int(generator.next() % UInt64(jobs.count))
        jobs.swapAt(index, jobs.count - 1)
        let job = jobs.removeLast()
        jobCount += 1
        job.runSynchronously(isolatedTo: asUnownedSerialExecutor(), taskExecutor: asUnownedTaskExecutor())
        return true
    }

    /// Takes up what came from other threads, so that a run that has failed can still come to its end. Returns how
    /// many jobs there were.
    func takeForeign() -> Int {
        let arrived = foreign.withLock { jobs in
            defer { jobs = [] }
            return jobs
        }
        jobs += arrived
        return arrived.count
    }

    func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }
}
