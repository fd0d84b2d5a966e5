import Foundation
import Synchronization

/// The server of the demo: a process of its own, that ends with the demo, also where a signal ends that which can be
/// caught and is sent to end programs: INT, TERM, HUP, QUIT, PIPE.
final class DemoServer {
    /// Where it listens.
    let url: String
    private let process: Process
    private let output: Pipe

    /// Its process, for a signal that ends the demo; 0 for none, and -1 while it is being started.
    private static let running = Atomic<Int32>(0)
    /// A signal that came while it was being started; 0 for none.
    private static let awaiting = Atomic<Int32>(0)

    /// Starts it over a database in `folder`, and waits until it listens.
    ///
    /// - Parameter options: more arguments of `serve`.
    init(program: URL, folder: URL, options: [String], environment: [String: String]) throws {
        (process, output) = (Process(), Pipe())
        let log = folder.appending(path: "server.log").path(percentEncoded: false)
        try Data().write(to: URL(filePath: log))
        process.executableURL = program
        process.arguments =
            [
                "serve", "--store", "sqlite:\(folder.appending(path: "server.sqlite").path(percentEncoded: false))",
                "--listen", "127.0.0.1:0",
            ] + options
        process.environment = environment
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = FileHandle(forWritingAtPath: log)
        Self.awaiting.store(0, ordering: .sequentiallyConsistent)
        Self.running.store(-1, ordering: .sequentiallyConsistent)
        Self.endWithDemo()
        do {
            try process.run()
        } catch {
            Self.note(0)
            throw error
        }
        Self.note(process.processIdentifier)
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
            let told = String(decoding: FileManager.default.contents(atPath: log) ?? Data(), as: UTF8.self)
            throw Failure(.failed, "the demo's server did not start: \(told.onOneLine)")
        }
        url = String(text.dropFirst(start.count))
    }

    /// Ends it, and waits until it has.
    ///
    /// - Returns: its exit code.
    @discardableResult
    func stop() -> Int32 {
        if process.isRunning { kill(process.processIdentifier, SIGTERM) }
        process.waitUntilExit()
        Self.running.store(0, ordering: .sequentiallyConsistent)
        return process.terminationStatus
    }

    /// Notes what was started, and lets a signal happen that came before that was known.
    private static func note(_ process: Int32) {
        running.store(process, ordering: .sequentiallyConsistent)
        let number = awaiting.load(ordering: .sequentiallyConsistent)
        if number > 0 { raise(number) }
    }

    /// A signal that ends the demo ends the server first.
    private static func endWithDemo() {
        for number in [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE] {
            signal(number) { number in
                // Before it is looked at what runs, so that one of both sides sees the other's.
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
