import FileStorage
import Foundation
import SyncCore

/// A writer for tests to race with and to kill.
///
/// `write FOLDER PREFIX` writes PREFIX/0, PREFIX/1, … until it is killed, and prints each number once the write is
/// acknowledged. `count FOLDER KEY TIMES` raises the decimal number under KEY by compare-and-swap. `hold FOLDER` locks
/// the store, prints `held`, and keeps it until its input ends.
@main
struct FileWriterProbe {
    static func main() async throws {
        let arguments = CommandLine.arguments
        let backend = FileBackend(folder: arguments[2], lockTimeout: .seconds(60))
        switch arguments[1] {
        case "write": try await write(to: backend, prefix: arguments[3])
        case "count": try await count(EntryKey(arguments[3]), times: Int(arguments[4]) ?? 0, in: backend)
        case "hold": hold(arguments[2])
        default: exit(2)
        }
    }

    private static func write(to backend: FileBackend, prefix: String) async throws {
        var number = 0
        while true {
            let key = try EntryKey("\(prefix)/\(number % 3)/\(number)")
            _ = try await backend.write(Array("\(prefix) \(number)".utf8), to: key, if: .absent)
            // Not through a buffer: what was printed was acknowledged, whenever the process ends.
            FileHandle.standardOutput.write(Data("\(number)\n".utf8))
            number += 1
        }
    }

    private static func count(_ key: EntryKey, times: Int, in backend: FileBackend) async throws {
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
