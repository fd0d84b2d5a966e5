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

/// Kills processes with SIGKILL while they write into a store, and looks whether what they acknowledged is there.
///
/// It needs an executable of your own that opens the store and calls ``writer(_:errand:)``:
///
/// ```swift
/// @main enum StoreWriter {
///     static func main() async {
///         await CrashTrial.writer(MyBackend(CommandLine.arguments[1]), errand: CommandLine.arguments[2])
///     }
/// }
/// ```
///
/// and a test that starts it as often as the trial asks for:
///
/// ```swift
/// let report = try await CrashTrial.run(
///     rounds: 100, seed: 1,
///     command: { errand in CrashTrial.Command(pathOfStoreWriter, [folder, errand]) },
///     reopen: { MyBackend(folder) })
/// #expect(report.hasPassed, "\(report)")
/// ```
///
/// On macOS and Linux only: elsewhere an app cannot start a process. A power cut is another thing, which no process can
/// try by itself.
public enum CrashTrial {
    /// How to start a writer.
    public struct Command: Hashable, Sendable {
        /// The path of the executable.
        public var executable: String
        /// Its arguments, without its name.
        public var arguments: [String]

        /// Starts `executable` with `arguments`.
        public init(_ executable: String, _ arguments: [String]) {
            self.executable = executable
            self.arguments = arguments
        }
    }

    /// The main of a child: several tasks write into `backend` until the process is killed, and each acknowledged
    /// change is told to the parent through standard output, to which nobody else may write.
    ///
    /// Every task changes keys of its own, conditionally where the store can, and now and then they raise one counter
    /// that all processes share.
    ///
    /// It does not return. Passing errors are tried again; any other is told to the parent, and the process ends with
    /// exit code 1. The errand of ``history(command:)`` is done and ends with exit code 0.
    ///
    /// - Parameters:
    ///   - backend: the store to write into.
    ///   - text: what the parent passed to `command`, as it is.
    public static func writer(_ backend: any KeyValueBackend, errand text: String) async {
        guard text != historyErrand else { return await tellHistory(of: backend) }
        guard let errand = CrashErrand(text) else {
            tell("! \"\(text)\" is no errand of a crash trial; pass on what it gave\n")
            exit(1)
        }
        tell("\(CrashErrand.greeting)\n")
        do {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for task in 0..<errand.taskCount {
                    group.addTask {
                        var writer = CrashWriter(errand, task: task, backend: backend)
                        var count = 0
                        while true {
                            try await writer.step()
                            count += 1
                            tell("\(task) \(count)\n")
                        }
                    }
                }
                try await group.waitForAll()
            }
        } catch {
            fail(error)
        }
    }

    private static func tellHistory(of backend: any KeyValueBackend) async {
        do {
            tell(lines(of: try await WrittenHistory(writingInto: backend)))
            exit(0)
        } catch {
            fail(error)
        }
    }

    private static func fail(_ error: any Error) -> Never {
        tell("! \(error)".split(whereSeparator: \.isNewline).joined(separator: " ") + "\n")
        exit(1)
    }

    /// In one system call, and through no buffer: what was told was acknowledged, whenever the process ends.
    private static func tell(_ line: String) {
        let bytes = Array(line.utf8)
        _ = bytes.withUnsafeBytes { buffer in write(STDOUT_FILENO, buffer.baseAddress, buffer.count) }
    }
}

/// One task of a child.
private struct CrashWriter {
    let backend: any KeyValueBackend
    private var script: CrashScript
    private var versions: [EntryKey: EntryVersion] = [:]

    init(_ errand: CrashErrand, task: Int, backend: any KeyValueBackend) {
        self.backend = backend
        script = CrashScript(errand, task: task, isConditional: backend.capabilities.compareAndSwap)
    }

    /// Returns when the next change is acknowledged.
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
        switch try await patiently({ backend in
            if let value {
                try await backend.write(value, to: key, if: precondition).outcome
            } else {
                try await backend.delete(key, if: precondition).outcome
            }
        }) {
        case .written(let version): versions[key] = version
        case .deleted: versions[key] = nil
        case .conflict(let entry):
            throw BackendError(
                .other, operation: .write, key: key,
                message: "nobody else writes there, and the answer is a conflict with \(entry.map(brief) ?? "nothing")")
        }
    }

    private func raise() async throws {
        let key = try EntryKey(CrashErrand.counter)
        var current: Entry? =
            if case .found(let entry) = try await patiently({ try await $0.read(key).outcome }) { entry } else { nil }
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

    /// Asks again after an error that passes. The bound is for a store that stays busy for ever.
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
