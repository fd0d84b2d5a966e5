import Foundation
import SyncCore
import Testing

/// A running `SQLiteWriterProbe`.
final class Probe {
    private let process = Process()
    private let output = Pipe()
    private let input = Pipe()
    private var buffer = Data()
    private var numbers: [Int] = []

    /// - Parameter wrapper: a program to run it by, with its arguments.
    init(_ arguments: String..., by wrapper: [String] = []) throws {
        let probe = Self.folder.appendingPathComponent("SQLiteWriterProbe").path
        let command = wrapper + [probe] + arguments
        process.executableURL = URL(fileURLWithPath: command[0])
        process.arguments = Array(command.dropFirst())
        process.standardOutput = output
        process.standardInput = input
        try process.run()
    }

    deinit {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
    }

    private static var folder: URL {
        let tests = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        let bundle = CommandLine.arguments.first { $0.hasSuffix(".xctest") } ?? tests.path
        return URL(fileURLWithPath: bundle).deletingLastPathComponent()
    }

    /// Says `line` to it.
    func say(_ line: String) { input.fileHandleForWriting.write(Data("\(line)\n".utf8)) }

    /// Ends its input.
    func endInput() throws { try input.fileHandleForWriting.close() }

    /// The next line that it prints, `nil` when it has ended.
    func line() -> String? {
        while true {
            if let end = buffer.firstIndex(of: UInt8(ascii: "\n")) {
                let line = String(decoding: buffer[..<end], as: UTF8.self)
                buffer = Data(buffer[(end + 1)...])
                if let number = Int(line) { numbers.append(number) }
                return line
            }
            let more = output.fileHandleForReading.availableData
            if more.isEmpty { return nil }
            buffer += more
        }
    }

    /// Kills it and answers all numbers that it printed.
    func killAndCollect() -> [Int] {
        kill(process.processIdentifier, SIGKILL)
        while line() != nil {}
        process.waitUntilExit()
        return numbers
    }

    func exitStatus() -> Int32 {
        process.waitUntilExit()
        return process.terminationStatus
    }
}

/// Expects `body` to throw a `BackendError` of `kind`, and answers it.
@discardableResult
func expectKind(
    _ kind: BackendError.Kind, sourceLocation: SourceLocation = #_sourceLocation,
    _ body: () async throws -> some Any
) async -> BackendError? {
    do {
        let answer = try await body()
        Issue.record("answered \(answer) and did not throw \(kind)", sourceLocation: sourceLocation)
    } catch let error as BackendError {
        #expect(error.kind == kind, "\(error)", sourceLocation: sourceLocation)
        #expect(!error.description.contains("\n"), sourceLocation: sourceLocation)
        return error
    } catch {
        Issue.record("threw \(error)", sourceLocation: sourceLocation)
    }
    return nil
}
