public import Foundation
import Synchronization

/// Waits for the end of a child process.
///
/// `Process.waitUntilExit()` relies on a socket that Foundation identifies by its descriptor number. In a program that
/// opens and closes descriptors all the time, as tests of a server do, the number can be reused before Foundation
/// looks, and the call then never returns. This type asks the operating system instead.
public final class ProcessEnd: Sendable {
    private let process: Process
    private let status = Mutex<Int32?>(nil)

    /// Creates an object that waits for `process`, which may be started later.
    public init(of process: Process) { self.process = process }

    /// A program that ended with another status than 0.
    public struct Failure: Error, CustomStringConvertible {
        /// The command line, the exit status, and the output on standard error.
        public let description: String
    }

    /// Runs the program at the path `program` and waits for its end.
    ///
    /// - Returns: The output, at most 64 KiB, without newlines at its ends.
    /// - Throws: ``Failure``, or an error if the program cannot be started.
    @discardableResult
    public static func run(_ program: String, _ arguments: String...) throws -> String {
        let process = Process()
        process.executableURL = URL(filePath: program)
        process.arguments = arguments
        let (output, errors) = (Pipe.closedOnExec(), Pipe.closedOnExec())
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = errors
        try process.run()
        let complaint = errors.textToEnd()
        let exitCode = ProcessEnd(of: process).wait()
        guard exitCode == 0 else {
            throw Failure(
                description: "\(program) \(arguments.joined(separator: " ")) ended with \(exitCode): \(complaint)")
        }
        return output.textToEnd().trimmingCharacters(in: .newlines)
    }

    /// Sends `signal` unless the process has ended.
    public func send(_ signal: Int32) {
        // Foundation may reap the process in between. Reuse of its id within that time is practically impossible,
        // because ids are assigned in rotation.
        status.withLock { if $0 == nil, process.isRunning { _ = kill(process.processIdentifier, signal) } }
    }

    /// Waits until the process has ended.
    ///
    /// - Returns: The exit code, or the negative number of the signal that ended it; -1 if it was never started.
    @discardableResult
    public func wait() -> Int32 {
        // The process was not started; id 0 would match any child.
        guard process.processIdentifier > 0 else { return -1 }
        var information = siginfo_t()
        // Waits without reaping the process, which is left to Foundation. Fails if Foundation has already reaped it.
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
