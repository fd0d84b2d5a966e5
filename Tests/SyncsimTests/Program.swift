import Foundation
import TestSupport

/// Runs the built `syncsim` in a temporary folder of the test.
struct Program {
    /// The result of a process.
    struct Outcome: Equatable {
        var exitCode: Int32
        var output: String
        var error: String

        /// A failure with one line on standard error and no output.
        static func refused(_ exitCode: Int32, _ reason: String) -> Outcome {
            Outcome(exitCode: exitCode, output: "", error: "syncsim: \(reason)\n")
        }

        /// The lines of the output.
        var lines: [Substring] { output.split(separator: "\n") }

        /// The members of the JSON object in the output, in their order.
        var members: [String] { lines.compactMap { $0.firstMatch(of: #/^ {2}"(\w+)"/#).map { String($0.1) } } }

        /// The JSON in the output.
        func decoded<Value: Decodable>(as type: Value.Type) throws -> Value {
            try JSONDecoder().decode(type, from: Data(output.utf8))
        }
    }

    let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
    }

    func path(_ name: String) -> String { folder.path(of: name) }

    func write(_ text: String, to name: String) throws {
        try Data(text.utf8).write(to: URL(filePath: path(name)))
    }

    func bytes(of name: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(filePath: path(name)))) }

    /// Runs `command`, whose words are separated by single spaces, and waits for its end.
    @discardableResult
    func run(_ command: String) throws -> Outcome { try start(command).outcome() }

    /// Runs `command` with files limited to 100 KiB.
    func runWithSmallFiles(_ command: String) throws -> Outcome {
        let script = #"trap "" XFSZ; ulimit -f 200; exec "$0" "$@""#
        let arguments = ["-c", script, Self.program.path(percentEncoded: false)]
        let words = command.split(separator: " ").map(String.init)
        return try RunningProgram(URL(filePath: "/bin/sh"), arguments + words, folder: folder.path).outcome()
    }

    /// Starts `command` without waiting for its end.
    func start(_ command: String) throws -> RunningProgram {
        try RunningProgram(Self.program, command.split(separator: " ").map(String.init), folder: folder.path)
    }

    private static let program = URL(filePath: BuiltProgram.path(of: "syncsim"))
}

/// A process whose output goes to files, so that it never blocks on a pipe.
final class RunningProgram {
    private let process = Process()
    private let end: ProcessEnd
    private let output: URL
    private let error: URL

    init(_ program: URL, _ arguments: [String], folder: String) throws {
        let name = UUID().uuidString
        end = ProcessEnd(of: process)
        output = URL(filePath: "\(folder)/\(name).out")
        error = URL(filePath: "\(folder)/\(name).err")
        for file in [output, error] { try Data().write(to: file) }
        process.executableURL = program
        process.arguments = arguments
        process.currentDirectoryURL = URL(filePath: folder)
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = try FileHandle(forWritingTo: output)
        process.standardError = try FileHandle(forWritingTo: error)
        try process.run()
    }

    /// Sends SIGINT, like Ctrl-C, once the program handles it. Before that the effect is undefined, because the parent
    /// of the tests may ignore the signal.
    func interrupt() throws {
        let status = URL(filePath: "/proc/\(process.processIdentifier)/status")
        while process.isRunning {
            let text = try String(contentsOf: status, encoding: .utf8)
            let caught = text.split(separator: "\n").first { $0.hasPrefix("SigCgt:") }?.split(separator: "\t").last
            let mask = caught.flatMap { UInt64($0, radix: 16) } ?? 0
            if mask & (1 << UInt64(SIGINT - 1)) != 0 { break }
            sched_yield()
        }
        end.send(SIGINT)
    }

    /// Waits for its end. If a signal ended it, the exit code is the negative signal number.
    func outcome() throws -> Program.Outcome {
        Program.Outcome(
            exitCode: end.wait(),
            output: String(decoding: try Data(contentsOf: output), as: UTF8.self),
            error: String(decoding: try Data(contentsOf: error), as: UTF8.self))
    }
}
