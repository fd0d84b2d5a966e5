public import Foundation
import Synchronization

/// How a process of this one ends.
///
/// `Process.waitUntilExit()` learns it from a socket that Foundation watches by its number. In a program that opens and
/// closes descriptors all the time, as tests of a server do, that number may be another one's before Foundation looks,
/// and then it waits for ever. So the system is asked.
public final class ProcessEnd: Sendable {
    private let process: Process
    private let status = Mutex<Int32?>(nil)

    /// How `process` ends, once it is started.
    public init(of process: Process) { self.process = process }

    /// A program that ended otherwise than with 0.
    public struct Failure: Error, CustomStringConvertible {
        /// Its words, how it ended, and what it complained of.
        public let description: String
    }

    /// Runs `program`, a path, and waits for its end.
    ///
    /// - Throws: where it cannot be started, and ``Failure``.
    public static func run(_ program: String, _ arguments: String...) throws {
        let process = Process()
        process.executableURL = URL(filePath: program)
        process.arguments = arguments
        let errors = Pipe.closedOnExec()
        process.standardInput = FileHandle.nullDevice
        process.standardError = errors
        try process.run()
        let complaint = errors.textToEnd()
        let exitCode = ProcessEnd(of: process).wait()
        guard exitCode == 0 else {
            throw Failure(
                description: "\(program) \(arguments.joined(separator: " ")) ended with \(exitCode): \(complaint)")
        }
    }

    /// Sends `signal`, unless it has ended.
    public func send(_ signal: Int32) {
        // Foundation may take note of its end in between; that another process has its number then is next to
        // impossible, as numbers go round.
        status.withLock { if $0 == nil, process.isRunning { _ = kill(process.processIdentifier, signal) } }
    }

    /// Waits until it has ended.
    ///
    /// - Returns: its exit code, or the negative number of the signal that ended it; -1 where it was never started.
    @discardableResult
    public func wait() -> Int32 {
        // It could not be started, and 0 would be any child.
        guard process.processIdentifier > 0 else { return -1 }
        var information = siginfo_t()
        // Leaves it as it is, for whoever comes first; fails where Foundation has taken note of its end already.
        while waitid(P_PID, id_t(process.processIdentifier), &information, WEXITED | WNOWAIT) == -1, errno == EINTR {}
        return status.withLock { known in
            if let known { return known }
            var status: Int32 = 0
            var result = waitpid(process.processIdentifier, &status, 0)
            while result == -1, errno == EINTR { result = waitpid(process.processIdentifier, &status, 0) }
            let ended: Int32
            if result == process.processIdentifier {
                ended = status & 0x7F == 0 ? status >> 8 & 0xFF : -(status & 0x7F)
            } else {
                process.waitUntilExit()
                ended = process.terminationReason == .exit ? process.terminationStatus : -process.terminationStatus
            }
            known = ended
            return ended
        }
    }
}
