import EntitlementSync
import Foundation
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Killed and concurrent processes", .serialized)
struct KillTests {
    private let sandbox: Sandbox
    private let alice: Account

    init() throws {
        sandbox = try Sandbox()
        alice = try Account("alice")
    }

    private static let stores = "--account alice --local file:phone --remote file:remote"

    private func words(_ command: String) -> [String] {
        "\(command) \(Self.stores)".split(separator: " ").map(String.init)
    }

    @Test("Nothing acknowledged is lost by kill -9 of record and sync, in 200 rounds")
    func killed() async throws {
        let seed = printedSeed("kill -9 of syncd")
        var generator = SeededGenerator(seed: seed)
        var records = KillTimer(generator: generator.split(), step: 1.06)
        var syncs = KillTimer(generator: generator.split(), step: 1.06)
        var acknowledged: Set<String> = []
        var unacknowledged = 0
        var (round, leftovers) = (0, 0)
        // Until enough commands were killed and enough finished, with a bound in case one of the two never happens.
        while round < 100 || (round < 400 && !(records.hasSeen(10) && syncs.hasSeen(10))) {
            let id = "r\(round)"
            let command = words("record purchase \(Owls.night) --transaction \(id) --date 2026-01-01")
            if try records.runOrKill(sandbox.start(command)) == 0 { acknowledged.insert(id) }
            leftovers += try pendingFiles()
            let local = try await sandbox.purchases(in: "phone", of: alice)
            #expect(local.isSuperset(of: acknowledged), "round \(round), seed \(seed)")
            if local.contains(id), !acknowledged.contains(id) { unacknowledged += 1 }

            let exitCode = try syncs.runOrKill(sandbox.start(words("sync --create-remote")))
            leftovers += try pendingFiles()
            let remote = try await sandbox.purchases(in: "remote", of: alice)
            #expect(try await sandbox.purchases(in: "phone", of: alice).isSuperset(of: acknowledged))
            if exitCode == 0 { #expect(remote.isSuperset(of: acknowledged), "round \(round), seed \(seed)") }
            round += 1
        }
        print(
            """
            kill -9 of syncd, \(2 * round) rounds: record killed \(records.killed), finished \(records.finished); sync \
            killed \(syncs.killed), finished \(syncs.finished); \(acknowledged.count) acknowledged, \
            \(unacknowledged) written and not acknowledged, \(leftovers) left-over files seen
            """)
        #expect(records.hasSeen(10) && syncs.hasSeen(10))
        #expect(try sandbox.run(words("sync --create-remote")).exitCode == 0)
        #expect(try await sandbox.purchases(in: "remote", of: alice).isSuperset(of: acknowledged))
        #expect(try sandbox.run(words("check night-owl")).exitCode == 0)

        // The remains of the last killed command disappear with the next write to its store.
        #expect(try sandbox.run(words("record purchase \(Owls.night) --transaction last")).exitCode == 0)
        #expect(try sandbox.run(words("sync")).exitCode == 0)
        #expect(try pendingFiles() == 0, "seed \(seed)")
    }

    @Test("Processes that record into one store at once lose nothing")
    func concurrentRecords() async throws {
        let ids = (0..<24).map { "c\($0)" }
        for start in stride(from: 0, to: ids.count, by: 8) {
            let processes = try ids[start..<start + 8].map { id in
                try sandbox.start(words("record purchase \(Owls.night) --transaction \(id) --date 2026-01-01"))
            }
            for (id, process) in zip(ids[start...], processes) {
                #expect(process.outcome() == .done("recorded: \(Owls.night) as \(id) for alice"))
            }
        }
        #expect(try await sandbox.purchases(in: "phone", of: alice) == Set(ids))
    }

    @Test("Devices that record and sync with one remote at once converge")
    func concurrentSyncs() async throws {
        let devices = (0..<5).map { "device\($0)" }
        func start(_ command: String) throws -> [RunningCommand] {
            try devices.map { device in
                let words = "\(command) --account alice --local file:\(device) --remote file:remote"
                    .replacing("DEVICE", with: device)
                return try sandbox.start(words.split(separator: " ").map(String.init))
            }
        }
        var expected: Set<String> = []
        for round in 0..<3 {
            let command = "record purchase \(Owls.night) --transaction DEVICE-\(round) --date 2026-01-01"
            let processes = try start("sync --create-remote") + start(command) + start("sync --create-remote")
            #expect(processes.map { $0.outcome().exitCode } == Array(repeating: 0, count: 15))
            expected.formUnion(devices.map { "\($0)-\(round)" })
        }
        // The first round carries everything to the remote, the second to every device.
        for _ in 0..<2 {
            #expect(try start("sync --create-remote").map { $0.outcome().exitCode } == Array(repeating: 0, count: 5))
        }
        for store in devices + ["remote"] {
            #expect(try await sandbox.purchases(in: store, of: alice) == expected, "\(store)")
        }
    }

    private func pendingFiles() throws -> Int {
        try FileManager.default.subpathsOfDirectory(atPath: sandbox.folder.path).count { $0.hasSuffix(".pending.tmp") }
    }
}
