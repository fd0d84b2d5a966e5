import Foundation
import SQLiteStorage
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

/// Uses real processes on the stores that several processes may share.
@Suite("Several processes on one store", .serialized)
struct SharedStoreTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    @Test(
        "increment one counter without losing an update, in two processes of two tasks",
        arguments: SharedKind.conditional)
    func counter(kind: SharedKind) async throws {
        let path = try folder.freshFolder()
        let processes = try (0..<2).map { _ in
            try BuiltProgram.startProbe("count", "\(kind):\(path)", "counter", "150", "2")
        }
        for process in processes {
            for step in 0..<300 { try #require(process.hear() == .line("raised"), "step \(step)") }
            #expect(process.wait() == 0)
        }
        guard case .found(let entry) = try await kind.open(path).read(EntryKey("counter")).outcome else {
            Issue.record("the counter is absent")
            return
        }
        #expect(String(decoding: entry.value, as: UTF8.self) == "600")
    }

    @Test("that are killed while writing lose no acknowledged write and leave a readable file store")
    func killedOnFiles() async throws { try await kill(.file, rounds: Soak.killRounds) }

    @Test("that are killed while writing lose no acknowledged write and leave a readable SQLite store")
    func killedOnSQLite() async throws { try await kill(.sqlite, rounds: Soak.killRounds) }

    @Test("that are killed while writing to a folder that a file-sync tool shares lose no acknowledged write")
    func killedInSharedFolder() async throws { try await kill(.folder, rounds: max(1, Soak.killRounds / 5)) }

    private func kill(_ kind: SharedKind, rounds: Int) async throws {
        let path = try folder.freshFolder()
        let limit = Duration.seconds(Soak.isKilling ? 2_400 : 180)
        let begin = ContinuousClock.now
        let report = try await trial(kind, path, rounds: rounds, seed: printedSeed("kill -9, \(kind)"), limit: limit)
        print("kill -9, \(kind): \(report), \(ContinuousClock.now - begin)")
        #expect(report.hasPassed, "\(report)")
        // On a busy machine the everyday tests may finish fewer rounds; the line above prints the number.
        #expect(report.rounds >= (Soak.isKilling ? rounds : 1) && report.kills == 2 * report.rounds)
        #expect(report.acknowledged >= report.rounds)
        guard let database = kind.open(path) as? SQLiteBackend else { return }
        let integrity = try await database.integrityCheck()
        #expect(integrity.isIntact, "\(integrity)")
    }

    @Test(
        "that are killed while creating the store leave one that the next process can use",
        arguments: SharedKind.conditional)
    func killedWhileMaking(kind: SharedKind) async throws {
        let seed = printedSeed("kill -9 while making a store, \(kind)")
        for number in 0..<12 {
            let path = try folder.freshFolder()
            let report = try await trial(kind, path, rounds: 2, seed: seed &+ UInt64(number), limit: nil)
            #expect(report.hasPassed && report.rounds == 2, "\(report)")
        }
    }

    private func trial(
        _ kind: SharedKind, _ path: String, rounds: Int, seed: UInt64, limit: Duration?
    ) async throws -> CrashReport {
        try await CrashTrial.run(
            rounds: rounds, seed: seed, limit: limit,
            command: { CrashTrial.Command(BuiltProgram.path(of: "StoreProbe"), ["write", "\(kind):\(path)", $0]) },
            reopen: { kind.open(path) })
    }

    @Test(
        "synchronize the disk before they acknowledge a write", arguments: SharedKind.conditional)
    func synchronizations(kind: SharedKind) throws {
        guard FileManager.default.isExecutableFile(atPath: "/usr/bin/strace") else {
            print("skipped: strace is not installed")
            return
        }
        let path = try folder.freshFolder()
        let trace = folder.path(of: "trace")
        let process = try BuiltProgram.startProbe(
            "count", "\(kind):\(path)", "k", "20", "1",
            by: ["/usr/bin/strace", "-f", "-qq", "-e", "trace=fsync,fdatasync,write", "-o", trace])
        while case .line = process.hear() {}
        #expect(process.wait() == 0)
        var (synchronizations, acknowledgements) = (0, 0)
        for line in try String(contentsOfFile: trace, encoding: .utf8).split(separator: "\n") {
            if line.contains("sync") && line.hasSuffix("= 0") { synchronizations += 1 }
            guard line.contains(#"write(1, "raised"#) else { continue }
            acknowledgements += 1
            #expect(synchronizations > 0, "raise \(acknowledgements) was acknowledged without synchronizing")
            synchronizations = 0
        }
        #expect(acknowledgements == 20)
    }
}
