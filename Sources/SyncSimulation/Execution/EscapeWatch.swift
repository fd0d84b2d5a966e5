import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Counts jobs that go to the process's global executor while a simulation runs on this thread: they escaped from it.
///
/// The Swift runtime calls a hook for each such job, if one is set (`swift_task_enqueueGlobal_hook` in the concurrency
/// library's executor interface). Without the hook, and for jobs of the main actor, the simulation still notices an
/// escaped task if it uses a simulated clock or store, or is awaited.
package enum EscapeWatch {
    private typealias Enqueue = @convention(thin) (UnownedJob) -> Void
    private typealias Hook = @convention(thin) (UnownedJob, Enqueue) -> Void

    /// The thread-local number of escaped jobs.
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
        // The handle for the whole process, which is nil only in glibc and musl.
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

    /// Resets this thread's count, after setting the hook on the first call.
    package static func begin() {
        _ = isInstalled
        let pointer: UnsafeMutablePointer<Int>
        if let known = pthread_getspecific(key) {
            pointer = known.assumingMemoryBound(to: Int.self)
        } else {
            pointer = UnsafeMutablePointer<Int>.allocate(capacity: 1)
            pthread_setspecific(key, pointer)
        }
        pointer.initialize(to: 0)
    }

    /// The number of jobs that went from this thread to the global executor since ``begin()``.
    package static var escapeCount: Int {
        pthread_getspecific(key)?.assumingMemoryBound(to: Int.self).pointee ?? 0
    }
}
