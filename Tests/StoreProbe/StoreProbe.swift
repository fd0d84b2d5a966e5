import FileStorage
import Foundation
import SyncCore
import SyncCoreTesting

/// A second process for tests to race with and to kill.
///
/// `write STORE ERRAND` is the child of a `CrashTrial`. `count STORE KEY TIMES` raises the decimal number under KEY by
/// compare-and-swap. `hold FOLDER` locks the file store in FOLDER, prints `held`, and keeps the lock until its input
/// ends. STORE is `file:DIR`, `folder:DIR` or `forgetful:DIR`, see ``ProbedStore``.
@main
struct StoreProbe {
    static func main() async {
        do {
            try await run(CommandLine.arguments)
        } catch {
            FileHandle.standardError.write(Data("StoreProbe: \(error)\n".utf8))
            exit(1)
        }
    }

    private static func run(_ arguments: [String]) async throws {
        switch (arguments.dropFirst().first, arguments.count) {
        case ("write", 4): await CrashTrial.writer(try ProbedStore.open(arguments[2]), errand: arguments[3])
        case ("count", 5):
            try await count(EntryKey(arguments[3]), times: Int(arguments[4]) ?? 0, in: ProbedStore.open(arguments[2]))
        case ("hold", 3): hold(arguments[2])
        default: exit(2)
        }
    }

    private static func count(_ key: EntryKey, times: Int, in backend: any KeyValueBackend) async throws {
        for _ in 0..<times {
            var outcome = try await backend.read(key).outcome
            var isDone = false
            while !isDone {
                let (count, precondition): (Int, Precondition) =
                    if case .found(let entry) = outcome {
                        (Int(String(decoding: entry.value, as: UTF8.self)) ?? 0, .matches(entry.version))
                    } else {
                        (0, .absent)
                    }
                switch try await backend.write(Array("\(count + 1)".utf8), to: key, if: precondition).outcome {
                case .written, .deleted: isDone = true
                case .conflict(let current): outcome = current.map(ReadOutcome.found) ?? .absent
                }
            }
        }
    }

    private static func hold(_ folder: String) {
        let descriptor = open("\(folder)/store.lock", O_RDWR)
        guard descriptor >= 0, flock(descriptor, LOCK_EX) == 0 else { exit(1) }
        FileHandle.standardOutput.write(Data("held\n".utf8))
        _ = FileHandle.standardInput.readDataToEndOfFile()
    }
}
