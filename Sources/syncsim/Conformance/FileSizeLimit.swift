import Synchronization

#if canImport(Darwin)
import Darwin
#elseif canImport(Musl)
import Musl
#else
import Glibc
#endif

/// The limit of this process on the size of its files, lowered for a moment; anybody may, and raise it again.
///
/// Not that on open files: libdispatch, on which all tasks run, opens files to look after its threads and ends the
/// process when it cannot.
enum FileSizeLimit {
    /// What was in force before, while it is lowered.
    private static let before = Mutex<rlimit?>(nil)

    /// Lets no file grow beyond `size` bytes, unless the limit is lowered already or the system refuses.
    ///
    /// - Returns: whether it did; then ``end()`` follows.
    static func begin(_ size: UInt64) -> Bool {
        before.withLock { before in
            var present = rlimit()
            guard before == nil, getrlimit(resource, &present) == 0 else { return false }
            // Without this the process would end instead of being told.
            signal(SIGXFSZ, SIG_IGN)
            var lowered = present
            lowered.rlim_cur = min(present.rlim_cur, rlim_t(size))
            guard setrlimit(resource, &lowered) == 0 else { return false }
            before = present
            return true
        }
    }

    /// Puts back what was in force.
    static func end() {
        before.withLock { before in
            guard var present = before else { return }
            // Raising the soft limit to what it was is never refused.
            let isBack = setrlimit(resource, &present) == 0
            precondition(isBack, "the limit cannot be put back: \(String(cString: strerror(errno)))")
            before = nil
        }
    }

    #if canImport(Glibc)
    private static var resource: __rlimit_resource_t { __rlimit_resource_t(RLIMIT_FSIZE.rawValue) }
    #else
    private static var resource: Int32 { RLIMIT_FSIZE }
    #endif
}
