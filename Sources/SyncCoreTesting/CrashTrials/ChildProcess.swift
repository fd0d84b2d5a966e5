#if os(macOS) || os(Linux)
package import SyncCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif
#if canImport(Darwin)
import Darwin
#elseif canImport(Musl)
import Musl
#else
import Glibc
#endif

/// A child process with pipes for its standard input and output. It is killed when the object is deallocated.
package final class ChildProcess {
    /// The result of waiting for a line of output.
    package enum Hearing: Hashable {
        case line(String)
        /// Standard output is closed: the process has ended.
        case end
        /// The process wrote no line before the timeout.
        case silence
    }

    private let id: pid_t
    private let input: Int32
    private let output: Int32
    private var buffer: [UInt8] = []
    private var status: Int32?

    /// Starts `executable`. Its standard error is that of this process.
    package init(_ executable: String, _ arguments: [String]) throws(BackendError) {
        let forInput = try Self.makePipe()
        let forOutput = try Self.makePipe()
        let childEnds = [forInput.reading, forOutput.writing]
        defer { for descriptor in childEnds { close(descriptor) } }
        input = forInput.writing
        output = forOutput.reading
        do {
            id = try Self.spawn(executable, arguments, input: childEnds[0], output: childEnds[1])
        } catch {
            close(input)
            close(output)
            throw error
        }
    }

    deinit {
        _ = killAndWait()
        close(input)
        close(output)
    }

    /// Returns the next line of output. Blocks the calling thread.
    package func hear(within limit: Duration = .seconds(60)) -> Hearing {
        while true {
            if let end = buffer.firstIndex(of: UInt8(ascii: "\n")) {
                let line = String(decoding: buffer[..<end], as: UTF8.self)
                buffer.removeFirst(end + 1)
                return .line(line)
            }
            var descriptor = pollfd(fd: output, events: Int16(POLLIN), revents: 0)
            let ready = poll(&descriptor, 1, Int32(clamping: limit.components.seconds * 1_000))
            if ready < 0, errno == EINTR { continue }
            if ready <= 0 { return .silence }
            let more = [UInt8](unsafeUninitializedCapacity: 65_536) { space, count in
                count = max(0, read(output, space.baseAddress, space.count))
            }
            if more.isEmpty { return .end }
            buffer += more
        }
    }

    /// Kills the process with SIGKILL and returns its exit status, as ``wait()`` does.
    package func killAndWait() -> Int32 {
        if status == nil { kill(id, SIGKILL) }
        return wait()
    }

    /// Waits for the process to end. Returns its exit code, or the negative number of the signal that ended it.
    package func wait() -> Int32 {
        if let status { return status }
        var raw: Int32 = 0
        while waitpid(id, &raw, 0) < 0, errno == EINTR {}
        // WIFSIGNALED and WEXITSTATUS are macros that Swift cannot call.
        let signal = raw & 0x7F
        let ended = signal == 0 ? (raw >> 8) & 0xFF : -signal
        status = ended
        return ended
    }

    private static func makePipe() throws(BackendError) -> (reading: Int32, writing: Int32) {
        var ends: [Int32] = [0, 0]
        // No process that is started at the same moment may inherit an end, or the pipe would not close with the child.
        // Swift's view of Linux has no pipe2, but sockets can be created with the flag in one call. macOS closes by
        // default.
        #if canImport(Glibc)
        let result = socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends)
        #elseif os(Linux)
        let result = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, &ends)
        #else
        let result = pipe(&ends)
        #endif
        guard result == 0 else { throw failure("pipe", errno) }
        return (ends[0], ends[1])
    }

    private static func spawn(
        _ executable: String, _ arguments: [String], input: Int32, output: Int32
    ) throws(BackendError) -> pid_t {
        #if canImport(Darwin)
        var actions: posix_spawn_file_actions_t?
        var attributes: posix_spawnattr_t?
        #else
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        #endif
        posix_spawn_file_actions_init(&actions)
        posix_spawnattr_init(&attributes)
        defer {
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
        }
        posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO)
        posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO)
        // Pool threads block signals and a child inherits the mask; without this it could not be terminated.
        var noSignals = sigset_t()
        sigemptyset(&noSignals)
        posix_spawnattr_setsigmask(&attributes, &noSignals)
        #if canImport(Darwin)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_CLOEXEC_DEFAULT | POSIX_SPAWN_SETSIGMASK))
        posix_spawn_file_actions_addinherit_np(&actions, STDERR_FILENO)
        #else
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        #endif
        // Without this, the runtime's backtracer would hold a crashed child, and keep its pipes open.
        let environment = ProcessInfo.processInfo.environment.merging(["SWIFT_BACKTRACE": "enable=no"]) { $1 }
        let variables = environment.sorted { $0.key < $1.key }.map { "\($0)=\($1)" }
        var id: pid_t = 0
        let code = withCStrings([executable] + arguments) { argv in
            withCStrings(variables) { posix_spawn(&id, executable, &actions, &attributes, argv, $0) }
        }
        guard code == 0 else { throw failure(executable, code) }
        return id
    }

    private static func failure(_ what: String, _ code: Int32) -> BackendError {
        BackendError(.other, message: "\(what): no process can be started: \(String(cString: strerror(code)))")
    }
}

private func withCStrings<Result>(
    _ strings: [String], _ body: ([UnsafeMutablePointer<CChar>?]) -> Result
) -> Result {
    let copies = strings.map { strdup($0) }
    defer { for copy in copies { free(copy) } }
    return body(copies + [nil])
}
#endif
