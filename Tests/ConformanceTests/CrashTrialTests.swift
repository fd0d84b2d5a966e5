import FileStorage
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

/// Uses real processes and real kills.
@Suite("A crash trial", .serialized)
struct CrashTrialTests {
    private let folder: TemporaryFolder
    private let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path(of: "store")
    }

    private func run(
        _ kind: String, rounds: Int, seed: UInt64, processes: Int = 2,
        afterRound: (@Sendable (Int) async throws -> Void)? = nil
    ) async throws -> CrashReport {
        let path = path
        return try await CrashTrial.run(
            rounds: rounds, seed: seed, processes: processes,
            command: { CrashTrial.Command(BuiltProgram.path(of: "StoreProbe"), ["write", "\(kind):\(path)", $0]) },
            reopen: { FileBackend(folder: path, lockTimeout: .seconds(60)) }, afterRound: afterRound)
    }

    @Test("detects a store that acknowledges writes in memory only")
    func forgottenSync() async throws {
        let report = try await run("forgetful", rounds: 20, seed: 1, processes: 1)
        #expect(!report.hasPassed)
        let failure = try #require(report.failures.first)
        #expect(failure.hasPrefix("round ") && failure.contains("acknowledged"), "\(failure)")
        #expect(report.description.hasPrefix("LOST: "))
    }

    @Test("passes for a store that writes through, and reports its findings")
    func fileStore() async throws {
        let report = try await run("file", rounds: 5, seed: 1)
        #expect(report.hasPassed, "\(report)")
        #expect(report.rounds == 5 && report.kills == 10 && report.acknowledged >= 5 && report.entries >= 5)
        #expect(report.description.hasPrefix("nothing lost: 5 rounds, 10 processes killed, "))
    }

    @Test("detects an entry of an earlier round that is changed, removed or added later", arguments: 0..<3)
    func tampered(_ kind: Int) async throws {
        let path = path
        let report = try await run("file", rounds: 3, seed: 2) { round in
            guard round == 1 else { return }
            let store = FileBackend(folder: path)
            switch kind {
            case 0: _ = try await store.write([9], to: EntryKey("crash/after/0"), if: .any)
            case 1: _ = try await store.delete(EntryKey("crash/after/0"), if: .any)
            default: _ = try await store.write([9], to: EntryKey("crash/0/stranger"), if: .any)
            }
        }
        let expected = [
            "round 2: \"crash/after/0\" of an earlier round has changed",
            "round 2: \"crash/after/0\" of an earlier round is gone",
            "round 2: \"crash/0/stranger\" exists although no process wrote it",
        ]
        #expect(report.failures == [expected[kind]])
    }

    @Test("detects a lost increment of the shared counter")
    func lostStep() async throws {
        let path = path
        let report = try await run("file", rounds: 100, seed: 3) { _ in
            let store = FileBackend(folder: path)
            _ = try await store.write(Array("0".utf8), to: EntryKey("crash/counter"), if: .any)
        }
        #expect(report.failures.first?.contains("the counter is ") == true, "\(report)")
    }

    @Test("reports a child that exits on its own, and its output")
    func quitter() async throws {
        let path = path
        let unknown = try await run("nonsense", rounds: 3, seed: 1)
        #expect(!unknown.hasPassed)
        #expect(
            unknown.failures.first?.hasPrefix("round 0: process 0 said: ! it exited on its own") == true, "\(unknown)")
        let refused = try await CrashTrial.run(
            rounds: 1, seed: 1,
            command: { CrashTrial.Command(BuiltProgram.path(of: "StoreProbe"), ["write", "file:/proc/none", $0]) },
            reopen: { FileBackend(folder: path) })
        #expect(refused.failures.first?.contains("no folder can be created there") == true, "\(refused)")
    }

    @Test("throws if a process cannot be started")
    func missingExecutable() async throws {
        let path = path
        let error = await #expect(throws: BackendError.self) {
            try await CrashTrial.run(
                rounds: 1, seed: 1, command: { CrashTrial.Command("/nowhere/writer", [$0]) },
                reopen: { FileBackend(folder: path) })
        }
        #expect(error?.message == "/nowhere/writer: no process can be started: No such file or directory")
    }

    @Test(
        "rejects an invalid assignment", arguments: ["", "1:2:3", "1:2:3:0", "1:2:3:65", "1:-2:3:4"])
    func wrongAssignment(_ assignment: String) throws {
        let child = try ChildProcess(BuiltProgram.path(of: "StoreProbe"), ["write", "file:\(path)", assignment])
        #expect(
            child.hear() == .line("! \"\(assignment)\" is not an assignment; pass the text from `command` unchanged"))
        #expect(child.hear() == .end)
        #expect(child.wait() == 1)
    }
}
