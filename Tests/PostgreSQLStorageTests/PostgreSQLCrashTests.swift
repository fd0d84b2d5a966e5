#if PostgreSQL
import Foundation
import PostgreSQLStorage
import PostgreSQLTestSupport
import SyncCore
import SyncCoreTesting
import Synchronization
import TestSupport
import Testing

/// Uses real processes and real kills.
@Suite("Processes on a PostgreSQL store", .serialized)
struct PostgreSQLCrashTests {
    @Test("increment one counter without losing an update, in three processes of two tasks")
    func counter() async throws {
        let store = try TestStore()
        let processes = try (0..<3).map { _ in try BuiltProgram.startProbe("count", store.url, "counter", "50", "2") }
        for process in processes {
            for step in 0..<100 { try #require(process.hear() == .line("raised"), "step \(step)") }
            #expect(process.wait() == 0)
        }
        guard case .found(let entry) = try await store.open().read(EntryKey("counter")).outcome else {
            Issue.record("the counter is absent")
            return
        }
        #expect(String(decoding: entry.value, as: UTF8.self) == "300")
    }

    @Test("follow each other's writes through signals and changes")
    func sharing() throws {
        let store = try TestStore()
        let processes = try [("a", "b"), ("b", "a")].map { name, other in
            try BuiltProgram.startProbe("share", store.url, name, other, "500")
        }
        for process in processes {
            var lines: [String] = []
            while case .line(let line) = process.hear() { lines.append(line) }
            #expect(process.wait() == 0, "\(lines.last ?? "no output")")
            #expect(lines.contains { $0.hasPrefix("saw ") })
        }
    }

    @Test("that are killed while writing lose no acknowledged write")
    func killedWriters() async throws {
        let store = try TestStore()
        let seed = printedSeed("kill -9, postgres")
        let limit = Duration.seconds(Soak.isKilling ? 2_400 : 30)
        let report = try await CrashTrial.run(
            rounds: Soak.killRounds, seed: seed, processes: 3, limit: limit, command: { store.writer($0) },
            reopen: { try await store.openAfterKill() })
        print("kill -9, postgres: \(report)")
        #expect(report.hasPassed, "\(report)")
        #expect(report.rounds >= (Soak.isKilling ? Soak.killRounds : 1) && report.acknowledged >= report.rounds)
    }

    @Test("lose no acknowledged write, and invent none, when the server is killed")
    func killedServer() async throws {
        let store = try TestStore(on: PostgreSQLServer())
        let trial = ServerTrial(try (0..<2).map { _ in try store.open() })
        for round in 0..<Soak.serverKillRounds {
            try await trial.run(round) {
                store.server.kill()
                try store.server.start()
            }
        }
        try await trial.check(try store.open())
        print("kill -9 of PostgreSQL: \(trial.summary)")
    }
}

/// Tasks that write while the server is killed, and the outcomes that they got.
private final class ServerTrial: Sendable {
    private struct State {
        var acknowledged: [EntryKey: EntryVersion] = [:]
        var unknown: Set<EntryKey> = []
        var refused: Set<EntryKey> = []
    }

    private let state = Mutex(State())
    private let backends: [PostgreSQLBackend]
    private static let taskCount = 16

    init(_ backends: [PostgreSQLBackend]) { self.backends = backends }

    var summary: String {
        state.withLock { state in
            "\(state.acknowledged.count) acknowledged, \(state.unknown.count) unknown, \(state.refused.count) refused"
        }
    }

    private var acknowledgedCount: Int { state.withLock { $0.acknowledged.count } }

    /// Writes new keys, calls `kill` after some of them are acknowledged, and goes on until more are.
    func run(_ round: Int, kill: @escaping @Sendable () throws -> Void) async throws {
        let start = acknowledgedCount
        let isOver = Mutex(false)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<Self.taskCount {
                group.addTask { @Sendable in
                    var number = 0
                    while !isOver.withLock({ $0 }) {
                        try await self.write(EntryKey("\(round)/\(task)/\(number)"), on: self.backends[task % 2])
                        number += 1
                    }
                }
            }
            try await waitUntil("writes before the kill") { acknowledgedCount > start + 200 }
            try kill()
            let restarted = acknowledgedCount
            try await waitUntil("writes after the kill") { acknowledgedCount > restarted + 200 }
            isOver.withLock { $0 = true }
            try await group.waitForAll()
        }
    }

    private func write(_ key: EntryKey, on backend: PostgreSQLBackend) async throws {
        do throws(BackendError) {
            let outcome = try await backend.write(Array(key.text.utf8), to: key, if: .absent).outcome
            guard case .written(let version) = outcome else {
                Issue.record("\(key): \(outcome)")
                return
            }
            state.withLock { $0.acknowledged[key] = version }
        } catch {
            let isUnknown = error.disposition == .outcomeUnknown
            #expect(isUnknown || error.disposition == .transient, "\(error)")
            state.withLock { state in
                if isUnknown { state.unknown.formUnion([key]) } else { state.refused.formUnion([key]) }
            }
        }
    }

    /// Compares the store, and its changes, with the outcomes.
    func check(_ backend: PostgreSQLBackend) async throws {
        var present: [EntryKey: EntryVersion] = [:]
        var cursor: EntryKey?
        repeat {
            let page = try await backend.list(prefix: "", after: cursor, limit: 1_000).outcome
            for item in page.items { present[item.key] = item.version }
            cursor = page.next
        } while cursor != nil
        var changed: [EntryKey: EntryVersion] = [:]
        var position: ChangeCursor?
        var hasMore = true
        while hasMore {
            let page = try await backend.changes(since: position, limit: 1_000).outcome
            for change in page.changes { changed[change.key] = change.version }
            (position, hasMore) = (page.cursor, page.hasMore)
        }
        #expect(changed == present)
        let state = state.withLock { $0 }
        for (key, version) in state.acknowledged { #expect(present[key] == version, "\(key) is lost") }
        for key in present.keys {
            #expect(state.acknowledged[key] != nil || state.unknown.contains(key), "\(key) was refused")
        }
    }
}
#endif
