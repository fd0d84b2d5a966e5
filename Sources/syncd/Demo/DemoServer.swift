import Foundation
import Synchronization

/// The server of the demo: a process of its own, that ends with the demo, however that ends.
final class DemoServer {
    /// Where it listens.
    let url: String
    private let process: Process
    private let output: Pipe

    /// Its process, for a signal that ends the demo.
    private static let running = Atomic<Int32>(0)

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
        Self.endWithDemo()
        try process.run()
        Self.running.store(process.processIdentifier, ordering: .sequentiallyConsistent)
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

    /// A signal that ends the demo ends the server first.
    private static func endWithDemo() {
        for number in [SIGINT, SIGTERM, SIGHUP] {
            signal(number) { number in
                let server = DemoServer.running.load(ordering: .sequentiallyConsistent)
                if server > 0 { kill(server, SIGTERM) }
                signal(number, SIG_DFL)
                raise(number)
            }
        }
    }
}
