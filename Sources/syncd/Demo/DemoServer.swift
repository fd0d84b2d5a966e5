import Foundation
import Synchronization

/// The server of the demo: a separate process that is stopped when the demo ends, also by a signal (INT, TERM, HUP,
/// QUIT or PIPE).
final class DemoServer {
    /// The server's URL.
    let url: String
    private let process: Process
    private let output: Pipe

    /// The process id, for the signal handler; 0 for none, and -1 while the server is being started.
    private static let running = Atomic<Int32>(0)
    /// A signal that arrived while the server was being started; 0 for none.
    private static let awaiting = Atomic<Int32>(0)

    /// Starts the server with a database in `folder` and waits until it listens.
    ///
    /// - Parameter options: further arguments of `serve`.
    init(program: URL, folder: URL, options: [String], environment: [String: String]) throws {
        (process, output) = (Process(), Pipe())
        let log = folder.appending(path: "server.log").path(percentEncoded: false)
        try Data().write(to: URL(filePath: log))
        // The configuration of this machine does not apply.
        let configuration = folder.appending(path: "syncd.json")
        try Data("{}".utf8).write(to: configuration)
        process.executableURL = program
        process.arguments =
            [
                "serve", "--store", "sqlite:\(folder.appending(path: "server.sqlite").path(percentEncoded: false))",
                "--listen", "127.0.0.1:0", "--config", configuration.path(percentEncoded: false),
            ] + options
        process.environment = environment
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = FileHandle(forWritingAtPath: log)
        Self.awaiting.store(0, ordering: .sequentiallyConsistent)
        Self.running.store(-1, ordering: .sequentiallyConsistent)
        Self.installSignalHandlers()
        do {
            try process.run()
        } catch {
            Self.store(0)
            throw error
        }
        Self.store(process.processIdentifier)
        var line = Data()
        while !line.contains(UInt8(ascii: "\n")) {
            let bytes = output.fileHandleForReading.availableData
            if bytes.isEmpty { break }
            line += bytes
        }
        let text = String(decoding: line.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        let start = "listening on "
        guard text.hasPrefix(start) else {
            process.waitUntilExit()
            Self.running.store(0, ordering: .sequentiallyConsistent)
            let output = String(decoding: FileManager.default.contents(atPath: log) ?? Data(), as: UTF8.self)
            throw Failure(.failed, "the demo's server did not start: \(output.onOneLine)")
        }
        url = String(text.dropFirst(start.count))
    }

    /// Stops the server and waits for its end.
    ///
    /// - Returns: the exit code.
    @discardableResult
    func stop() -> Int32 {
        if process.isRunning { kill(process.processIdentifier, SIGTERM) }
        process.waitUntilExit()
        Self.running.store(0, ordering: .sequentiallyConsistent)
        return process.terminationStatus
    }

    /// Stores the process id and delivers a signal that arrived before.
    private static func store(_ process: Int32) {
        running.store(process, ordering: .sequentiallyConsistent)
        let number = awaiting.load(ordering: .sequentiallyConsistent)
        if number > 0 { raise(number) }
    }

    /// Installs handlers for signals that end the demo, which stop the server first.
    private static func installSignalHandlers() {
        for number in [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE] {
            signal(number) { number in
                // Stored before the process id is read, so that at least one side sees the other's value.
                DemoServer.awaiting.store(number, ordering: .sequentiallyConsistent)
                let server = DemoServer.running.load(ordering: .sequentiallyConsistent)
                if server < 0 { return }
                if server > 0 { kill(server, SIGTERM) }
                signal(number, SIG_DFL)
                raise(number)
            }
        }
    }
}
