public import Foundation

extension Pipe {
    /// A pipe of which no process has an end but this one and the one that it is given to; or one that is started in
    /// the microsecond before that is said of it.
    ///
    /// `Pipe()` hands its ends to every process that is started meanwhile: what another test starts at this moment
    /// keeps them open as long as it lives, and whoever reads to the end waits for that.
    public static func closedOnExec() -> Pipe {
        let pipe = Pipe()
        for handle in [pipe.fileHandleForReading, pipe.fileHandleForWriting] {
            _ = fcntl(handle.fileDescriptor, F_SETFD, FD_CLOEXEC)
        }
        return pipe
    }

    /// What comes to its end, which is closed then.
    ///
    /// Foundation keeps the pipes of a process that has ended; with those of hundreds open it has crashed where it
    /// lists them to start another one.
    public func textToEnd() -> String {
        let reading = fileHandleForReading
        defer { try? reading.close() }
        return String(decoding: reading.readDataToEndOfFile(), as: UTF8.self)
    }
}
