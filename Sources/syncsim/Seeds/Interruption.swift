import Foundation
import Synchronization

/// Handles Ctrl-C: the first one lets running seeds finish and prints the summary, the second one ends the process at
/// once.
enum Interruption {
    private static let flag = Atomic(false)

    static var isAsked: Bool { flag.load(ordering: .relaxed) }

    /// The conventional exit code of a process ended by SIGINT.
    static let exitCode: Int32 = 130

    static func watch() {
        // Initialized here, because the signal handler must not do it.
        flag.store(false, ordering: .relaxed)
        signal(SIGINT) { _ in
            Interruption.flag.store(true, ordering: .relaxed)
            signal(SIGINT, SIG_DFL)
        }
        // A process inherits the signal mask of the thread that started it, which may block SIGINT.
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGINT)
        pthread_sigmask(SIG_UNBLOCK, &signals, nil)
    }
}

/// Prints the seed that a thread ran when it traps, before the process ends.
enum CrashNotice {
    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        let code = pthread_key_create(&key, nil)
        precondition(code == 0, "no key for a thread's own value is left: \(code)")
        return key
    }()

    private static let isWatching: Void = {
        for code in [SIGILL, SIGTRAP, SIGSEGV, SIGBUS, SIGFPE, SIGABRT] {
            signal(code) { code in
                CrashNotice.tell()
                signal(code, SIG_DFL)
                raise(code)
            }
        }
    }()

    /// Enough for the notice with the largest seed.
    private static let capacity = 64

    /// Allocates the notice of this thread, which is never freed.
    static func begin() {
        _ = isWatching
        if pthread_getspecific(key) == nil { pthread_setspecific(key, calloc(1, capacity)) }
    }

    /// Sets the seed that this thread runs; `nil` for none.
    static func runs(_ seed: UInt64?) {
        guard let notice = pthread_getspecific(key)?.assumingMemoryBound(to: CChar.self) else { return }
        strncpy(notice, seed.map { "\nsyncsim: it crashed in seed \($0)\n" } ?? "", capacity - 1)
    }

    /// Runs in a signal handler, so it allocates nothing and takes no lock.
    private static func tell() {
        guard let notice = pthread_getspecific(key) else { return }
        write(STDERR_FILENO, notice, strlen(notice.assumingMemoryBound(to: CChar.self)))
    }
}
