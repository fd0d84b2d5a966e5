import EntitlementSync
import Entitlements
import FileStorage
import Foundation
import TestSupport

/// A temporary folder in which a test runs the built `syncd`.
///
/// By default the store is `file:store`, the catalogue is the tutorial app's, and no account is named.
struct Sandbox {
    /// The result of a run of `syncd`.
    struct Outcome: Equatable {
        var exitCode: Int32
        var output: String
        var error: String

        /// Success with this output.
        static func done(_ output: String) -> Outcome { Outcome(exitCode: 0, output: output + "\n", error: "") }

        /// A failure with one line on standard error and no output.
        static func refused(_ exitCode: Int32, _ reason: String) -> Outcome {
            Outcome(exitCode: exitCode, output: "", error: "syncd: \(reason)\n")
        }
    }

    static let example = repository.appending(path: "Examples/insomniowl.json").path(percentEncoded: false)

    let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
    }

    func path(_ name: String) -> String { folder.path(of: name) }

    /// Runs the words of `command`, separated by single spaces.
    @discardableResult
    func run(_ command: String, environment: [String: String] = [:]) throws -> Outcome {
        try run(command.split(separator: " ").map(String.init), environment: environment)
    }

    @discardableResult
    func run(_ arguments: [String], environment: [String: String] = [:]) throws -> Outcome {
        try start(arguments, environment: environment).outcome()
    }

    /// Starts `syncd` without waiting for its end.
    func start(_ arguments: [String], environment: [String: String] = [:]) throws -> RunningCommand {
        try RunningCommand(
            program: Self.program, arguments: arguments, environment: inherited(adding: environment),
            folder: folder.path)
    }

    /// Runs `syncd` from a shell after `preparation`.
    func run(after preparation: String, _ command: String) throws -> Outcome {
        try RunningCommand(
            program: URL(filePath: "/bin/sh"),
            arguments: ["-c", "\(preparation); exec \"$0\" \(command)", Self.program.path(percentEncoded: false)],
            environment: inherited(adding: [:]), folder: folder.path
        ).outcome()
    }

    func write(_ text: String, to name: String) throws {
        try Data(text.utf8).write(to: URL(filePath: path(name)))
    }

    func bytes(of name: String) throws -> [UInt8] {
        Array(try Data(contentsOf: URL(filePath: path(name))))
    }

    func write(_ bytes: [UInt8], to name: String) throws {
        try Data(bytes).write(to: URL(filePath: path(name)))
    }

    /// All files below the sandbox with their contents, and folders with `nil`.
    func tree() throws -> [String: Data?] {
        let names = try FileManager.default.subpathsOfDirectory(atPath: folder.path)
        return Dictionary(
            uniqueKeysWithValues: names.map { ($0, FileManager.default.contents(atPath: path($0))) })
    }

    /// The purchases of an account in a store, read by the library and not by `syncd`.
    func purchases(in store: String, of account: Account = .anonymous) async throws -> Set<String> {
        let ledger = try await EntitlementStore(
            catalog: Catalog(products: [], entitlements: []), local: FileBackend(folder: path(store)), account: account
        ).localLedgers().account
        return Set(Facts(account: ledger, device: Ledger()).purchases.map(\.transaction.id.rawValue))
    }

    private func inherited(adding own: [String: String]) -> [String: String] {
        ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("SYNCD_") }
            .merging([
                "SYNCD_LOCAL": "file:store", "SYNCD_CATALOG": Self.example, "XDG_CONFIG_HOME": path("configuration"),
            ]) { $1 }
            .merging(own) { $1 }
    }

    static let repository = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    /// The built `syncd`.
    var programURL: URL { Self.program }

    /// A dependency of the tests, built beside them.
    private static let program: URL = {
        let tests = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath().path(percentEncoded: false)
        let bundle = CommandLine.arguments.first { $0.hasSuffix(".xctest") } ?? tests
        return URL(filePath: bundle).deletingLastPathComponent().appending(path: "syncd")
    }()
}

/// A running process with captured output.
final class RunningCommand {
    private let process = Process()
    private let end: ProcessEnd
    private let output = Pipe.closedOnExec()
    private let error = Pipe.closedOnExec()

    init(program: URL, arguments: [String], environment: [String: String], folder: String) throws {
        end = ProcessEnd(of: process)
        process.executableURL = program
        process.arguments = arguments
        process.environment = environment
        process.currentDirectoryURL = URL(filePath: folder)
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = error
        try process.run()
    }

    func send(_ signal: Int32) { end.send(signal) }

    /// Waits until the process closes its output, at most `milliseconds`.
    func waitForEnd(atMost milliseconds: Int32) {
        var closing = pollfd(fd: output.fileHandleForReading.fileDescriptor, events: 0, revents: 0)
        if poll(&closing, 1, milliseconds) > 0, process.isRunning { sched_yield() }
    }

    /// Waits for the first line on standard error; `nil` if the process ends without one.
    func firstErrorLine() -> String? { Self.firstLine(of: error) }

    /// Waits for the first line on standard output; `nil` if the process ends without one.
    func firstOutputLine() -> String? { Self.firstLine(of: output) }

    private static func firstLine(of pipe: Pipe) -> String? {
        var line = Data()
        while !line.contains(UInt8(ascii: "\n")) {
            let bytes = pipe.fileHandleForReading.availableData
            if bytes.isEmpty { return nil }
            line += bytes
        }
        return String(decoding: line.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
    }

    func kill() { end.send(SIGKILL) }

    /// Kills the process after `delay`, unless it ends before.
    func kill(after delay: Duration) {
        let deadline = ContinuousClock.now + delay
        // Its output closes when it ends. Polling leaves the processor to it, except in the last millisecond.
        var closing = pollfd(fd: output.fileHandleForReading.fileDescriptor, events: 0, revents: 0)
        let milliseconds = Int32(delay / .milliseconds(1)) - 1
        if milliseconds > 0 { _ = poll(&closing, 1, milliseconds) }
        while closing.revents == 0, ContinuousClock.now < deadline {}
        kill()
    }

    /// Waits for the end. The exit code of a process that was killed is the negative signal number.
    func outcome() -> Sandbox.Outcome {
        let (printed, complained) = (output.textToEnd(), error.textToEnd())
        return Sandbox.Outcome(exitCode: end.wait(), output: printed, error: complained)
    }
}

/// The products of the tutorial app.
enum Owls {
    static let threeMonths = "com.back40.InsomniOwl.3monthsOfRandom"
    static let sixMonths = "com.back40.InsomniOwl.6monthsOfRandom"
    static let units = "com.back40.InsomniOwl.RandomOwls"
    static let night = "com.back40.InsomniOwl.NightOwl"
    static let shy = "com.back40.InsomniOwl.ShyOwl"
    static let couch = "com.back40.InsomniOwl.CouchOwl"
}
