import Foundation
import SQLiteStorage
import SyncCore

/// A writer for tests to race with and to kill.
///
/// `write FILE PREFIX` writes PREFIX/0, PREFIX/1, … until it is killed, four at a time, and prints each number once
/// the write is acknowledged. `count FILE KEY TIMES` raises the decimal number under KEY by compare-and-swap.
/// `put FILE KEY` writes once for every line of its input and prints `put` after each. `try FILE USER` reads and writes
/// as that user, and prints what came of it. `fill FILE BALLAST` writes 64 KiB values until that fails, prints how many
/// were acknowledged and the error, then removes the file BALLAST, deletes one and writes a small one.
@main
struct SQLiteWriterProbe {
    static func main() async throws {
        let arguments = CommandLine.arguments
        let backend = SQLiteBackend(path: arguments[2], busyTimeout: .seconds(60))
        switch arguments[1] {
        case "write": try await write(to: backend, prefix: arguments[3])
        case "count": try await count(EntryKey(arguments[3]), times: Int(arguments[4]) ?? 0, in: backend)
        case "put": try await put(EntryKey(arguments[3]), in: backend)
        case "try": try await attempt(backend, user: UInt32(arguments[3]) ?? 0)
        case "fill": try await fill(backend, ballast: arguments[3])
        default: exit(2)
        }
    }

    private static func say(_ line: String) {
        // Not through a buffer: what was printed was acknowledged, whenever the process ends.
        FileHandle.standardOutput.write(Data("\(line)\n".utf8))
    }

    private static func write(to backend: SQLiteBackend, prefix: String) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for lane in 0..<4 {
                group.addTask {
                    var number = lane
                    while true {
                        let key = try EntryKey("\(prefix)/\(number % 3)/\(number)")
                        _ = try await backend.write(Array("\(prefix) \(number)".utf8), to: key, if: .absent)
                        say("\(number)")
                        number += 4
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    private static func count(_ key: EntryKey, times: Int, in backend: SQLiteBackend) async throws {
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

    private static func put(_ key: EntryKey, in backend: SQLiteBackend) async throws {
        while let line = readLine() {
            _ = try await backend.write(Array(line.utf8), to: key, if: .any)
            say("put")
        }
    }

    private static func attempt(_ backend: SQLiteBackend, user: UInt32) async throws {
        guard setuid(user) == 0 else { exit(3) }
        let key = try EntryKey("k")
        do throws(BackendError) {
            say("read \(try await backend.read(key).outcome)")
        } catch {
            say("read \(error.kind) \(error.disposition) \(error)")
        }
        do throws(BackendError) {
            say("write \(try await backend.write([1], to: key, if: .any).outcome)")
        } catch {
            say("write \(error.kind) \(error.disposition) \(error)")
        }
    }

    private static func fill(_ backend: SQLiteBackend, ballast: String) async throws {
        var number = 0
        while true {
            let value = [UInt8](repeating: UInt8(number % 251), count: 64 << 10)
            do throws(BackendError) {
                _ = try await backend.write(value, to: EntryKey("big/\(number)"), if: .absent)
            } catch {
                say("\(number)")
                say("\(error.kind) \(error.disposition) \(error)")
                break
            }
            number += 1
        }
        try FileManager.default.removeItem(atPath: ballast)
        _ = try await backend.delete(EntryKey("big/0"), if: .any)
        _ = try await backend.write([1], to: EntryKey("small"), if: .absent)
        say("deleted and written")
    }
}
