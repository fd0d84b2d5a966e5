import Foundation
import Synchronization

/// Shows the progress of a command on standard error: a line that is updated on a terminal, otherwise a line every ten
/// seconds.
final class Progress: Sendable {
    private let isTerminal = isatty(STDERR_FILENO) == 1
    private let begin = ContinuousClock().now
    private let last: Mutex<ContinuousClock.Instant>

    init() {
        last = Mutex(ContinuousClock().now)
    }

    /// The time since the start.
    var elapsed: Duration { begin.duration(to: ContinuousClock().now) }

    /// Shows `text`, one line, if an update is due.
    func show(_ text: @autoclosure () -> String) {
        let isDue = last.withLock { last in
            let now = ContinuousClock().now
            guard last.duration(to: now) >= (isTerminal ? .milliseconds(100) : .seconds(10)) else { return false }
            last = now
            return true
        }
        guard isDue else { return }
        writeNotice(isTerminal ? "\r\(text())\u{1B}[K" : text() + "\n")
    }

    /// Removes the line.
    func clear() {
        if isTerminal { writeNotice("\r\u{1B}[K") }
    }
}
