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

    /// Allocates the thread-local place for the seed, which is never freed.
    static func begin() {
        _ = isWatching
        guard pthread_getspecific(key) == nil else { return }
        let place = UnsafeMutablePointer<UInt64>.allocate(capacity: 2)
        place.initialize(repeating: 0, count: 2)
        pthread_setspecific(key, place)
    }

    /// Sets the seed that this thread runs; `nil` for none.
    static func runs(_ seed: UInt64?) {
        guard let place = pthread_getspecific(key)?.assumingMemoryBound(to: UInt64.self) else { return }
        place[0] = seed ?? 0
        place[1] = seed == nil ? 0 : 1
    }

    /// Runs in a signal handler, so it allocates nothing and takes no lock.
    private static func tell() {
        guard let place = pthread_getspecific(key)?.assumingMemoryBound(to: UInt64.self), place[1] == 1 else { return }
        let words: StaticString = "\nsyncsim: it crashed in seed "
        write(STDERR_FILENO, words.utf8Start, words.utf8CodeUnitCount)
        var digits: (UInt64, UInt64, UInt64) = (0, 0, 0)
        withUnsafeMutableBytes(of: &digits) { bytes in
            var start = bytes.count - 1
            bytes[start] = 0x0A
            var rest = place[0]
            repeat {
                start -= 1
                bytes[start] = UInt8(truncatingIfNeeded: 0x30 + rest % 10)
                rest /= 10
            } while rest > 0
            if let base = bytes.baseAddress { write(STDERR_FILENO, base + start, bytes.count - start) }
        }
    }
}
