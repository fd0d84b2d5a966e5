import FileStorage
import Foundation
import SyncCore
import SyncCoreTesting
import Synchronization
import TestSupport
import Testing

@Suite("Several processes on one file store", .serialized)
struct ProcessTests {
    private let folder: TemporaryFolder
    private let store: FileBackend

    init() throws {
        folder = try TemporaryFolder()
        store = FileBackend(folder: folder.path(of: "store"), lockTimeout: .seconds(60))
    }

    @Test("raise one counter without losing a step, in two processes and two tasks at once")
    func counter() async throws {
        let key = try EntryKey("counter")
        let path = folder.path(of: "store")
        let processes = try (0..<2).map { _ in try startProbe("count", "file:\(path)", "counter", "150") }
        let other = FileBackend(folder: path, lockTimeout: .seconds(60))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for store in [store, other] {
                group.addTask { for _ in 0..<150 { try await raise(key, in: store) } }
            }
            try await group.waitForAll()
        }
        for process in processes { #expect(process.wait() == 0) }
        #expect(try await count(key) == 600)
    }

    @Test("that are killed in the middle of writing lose no acknowledged write and leave a readable store")
    func killed() async throws {
        try await expectNothingLost(in: "file", rounds: killRounds) {
            FileBackend(folder: $0, lockTimeout: .seconds(60))
        }
    }

    @Test("that are killed while they write into a folder that a tool shares lose no acknowledged write either")
    func killedInSharedFolder() async throws {
        try await expectNothingLost(in: "folder", rounds: max(1, killRounds / 5)) {
            FileBackend(folder: $0, sharing: .fileSyncTool, lockTimeout: .seconds(60))
        }
    }

    private func expectNothingLost(
        in kind: String, rounds: Int, open: @escaping @Sendable (String) -> FileBackend
    ) async throws {
        let seed = printedSeed("kill -9, \(kind)")
        let path = folder.path(of: "killed-\(kind)")
        let leftovers = Mutex(0)
        let report = try await CrashTrial.run(
            rounds: rounds, seed: seed, limit: isKillSoak ? nil : .seconds(180),
            command: { CrashTrial.Command(BuiltProgram.path(of: "StoreProbe"), ["write", "\(kind):\(path)", $0]) },
            reopen: { open(path) },
            afterRound: { round in
                // Looking through all folders takes longer than the round itself.
                guard round % 10 == 0 else { return }
                let names = try FileManager.default.subpathsOfDirectory(atPath: path)
                leftovers.withLock { $0 += names.count { $0.hasSuffix(".tmp") } }
            })
        print("kill -9, \(kind): \(report), \(leftovers.withLock { $0 }) left-over files seen")
        #expect(report.hasPassed, "\(report)")
        // On a machine that is too busy there are fewer; the line above says how many.
        #expect(report.rounds >= (isKillSoak ? rounds : min(rounds, 10)) && report.kills == 2 * report.rounds)
        #expect(report.acknowledged >= report.rounds)
    }

    @Test("wait for the one that writes, answer busy after the time limit, and go on when it has ended")
    func busy() async throws {
        let key = try EntryKey("k")
        _ = try await store.write([1], to: key, if: .any)
        let holder = try startProbe("hold", folder.path(of: "store"))
        #expect(holder.hear() == .line("held"))
        let manual = ManualHost(seed: 1)
        let impatient = FileBackend(folder: folder.path(of: "store"), host: manual.host, lockTimeout: .seconds(3))
        let error = await expectKind(.busy) { try await impatient.write([2], to: key, if: .any) }
        #expect(error?.disposition == .transient && error?.operation == .write && error?.key == key)
        let waited = manual.pauses.reduce(.zero, +)
        #expect(waited >= .seconds(3) && waited < .seconds(3.1))
        #expect(try await impatient.read(key).outcome != .absent, "a reader needs no lock")
        #expect(holder.killAndWait() == -9)
        _ = try await impatient.write([3], to: key, if: .any)
    }

    @Test("do not keep a cancelled task waiting")
    func cancelledWhileWaiting() async throws {
        let key = try EntryKey("k")
        _ = try await store.write([1], to: key, if: .any)
        let holder = try startProbe("hold", folder.path(of: "store"))
        #expect(holder.hear() == .line("held"))
        let clock = EndlessClock()
        let store = FileBackend(
            folder: folder.path(of: "store"),
            host: HostServices(now: { 0 }, timer: clock, randomBits: { .random(in: 0...9) }))
        let kinds = await withTaskGroup(of: BackendError.Kind?.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    do throws(BackendError) {
                        _ = try await store.write([2], to: key, if: .any)
                        return nil
                    } catch {
                        return error.kind
                    }
                }
            }
            // One waits for the process, the others for the one.
            for await _ in clock.pauses { group.cancelAll() }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(kinds == Array(repeating: .cancelled, count: 4))
        #expect(holder.killAndWait() == -9)
        guard case .found(let entry) = try await store.read(key).outcome else {
            Issue.record("the entry is gone")
            return
        }
        #expect(entry.value == [1])
    }

    private func count(_ key: EntryKey) async throws -> Int? {
        guard case .found(let entry) = try await store.read(key).outcome else { return nil }
        return Int(String(decoding: entry.value, as: UTF8.self))
    }
}

private func raise(_ key: EntryKey, in store: FileBackend) async throws {
    var outcome = try await store.read(key).outcome
    while true {
        let (count, precondition): (Int, Precondition) =
            if case .found(let entry) = outcome {
                (try #require(Int(String(decoding: entry.value, as: UTF8.self))), .matches(entry.version))
            } else {
                (0, .absent)
            }
        switch try await store.write(Array("\(count + 1)".utf8), to: key, if: precondition).outcome {
        case .written, .deleted: return
        case .conflict(let current): outcome = current.map(ReadOutcome.found) ?? .absent
        }
    }
}

private func startProbe(_ arguments: String...) throws -> ChildProcess {
    try ChildProcess(BuiltProgram.path(of: "StoreProbe"), arguments)
}
