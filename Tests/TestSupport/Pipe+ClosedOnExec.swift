public import Foundation

extension Pipe {
    /// Creates a pipe that other child processes do not inherit, except one that is started in the microsecond before
    /// the flag is set.
    ///
    /// Every process that is started meanwhile inherits the ends of a plain `Pipe()`. A child of another test would
    /// keep the pipe open, and a reader would wait for the end of that child.
    public static func closedOnExec() -> Pipe {
        let pipe = Pipe()
        for handle in [pipe.fileHandleForReading, pipe.fileHandleForWriting] {
            _ = fcntl(handle.fileDescriptor, F_SETFD, FD_CLOEXEC)
        }
        return pipe
    }

    /// Reads to the end, and closes the reading end.
    ///
    /// Foundation keeps the pipes of processes that have ended. With hundreds of them open it has crashed while listing
    /// descriptors to start a process.
    public func textToEnd() -> String {
        let reading = fileHandleForReading
        defer { try? reading.close() }
        return String(decoding: reading.readDataToEndOfFile(), as: UTF8.self)
    }
}
