import Foundation

/// The limit of open files, and thus of connections, of the process.
package enum OpenFiles {
    /// Raises the limit as far as the system allows.
    ///
    /// - Returns: the new limit; 1,024 if it cannot be read.
    package static func raiseLimit() -> Int {
        #if canImport(Glibc)
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #else
        let resource = RLIMIT_NOFILE
        #endif
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return 1_024 }
        // Darwin reports an unlimited hard limit, but rejects such a value.
        let wanted = min(limit.rlim_max, 1_048_576)
        if limit.rlim_cur < wanted {
            var raised = limit
            raised.rlim_cur = wanted
            if setrlimit(resource, &raised) == 0 { limit = raised }
        }
        return Int(clamping: limit.rlim_cur)
    }
}
