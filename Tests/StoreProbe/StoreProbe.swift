import FileStorage
import Foundation
import HTTPStorage
import SyncCore
import SyncCoreTesting

/// A second process for tests that need a competing writer or a process to kill.
///
/// - `write STORE ERRAND` is the child of a `CrashTrial`.
/// - `count STORE KEY TIMES TASKS` increments the decimal number under KEY by compare-and-swap, TIMES in each of TASKS
///   tasks with a separate backend object, and prints `raised` after each increment.
/// - `share STORE NAME OTHER MILLISECONDS` writes for that time and follows the writes of OTHER; see ``Sharer``.
/// - `try STORE USER` reads and writes as that user, and prints the results.
/// - `fill STORE BALLAST` writes 64 KiB values until a write fails, and prints the number of acknowledged writes and
///   the error. It then removes the file BALLAST, deletes one value and writes a small one.
/// - `session FILE TIMES TASKS` increments the time of receipt of the session in FILE by one, TIMES in each of TASKS
///   tasks with a separate object, and prints `raised` after each increment.
/// - `hold FOLDER` locks the file store in FOLDER, prints `held`, and keeps the lock until its standard input ends.
///
/// STORE is `file:DIR`, `folder:DIR`, `sqlite:DIR`, `restarting:DIR`, `forgetful:DIR`, or `postgres://…` in builds with
/// the trait `PostgreSQL`; see ``ProbedStore``.
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
        let store = arguments.count > 2 ? arguments[2] : ""
        switch (arguments.dropFirst().first, arguments.count) {
        case ("write", 4): await CrashTrial.writer(try ProbedStore.open(store), assignment: arguments[3])
        case ("count", 6):
            try await count(
                EntryKey(arguments[3]), times: Int(arguments[4]) ?? 0, tasks: Int(arguments[5]) ?? 0, in: store)
        case ("share", 6):
            let limit = Duration.milliseconds(Int(arguments[5]) ?? 0)
            let sharer = Sharer(try ProbedStore.open(store), name: arguments[3], other: arguments[4])
            say(try await sharer.run(for: limit))
        case ("try", 4): try await attempt(ProbedStore.open(store), user: UInt32(arguments[3]) ?? 0)
        case ("fill", 4): try await fill(ProbedStore.open(store), ballast: arguments[3])
        case ("session", 5):
            try await raise(sessionIn: store, times: Int(arguments[3]) ?? 0, tasks: Int(arguments[4]) ?? 0)
        case ("hold", 3): hold(store)
        default: exit(2)
        }
    }

    private static func say(_ line: String) {
        // Unbuffered, so that every printed acknowledgement reaches the parent even when the process is killed.
        FileHandle.standardOutput.write(Data("\(line)\n".utf8))
    }

    private static func count(_ key: EntryKey, times: Int, tasks: Int, in store: String) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<tasks {
                let backend = try ProbedStore.open(store)
                group.addTask {
                    for _ in 0..<times {
                        try await backend.raise(key)
                        say("raised")
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    private static func raise(sessionIn path: String, times: Int, tasks: Int) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<tasks {
                let file = SessionFile(path, local: "file:phone", server: "https://sync.example.com")
                group.addTask {
                    for _ in 0..<times {
                        try await file.exclusively { () async throws(BackendError) in
                            guard var session = try await file.load() else { exit(3) }
                            session.received += 1
                            try await file.save(session)
                        }
                        say("raised")
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    private static func attempt(_ backend: any KeyValueBackend, user: UInt32) async throws {
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

    private static func fill(_ backend: any KeyValueBackend, ballast: String) async throws {
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

    private static func hold(_ folder: String) {
        let descriptor = open("\(folder)/store.lock", O_RDWR)
        guard descriptor >= 0, flock(descriptor, LOCK_EX) == 0 else { exit(1) }
        say("held")
        _ = FileHandle.standardInput.readDataToEndOfFile()
    }
}

extension KeyValueBackend {
    /// Increments the decimal number under `key` by one.
    func raise(_ key: EntryKey) async throws(BackendError) {
        var outcome = try await read(key).outcome
        while true {
            let (count, precondition): (Int, Precondition) =
                if case .found(let entry) = outcome {
                    (Int(String(decoding: entry.value, as: UTF8.self)) ?? 0, .matches(entry.version))
                } else {
                    (0, .absent)
                }
            switch try await write(Array("\(count + 1)".utf8), to: key, if: precondition).outcome {
            case .written, .deleted: return
            case .conflict(let current): outcome = current.map(ReadOutcome.found) ?? .absent
            }
        }
    }
}
