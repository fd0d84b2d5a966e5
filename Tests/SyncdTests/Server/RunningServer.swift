import Foundation
import TestSupport

/// `syncd serve` as a process of its own, on a port of its own.
final class RunningServer {
    let url: String
    private let process = Process()
    private let output = Pipe()

    /// Starts it and waits until it listens.
    ///
    /// - Parameter port: 0 for a free one.
    init(_ sandbox: Sandbox, port: Int = 0, options: [String] = []) throws {
        process.executableURL = sandbox.programURL
        process.arguments =
            [
                "serve", "--store", "sqlite:server.sqlite", "--listen", "127.0.0.1:\(port)", "--password-cost", "10",
                "--log-level", "error",
            ] + options
        process.environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("SYNCD_") }
        process.currentDirectoryURL = URL(filePath: sandbox.folder.path)
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        try process.run()
        var line = Data()
        while !line.contains(UInt8(ascii: "\n")) {
            let bytes = output.fileHandleForReading.availableData
            if bytes.isEmpty { throw Stopped(told: String(decoding: line, as: UTF8.self)) }
            line += bytes
        }
        url = String(decoding: line.dropFirst("listening on ".utf8.count).dropLast(), as: UTF8.self)
    }

    struct Stopped: Error {
        var told: String
    }

    var port: Int { url.split(separator: ":").last.flatMap { Int($0) } ?? 0 }

    /// Ends it, and waits for that.
    func stop() {
        if process.isRunning { kill(process.processIdentifier, SIGTERM) }
        process.waitUntilExit()
    }

    deinit { stop() }
}
