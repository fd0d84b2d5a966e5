import Foundation
import SQLiteStorage
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Several processes on one SQLite store", .serialized)
struct SQLiteProcessTests {
    private let folder: TemporaryFolder
    private let path: String
    private let store: SQLiteBackend

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path(of: "store.sqlite")
        store = SQLiteBackend(path: path, busyTimeout: .seconds(60))
    }

    @Test("raise one counter without losing a step, in two processes and two tasks at once")
    func counter() async throws {
        let key = try EntryKey("counter")
        let processes = try (0..<2).map { _ in try Probe("count", path, "counter", "150") }
        let other = SQLiteBackend(path: path, busyTimeout: .seconds(60))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for store in [store, other] {
                group.addTask { for _ in 0..<150 { try await raise(key, in: store) } }
            }
            try await group.waitForAll()
        }
        for process in processes { #expect(process.exitStatus() == 0) }
        guard case .found(let entry) = try await store.read(key).outcome else {
            Issue.record("the counter is gone")
            return
        }
        #expect(String(decoding: entry.value, as: UTF8.self) == "600")
    }

    @Test("that are killed in the middle of writing lose no acknowledged write and leave a readable store")
    func killed() async throws {
        let seed = printedSeed("kill -9, SQLite")
        var generator = SeededGenerator(seed: seed)
        let rounds = killRounds
        var acknowledged = 0
        for round in 0..<rounds {
            let prefixes = ["x\(round)", "y\(round)"]
            let processes = try prefixes.map { try Probe("write", path, $0) }
            // At a random moment of a random write: after some acknowledgements, and then some microseconds. In the
            // first rounds none, so that the making of the store is interrupted as well.
            let lines = round < 5 ? 0 : Int.random(in: 1...24, using: &generator)
            for _ in 0..<lines { _ = processes[0].line() }
            let end = ContinuousClock.now + .microseconds(Int.random(in: 0...900, using: &generator))
            while ContinuousClock.now < end {}
            for (prefix, process) in zip(prefixes, processes) {
                for number in process.killAndCollect() {
                    let key = try EntryKey("\(prefix)/\(number % 3)/\(number)")
                    guard case .found(let entry) = try await store.read(key).outcome,
                        entry.value == Array("\(prefix) \(number)".utf8)
                    else {
                        Issue.record("round \(round), seed \(seed): \(key) was acknowledged and is not there")
                        return
                    }
                    acknowledged += 1
                }
            }
            // The store goes on at once, and everything that this round left is readable.
            _ = try await store.write([1], to: EntryKey("after/\(round)"), if: .absent)
            for prefix in prefixes {
                let listed = try await store.list(prefix: prefix + "/", after: nil, limit: .max).outcome.items
                for item in listed {
                    #expect(try await store.read(item.key, unless: item.version).outcome == .unchanged)
                }
            }
        }
        let report = try await store.integrityCheck()
        #expect(report.isIntact, "\(report)")
        print("kill -9: \(rounds) rounds, 2 writers each, \(acknowledged) acknowledged writes")
        #expect(acknowledged >= rounds)
    }

    @Test("see each other's writes by signals, and are not told of reads")
    func signals() async throws {
        let key = try EntryKey("k")
        _ = try await store.write([0], to: key, if: .any)
        let process = try Probe("put", path, "k")
        // The connection of the other process is open before anything is measured.
        process.say("0")
        #expect(process.line() == "put")
        var iterator = store.signals().makeAsyncIterator()
        for round in 1...20 {
            _ = try await store.read(key)
            process.say("\(round)")
            #expect(process.line() == "put")
            let acknowledged = ContinuousClock.now
            #expect(await iterator.next() != nil)
            let delay = ContinuousClock.now - acknowledged
            #expect(delay < .milliseconds(100), "round \(round)")
            guard case .found(let entry) = try await store.read(key).outcome else {
                Issue.record("the entry is gone")
                return
            }
            #expect(entry.value == Array("\(round)".utf8))
        }
        try process.endInput()
        #expect(process.exitStatus() == 0)
    }

    @Test(
        "synchronise the file for every acknowledged write",
        .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/strace"), "strace is not installed"))
    func synchronisations() throws {
        let trace = folder.path(of: "trace")
        let process = try Probe(
            "put", path, "k",
            by: ["/usr/bin/strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", trace])
        process.say("0")
        #expect(process.line() == "put")
        func count() throws -> Int {
            try String(contentsOfFile: trace, encoding: .utf8).split(separator: "\n")
                .count { $0.contains("sync(") && $0.hasSuffix("= 0") }
        }
        var before = try count()
        for round in 1...20 {
            process.say("\(round)")
            #expect(process.line() == "put")
            let now = try count()
            #expect(now > before, "write \(round) was acknowledged without synchronising")
            before = now
        }
        try process.endInput()
        #expect(process.exitStatus() == 0)
    }

    @Test("that fill the disk get a typed error, keep what was acknowledged, and go on when there is space")
    func fullDisk() async throws {
        let disk = try folder.freshFolder()
        // A disk of its own in a name space of its own, which ends with the process; a copy stays.
        let script =
            "mount -t tmpfs -o size=1m tmpfs \(disk) || exit 77; "
            + "head -c 200000 /dev/zero > \(disk)/ballast; \"$@\"; "
            + "cp \(disk)/s* \(folder.path)/"
        let process = try Probe(
            "fill", disk + "/s.sqlite", disk + "/ballast",
            by: ["/usr/bin/unshare", "-m", "/bin/sh", "-c", script, "sh"])
        guard let count = process.line().flatMap({ Int($0) }), let error = process.line() else {
            // Without the right to mount; `spoiled` has the same with SQLite's own limit of pages.
            print("skipped: no tmpfs can be mounted here (exit status \(process.exitStatus()))")
            return
        }
        #expect(
            error.hasPrefix("full permanent write \"big/\(count)\": \(disk)/s.sqlite: no space is left"), "\(error)")
        #expect(process.line() == "deleted and written")
        #expect(process.exitStatus() == 0)
        let copy = SQLiteBackend(path: folder.path(of: "s.sqlite"))
        for number in 1..<count { #expect(try await copy.read(EntryKey("big/\(number)")).outcome != .absent) }
        #expect(try await copy.integrityCheck().isIntact)
        print("full disk: \(count) values of 64 KiB on a tmpfs of 1 MiB")
    }

    @Test("wait for the one that writes, answer busy after the time limit, and go on when it has ended")
    func busy() async throws {
        let key = try EntryKey("k")
        _ = try await store.write([1], to: key, if: .any)
        let holder = try WriteLock(path: path)
        let manual = ManualHost(seed: 1)
        let impatient = SQLiteBackend(path: path, host: manual.host, busyTimeout: .seconds(3))
        let error = await expectKind(.busy) { try await impatient.write([2], to: key, if: .any) }
        #expect(error?.disposition == .transient && error?.operation == .write && error?.key == key)
        let waited = manual.pauses.reduce(.zero, +)
        #expect(waited >= .seconds(3) && waited < .seconds(3.1))
        #expect(try await impatient.read(key).outcome != .absent, "a reader waits for no writer")
        let errors = await withTaskGroup(of: BackendError.Kind?.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    do throws(BackendError) {
                        _ = try await impatient.write([2], to: key, if: .any)
                        return nil
                    } catch {
                        return error.kind
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(errors == Array(repeating: .busy, count: 4))
        try holder.release()
        _ = try await impatient.write([3], to: key, if: .any)
    }

    @Test("do not keep a cancelled task waiting")
    func cancelledWhileWaiting() async throws {
        let key = try EntryKey("k")
        _ = try await store.write([1], to: key, if: .any)
        let holder = try WriteLock(path: path)
        let clock = EndlessClock()
        let store = SQLiteBackend(
            path: path, host: HostServices(now: { 0 }, timer: clock, randomBits: { .random(in: 0...9) }))
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
            // One waits for the lock, the others for the one.
            for await _ in clock.pauses { group.cancelAll() }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(kinds == Array(repeating: .cancelled, count: 4))
        try holder.release()
        guard case .found(let entry) = try await self.store.read(key).outcome else {
            Issue.record("the entry is gone")
            return
        }
        #expect(entry.value == [1])
    }

    private func raise(_ key: EntryKey, in store: SQLiteBackend) async throws {
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
}
