import Synchronization

#if canImport(Darwin)
import Darwin
#elseif canImport(Musl)
import Musl
#else
import Glibc
#endif

/// A limit of this process that is lowered for a moment; anybody may, and raise it again.
enum ResourceLimit {
    /// No file grows beyond so many bytes.
    case fileSize(UInt64)
    /// Only so many more files are opened.
    case moreFiles(UInt64)

    /// What was in force before, while one is lowered.
    private static let before = Mutex<rlimit?>(nil)

    /// Lowers the limit, unless one is lowered already or the system refuses.
    ///
    /// - Returns: whether it did; then ``end()`` follows.
    func begin() -> Bool {
        Self.before.withLock { before in
            var present = rlimit()
            guard before == nil, systemLimit(self, &present) else { return false }
            var lowered = present
            switch self {
            case .fileSize(let size):
                // Without this the process would end instead of being told.
                signal(SIGXFSZ, SIG_IGN)
                lowered.rlim_cur = min(present.rlim_cur, rlim_t(size))
            case .moreFiles(let count):
                let next = dup(STDERR_FILENO)
                guard next >= 0 else { return false }
                close(next)
                lowered.rlim_cur = min(present.rlim_cur, rlim_t(next) + rlim_t(count))
            }
            guard systemSetLimit(self, &lowered) else { return false }
            before = present
            return true
        }
    }

    /// Puts back what was in force.
    func end() {
        Self.before.withLock { before in
            guard var present = before else { return }
            // Raising the soft limit to what it was is never refused.
            let isBack = systemSetLimit(self, &present)
            precondition(isBack, "the limit cannot be put back: \(String(cString: strerror(errno)))")
            before = nil
        }
    }
}

#if canImport(Glibc)
private func resource(_ limit: ResourceLimit) -> __rlimit_resource_t {
    switch limit {
    case .fileSize: __rlimit_resource_t(RLIMIT_FSIZE.rawValue)
    case .moreFiles: __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    }
}
#else
private func resource(_ limit: ResourceLimit) -> Int32 {
    switch limit {
    case .fileSize: RLIMIT_FSIZE
    case .moreFiles: RLIMIT_NOFILE
    }
}
#endif

private func systemLimit(_ limit: ResourceLimit, _ value: inout rlimit) -> Bool {
    getrlimit(resource(limit), &value) == 0
}

private func systemSetLimit(_ limit: ResourceLimit, _ value: inout rlimit) -> Bool {
    setrlimit(resource(limit), &value) == 0
}
