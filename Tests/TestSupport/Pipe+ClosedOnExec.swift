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
}
