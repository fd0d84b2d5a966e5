import FileStorage
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("The file store after a power cut or kill at each system call in turn")
struct PowerCutTests {
    /// The results of a sweep over all calls.
    private struct Sweep {
        var cuts = 0
        var inspections = 0
        var expired = 0
        var findings: [String] = []
    }

    /// Cuts the power at each call of a workload and inspects `survivorCount` of the possible disks. Also kills the
    /// process at each call.
    private func sweep(
        _ workload: CrashWorkload, lie: ModelFileSystem.Lie? = nil, survivorCount: Int, seed: UInt64
    ) async throws -> Sweep {
        let whole = ModelFileSystem(lie: lie)
        _ = try await workload.run(on: whole)
        var generator = SeededGenerator(seed: seed)
        var sweep = Sweep()
        for end in whole.calls.indices {
            let fileSystem = ModelFileSystem(lie: lie, end: end, seed: generator.next())
            let inspection = CrashInspection(workload: workload, guarantees: try await workload.run(on: fileSystem))
            sweep.cuts += 1
            for survivor in 0...survivorCount {
                let disk = survivor == 0 ? fileSystem.disk : fileSystem.disk.afterPowerCut(using: &generator)
                let findings = await inspection.findings(on: disk, seed: generator.next())
                sweep.inspections += 1
                let place = "call \(end), \(whole.calls[end]), \(survivor == 0 ? "killed" : "power cut")"
                sweep.findings += findings.map { "\(place): \($0)" }
            }
        }
        return sweep
    }

    @Test("Every acknowledged change survives, the last one is complete or absent, and the changes match the entries")
    func nothingLost() async throws {
        let seed = printedSeed("power cuts")
        for number in 0..<3 as Range<UInt64> {
            let workload = try CrashWorkload(seed: seed &+ number, stepCount: 14)
            let sweep = try await sweep(workload, survivorCount: 4, seed: seed &+ number)
            print("power cuts: \(sweep.cuts) calls cut, \(sweep.inspections) disks looked at")
            #expect(sweep.cuts > 100)
            let findings = sweep.findings.prefix(5).joined(separator: "\n")
            #expect(sweep.findings.isEmpty, "seed \(seed &+ number): \(sweep.findings.count) findings\n\(findings)")
        }
    }

    @Test(
        "The tests fail if files or folders are not synced",
        arguments: [
            ModelFileSystem.Lie.file, .folder,
        ])
    func bites(lie: ModelFileSystem.Lie) async throws {
        // Each of these workloads reveals the omission, regardless of the random choices.
        for seed in 1...2 as ClosedRange<UInt64> {
            let workload = try CrashWorkload(seed: seed, stepCount: 14)
            let sweep = try await sweep(workload, lie: lie, survivorCount: 2, seed: seed)
            print("without synchronizing a \(lie): \(sweep.findings.count) findings on \(sweep.inspections) disks")
            #expect(sweep.findings.contains { $0.contains("power cut") })
            #expect(!sweep.findings.contains { $0.contains("killed") }, "a kill loses nothing from the system's memory")
        }
    }

    @Test("A conflict is reported only with an entry that survives the next power cut")
    func conflictIsDurable() async throws {
        let seed = printedSeed("conflicts after a kill")
        var generator = SeededGenerator(seed: seed)
        let workload = try CrashWorkload(seed: seed, stepCount: 14)
        let whole = ModelFileSystem()
        _ = try await workload.run(on: whole)
        var conflicts = 0
        for end in whole.calls.indices {
            let killed = ModelFileSystem(end: end, seed: generator.next())
            let guarantees = try await workload.run(on: killed)
            guard let key = guarantees.unknown?.key else { continue }
            // Another process reads while the system still has everything in memory, and then the power is cut.
            let next = ModelFileSystem(killed.disk)
            let outcome = try await workload.open(next, life: 1).write([7], to: key, if: .absent).outcome
            guard case .conflict(let reported?) = outcome else { continue }
            conflicts += 1
            for _ in 0..<4 {
                let left = ModelFileSystem(next.disk.afterPowerCut(using: &generator))
                let found = try await workload.open(left, life: 2).read(key).outcome
                #expect(found == .found(reported), "seed \(seed), call \(end)")
            }
        }
        #expect(conflicts > 0)
    }

    @Test("A partly written new log is not used, because the change that superseded a dropped one may be missing")
    func halfOfNewLog() async throws {
        let seed = printedSeed("halves of new logs")
        let (first, second, third) = (try EntryKey("a/k"), try EntryKey("r"), try EntryKey("a/l"))
        var steps: [CrashWorkload.Step] = [.write(first, [1], conditional: false)]
        steps += [.write(second, [2], conditional: false), .follow, .delete(first, conditional: false)]
        steps += (4...11).map { .write(third, [$0], conditional: false) }
        let before = ModelFileSystem()
        _ = try await CrashWorkload(steps: steps, seed: seed).run(on: before)
        // This write compacts the log: the first change is dropped, and a cursor at the second is still recognized.
        let workload = try CrashWorkload(steps: steps + [.write(third, [12], conditional: false)], seed: seed)
        let whole = ModelFileSystem()
        _ = try await workload.run(on: whole)
        var generator = SeededGenerator(seed: seed)
        for end in whole.calls.indices.dropFirst(before.calls.count) where whole.calls[end] == "write" {
            for _ in 0..<150 {
                let killed = ModelFileSystem(end: end, seed: generator.next())
                let inspection = CrashInspection(workload: workload, guarantees: try await workload.run(on: killed))
                for disk in [killed.disk, killed.disk.afterPowerCut(using: &generator)] {
                    let findings = await inspection.findings(on: disk, seed: generator.next())
                    #expect(findings.isEmpty, "seed \(seed), call \(end)")
                }
            }
        }
    }

    @Test("A reader in another process continues after the writer is killed at any call")
    func livingFollower() async throws {
        let seed = printedSeed("followers of killed writers")
        for number in 0..<3 as Range<UInt64> {
            let before = try CrashWorkload(seed: seed &+ number, stepCount: 4)
            let workload = try CrashWorkload(seed: seed &+ 100 &+ number, stepCount: 10)
            var end = 0
            var isWhole = false
            while !isWhole {
                let fileSystem = ModelFileSystem(seed: seed &+ UInt64(end))
                _ = try await before.run(on: fileSystem)
                let follower = before.open(fileSystem, life: 1)
                var cursor: ChangeCursor?
                var view: [EntryKey: EntryVersion] = [:]
                try await CrashWorkload.follow(follower, from: &cursor, &view)
                fileSystem.end(after: end)
                _ = try await workload.run(on: fileSystem, life: 2)
                isWhole = !fileSystem.isOver
                fileSystem.resume()
                if end % 2 == 0 {
                    _ = try await before.open(fileSystem, life: 3).write([9], to: before.keys[end / 2 % 4], if: .any)
                }
                do throws(BackendError) {
                    try await CrashWorkload.follow(follower, from: &cursor, &view)
                } catch {
                    guard error.kind == .cursorExpired else { throw error }
                    (cursor, view) = (nil, [:])
                    try await CrashWorkload.follow(follower, from: &cursor, &view)
                }
                let listed = try await follower.list(prefix: "", after: nil, limit: 100).outcome.items
                let versions = Dictionary(uniqueKeysWithValues: listed.map { ($0.key, $0.version) })
                #expect(view == versions, "seed \(seed), workload \(number), killed at call \(end)")
                end += 1
            }
        }
    }
}
