#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// How many files, and so connections, the process may have open.
public enum OpenFiles {
    /// Raises the limit as far as the system lets this process.
    ///
    /// - Returns: the limit that holds now; 1,024 where the system does not say.
    public static func raiseLimit() -> Int {
        #if canImport(Glibc)
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #else
        let resource = RLIMIT_NOFILE
        #endif
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return 1_024 }
        // Darwin says "unlimited" for more than it gives.
        let wanted = min(limit.rlim_max, 1_048_576)
        if limit.rlim_cur < wanted {
            var raised = limit
            raised.rlim_cur = wanted
            if setrlimit(resource, &raised) == 0 { limit = raised }
        }
        return Int(clamping: limit.rlim_cur)
    }
}
