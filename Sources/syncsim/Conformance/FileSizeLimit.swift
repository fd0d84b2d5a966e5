import Synchronization

#if canImport(Darwin)
import Darwin
#elseif canImport(Musl)
import Musl
#else
import Glibc
#endif

/// The process's limit on the size of files, lowered temporarily. A process may lower its soft limit and raise it
/// again without privileges.
///
/// The limit on open files is unsuitable: libdispatch, on which all tasks run, opens files to manage its threads, and
/// ends the process if it cannot.
enum FileSizeLimit {
    /// The previous limit, while it is lowered.
    private static let before = Mutex<rlimit?>(nil)

    /// Limits files to `size` bytes, unless the limit is already lowered or the system refuses.
    ///
    /// - Returns: `true` if the limit was lowered; the caller must then call ``end()``.
    static func begin(_ size: UInt64) -> Bool {
        before.withLock { before in
            var present = rlimit()
            guard before == nil, getrlimit(resource, &present) == 0 else { return false }
            // Otherwise the signal would end the process instead of the call failing with EFBIG.
            signal(SIGXFSZ, SIG_IGN)
            var lowered = present
            lowered.rlim_cur = min(present.rlim_cur, rlim_t(size))
            guard setrlimit(resource, &lowered) == 0 else { return false }
            before = present
            return true
        }
    }

    /// Restores the previous limit.
    static func end() {
        before.withLock { before in
            guard var present = before else { return }
            // Raising the soft limit to its previous value is always allowed.
            let isBack = setrlimit(resource, &present) == 0
            precondition(isBack, "the limit cannot be restored: \(String(cString: strerror(errno)))")
            before = nil
        }
    }

    #if canImport(Glibc)
    private static var resource: __rlimit_resource_t { __rlimit_resource_t(RLIMIT_FSIZE.rawValue) }
    #else
    private static var resource: Int32 { RLIMIT_FSIZE }
    #endif
}
