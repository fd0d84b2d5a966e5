import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Notices jobs that go to the process's global executor while a simulation runs on the thread: they have escaped.
///
/// The Swift runtime calls a hook for each such job, if one is set (`swift_task_enqueueGlobal_hook` of the concurrency
/// library's interface for executors). Where there is none, and for jobs of the main actor, the simulation still
/// notices when what escaped touches a simulated clock or store, or is waited for.
enum EscapeWatch {
    private typealias Enqueue = @convention(thin) (UnownedJob) -> Void
    private typealias Hook = @convention(thin) (UnownedJob, Enqueue) -> Void

    /// How many jobs have escaped from this thread.
    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        let code = pthread_key_create(&key) { pointer in
            #if canImport(Darwin)
            pointer.deallocate()
            #else
            pointer?.deallocate()
            #endif
        }
        precondition(code == 0, "no key for a thread's own value is left: \(code)")
        return key
    }()

    private static let isInstalled: Bool = {
        // The whole process; nil stands for that in glibc and musl only.
        #if canImport(Darwin)
        let everywhere = UnsafeMutableRawPointer(bitPattern: -2)
        #else
        let everywhere: UnsafeMutableRawPointer? = nil
        #endif
        guard let symbol = dlsym(everywhere, "swift_task_enqueueGlobal_hook") else { return false }
        let slot = symbol.assumingMemoryBound(to: Hook?.self)
        guard slot.pointee == nil else { return false }
        slot.pointee = { job, original in
            EscapeWatch.count()
            original(job)
        }
        return true
    }()

    private static func count() {
        guard let pointer = pthread_getspecific(key) else { return }
        pointer.assumingMemoryBound(to: Int.self).pointee += 1
    }

    /// Counts from 0 on this thread. Returns whether the runtime tells of jobs that escape.
    @discardableResult
    static func begin() -> Bool {
        let isInstalled = isInstalled
        let pointer: UnsafeMutablePointer<Int>
        if let known = pthread_getspecific(key) {
            pointer = known.assumingMemoryBound(to: Int.self)
        } else {
            pointer = UnsafeMutablePointer<Int>.allocate(capacity: 1)
            pthread_setspecific(key, pointer)
        }
        pointer.initialize(to: 0)
        return isInstalled
    }

    /// How many jobs went to the global executor from this thread since it began to count.
    static var escapeCount: Int {
        pthread_getspecific(key)?.assumingMemoryBound(to: Int.self).pointee ?? 0
    }
}
