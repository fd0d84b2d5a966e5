import Foundation

/// A real `syncd serve` process on a free port of this machine. It is killed when the object is deallocated.
///
/// ```swift
/// let server = try ServerProcess(store: "sqlite:\(folder.path)/store.sqlite", options: ["--web", page])
/// let url = server.url  // http://127.0.0.1:40123
/// #expect(server.stop() == 0)
/// ```
///
/// The test target must depend on `syncd`, so that it is built.
public final class ServerProcess: Sendable {
    /// The server did not start to listen.
    public struct Failure: Error, CustomStringConvertible {
        /// The output on standard error.
        public let description: String
    }

    /// The token of ``operatorTokenFile``.
    public static let operatorToken = "0123456789abcdef0123456789abcdef"

    /// The URL of the server: scheme, host and port.
    public let url: String
    /// The port of the server.
    public let port: Int
    private let process: Process
    private let output = Pipe.closedOnExec()
    private let end: ProcessEnd
    private let folder: TemporaryFolder

    /// Starts the server and waits until it listens.
    ///
    /// - Parameters:
    ///   - store: The value of `--store`.
    ///   - options: Further options. Unless they say otherwise, the operator's token is ``operatorToken`` and the port
    ///     is a free one.
    ///   - environment: Variables to add. Unless it says otherwise, password hashing is cheap.
    ///   - limit: The timeout for the start.
    /// - Throws: ``Failure`` with the output on standard error.
    public init(
        store: String, options: [String] = [], environment: [String: String] = [:], limit: Duration = Patience.limit
    ) throws {
        folder = try TemporaryFolder()
        let token = folder.path(of: "operator-token")
        try Data(Self.operatorToken.utf8).write(to: URL(filePath: token))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: token)
        let errors = folder.path(of: "errors.log")
        try Data().write(to: URL(filePath: errors))
        process = Process()
        end = ProcessEnd(of: process)
        process.executableURL = URL(filePath: BuiltProgram.path(of: "syncd"))
        let place = options.contains("--listen") ? [] : ["--listen", "127.0.0.1:0"]
        process.arguments = ["serve", "--store", store, "--operator-token-file", token] + place + options
        process.environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("SYNCD_") }
            .merging(["SYNCD_PASSWORD_COST": "10", "XDG_CONFIG_HOME": folder.path]) { $1 }.merging(environment) { $1 }
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = try FileHandle(forWritingTo: URL(filePath: errors))
        try process.run()
        let line = Self.line(from: output.fileHandleForReading.fileDescriptor, within: limit)
        guard let line, line.hasPrefix("listening on "), let colon = line.lastIndex(of: ":"),
            let port = Int(line[line.index(after: colon)...])
        else {
            end.send(SIGTERM)
            end.wait()
            throw Failure(description: try String(contentsOfFile: errors, encoding: .utf8))
        }
        url = String(line.dropFirst("listening on ".count))
        self.port = port
    }

    deinit {
        _ = kill()
        // Foundation would keep it open.
        try? output.fileHandleForReading.close()
    }

    /// The process id.
    public var processID: Int32 { process.processIdentifier }

    /// The output on standard error so far: the log.
    public var log: String { (try? String(contentsOfFile: folder.path(of: "errors.log"), encoding: .utf8)) ?? "" }

    /// Sends SIGTERM without waiting for the end.
    public func askToEnd() { end.send(SIGTERM) }

    /// Sends SIGHUP, on which the server reads its configuration again.
    public func reload() { end.send(SIGHUP) }

    /// Sends SIGTERM and waits for the end.
    ///
    /// - Returns: The exit code, or the negative number of the signal that ended the process.
    @discardableResult
    public func stop() -> Int32 {
        askToEnd()
        return end.wait()
    }

    /// Sends SIGKILL and waits for the end.
    ///
    /// - Returns: As ``stop()``.
    @discardableResult
    public func kill() -> Int32 {
        end.send(SIGKILL)
        return end.wait()
    }

    /// Returns the first line from `descriptor`; `nil` after the timeout.
    private static func line(from descriptor: Int32, within limit: Duration) -> String? {
        let end = ContinuousClock.now + limit
        var bytes: [UInt8] = []
        while ContinuousClock.now < end {
            var ready = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&ready, 1, 100) > 0 else { continue }
            var byte: UInt8 = 0
            guard read(descriptor, &byte, 1) == 1 else { return nil }
            if byte == UInt8(ascii: "\n") { return String(decoding: bytes, as: UTF8.self) }
            bytes.append(byte)
        }
        return nil
    }
}
