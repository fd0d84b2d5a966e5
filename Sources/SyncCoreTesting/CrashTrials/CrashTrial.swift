#if os(macOS) || os(Linux)
public import SyncCore
import Synchronization

#if canImport(Darwin)
import Darwin
#elseif canImport(Musl)
import Musl
#else
import Glibc
#endif

/// Kills processes with SIGKILL while they write to a store, and checks that their acknowledged changes are present.
///
/// It needs an executable that opens the store and calls ``writer(_:assignment:)``:
///
/// ```swift
/// @main enum StoreWriter {
///     static func main() async {
///         await CrashTrial.writer(MyBackend(CommandLine.arguments[1]), assignment: CommandLine.arguments[2])
///     }
/// }
/// ```
///
/// and a test that provides its command line:
///
/// ```swift
/// let report = try await CrashTrial.run(
///     rounds: 100, seed: 1,
///     command: { assignment in CrashTrial.Command(pathOfStoreWriter, [folder, assignment]) },
///     reopen: { MyBackend(folder) })
/// #expect(report.hasPassed, "\(report)")
/// ```
///
/// Available on macOS and Linux only, because apps on other systems cannot start processes. The trial does not simulate
/// a power failure.
public enum CrashTrial {
    /// The command line of a writer.
    public struct Command: Hashable, Sendable {
        /// The path of the executable.
        public var executable: String
        /// Its arguments, without its name.
        public var arguments: [String]

        /// Creates a command line.
        public init(_ executable: String, _ arguments: [String]) {
            self.executable = executable
            self.arguments = arguments
        }
    }

    /// The main function of a child. Several tasks write to `backend` until the process is killed, and each
    /// acknowledged change is reported to the parent on standard output. Nothing else may write to standard output.
    ///
    /// Each task changes keys of its own, conditionally if the store supports it. From time to time the tasks increment
    /// a counter that all processes share.
    ///
    /// The function does not return. Transient errors are retried; any other error is reported to the parent, and the
    /// process exits with code 1. The assignment of ``history(command:)`` ends with exit code 0.
    ///
    /// - Parameters:
    ///   - backend: The store to write to.
    ///   - text: The assignment that the parent passed to `command`, unchanged.
    public static func writer(_ backend: any KeyValueBackend, assignment text: String) async {
        guard text != historyErrand else { return await reportHistory(of: backend) }
        guard let assignment = CrashAssignment(text) else {
            report("! \"\(text)\" is not an assignment; pass the text from `command` unchanged\n")
            exit(1)
        }
        report("\(CrashAssignment.greeting)\n")
        do {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for task in 0..<assignment.taskCount {
                    group.addTask {
                        var writer = CrashWriter(assignment, task: task, backend: backend)
                        var count = 0
                        while true {
                            try await writer.step()
                            count += 1
                            report("\(task) \(count)\n")
                        }
                    }
                }
                try await group.waitForAll()
            }
        } catch {
            fail(error)
        }
    }

    private static func reportHistory(of backend: any KeyValueBackend) async {
        do {
            report(lines(of: try await WrittenHistory(writingInto: backend)))
            exit(0)
        } catch {
            fail(error)
        }
    }

    private static func fail(_ error: any Error) -> Never {
        report("! \(error)".split(whereSeparator: \.isNewline).joined(separator: " ") + "\n")
        exit(1)
    }

    /// Writes in one system call and without a buffer, so that a reported change stays reported when the process is
    /// killed.
    private static func report(_ line: String) {
        let bytes = Array(line.utf8)
        _ = bytes.withUnsafeBytes { buffer in write(STDOUT_FILENO, buffer.baseAddress, buffer.count) }
    }
}

/// One writing task of a child.
private struct CrashWriter {
    let backend: any KeyValueBackend
    private var script: CrashScript
    private var versions: [EntryKey: EntryVersion] = [:]

    init(_ assignment: CrashAssignment, task: Int, backend: any KeyValueBackend) {
        self.backend = backend
        script = CrashScript(assignment, task: task, isConditional: backend.capabilities.compareAndSwap)
    }

    /// Returns when the next change has been acknowledged.
    mutating func step() async throws {
        switch try script.next() {
        case .write(let key, let value): try await change(key, to: value)
        case .delete(let key): try await change(key, to: nil)
        case .raise: try await raise()
        }
    }

    private mutating func change(_ key: EntryKey, to value: [UInt8]?) async throws {
        let precondition: Precondition =
            backend.capabilities.compareAndSwap ? versions[key].map(Precondition.matches) ?? .absent : .any
        switch try await patiently({ try await $0.change(key, to: value, if: precondition) }) {
        case .written(let version): versions[key] = version
        case .deleted: versions[key] = nil
        case .conflict(let entry):
            throw BackendError(
                .other, operation: .write, key: key,
                message: "unexpected conflict on a key without other writers: \(entry.map(brief) ?? "nothing")")
        }
    }

    private func raise() async throws {
        let key = try EntryKey(CrashAssignment.counter)
        var current = try await patiently { try await $0.read(key).outcome.entry }
        while true {
            let count = current.map { Int(String(decoding: $0.value, as: UTF8.self)) ?? 0 } ?? 0
            let precondition = current.map { Precondition.matches($0.version) } ?? .absent
            switch try await patiently({
                try await $0.write(Array("\(count + 1)".utf8), to: key, if: precondition).outcome
            }) {
            case .written, .deleted: return
            case .conflict(let entry): current = entry
            }
        }
    }

    /// Retries after transient errors. The limit is for a store that stays busy for ever.
    private func patiently<Outcome>(
        _ body: (any KeyValueBackend) async throws -> Outcome
    ) async throws -> Outcome {
        for _ in 0..<1_000 {
            do {
                return try await body(backend)
            } catch let error as BackendError where error.disposition == .transient {
                await Task.yield()
            }
        }
        return try await body(backend)
    }
}
#endif
