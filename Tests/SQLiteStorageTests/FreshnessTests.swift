import Foundation
import SQLiteStorage
import SyncCore
import SyncCoreTesting
import Synchronization
import TestSupport
import Testing

@Suite("Reads of an SQLite store with several writers")
struct FreshnessTests {
    private let folder: TemporaryFolder
    private let store: SQLiteBackend

    init() throws {
        folder = try TemporaryFolder()
        store = SQLiteBackend(path: folder.path(of: "store.sqlite"))
    }

    private struct UnexpectedOutcome: Error { let outcome: String }

    private func number(of key: EntryKey, in store: SQLiteBackend) async throws -> Int {
        let outcome = try await store.read(key).outcome
        guard case .found(let entry) = outcome, let number = Int(String(decoding: entry.value, as: UTF8.self)) else {
            throw UnexpectedOutcome(outcome: "\(outcome)")
        }
        return number
    }

    @Test("A read is never older than the last acknowledged write of another process, even one that was killed")
    func otherProcess() async throws {
        let key = try EntryKey("counter")
        _ = try await store.write(Array("0".utf8), to: key, if: .absent)
        var acknowledged = 0
        for round in 0..<4 {
            let process = try BuiltProgram.startProbe("count", "sqlite:\(folder.path)", "counter", "400", "2")
            let last = acknowledged + (round == 3 ? 800 : 150)
            while acknowledged < last, case .line("raised") = process.hear() {
                acknowledged += 1
                let value = try await number(of: key, in: store)
                #expect(value >= acknowledged)
                #expect(try await number(of: key, in: store) >= value)
            }
            #expect(acknowledged == last)
            if round < 3 {
                _ = process.killAndWait()
                // A write that was not acknowledged before the kill may have happened, so its value is the new minimum.
                let value = try await number(of: key, in: store)
                #expect(value >= acknowledged)
                acknowledged = value
            } else {
                #expect(process.wait() == 0)
            }
        }
        #expect(try await number(of: key, in: store) == acknowledged)
    }

    /// The state that writers and readers share.
    private final class Progress: Sendable {
        /// The highest acknowledged number of each key.
        let acknowledged: Mutex<[Int]>
        let writerCount: Mutex<Int>

        init(keyCount: Int) {
            acknowledged = Mutex(Array(repeating: 0, count: keyCount))
            writerCount = Mutex(keyCount)
        }
    }

    @Test("A read is never older than a write acknowledged before it, by either of two objects, with many readers")
    func twoObjects() async throws {
        let keys = try (0..<4).map { try EntryKey("counter/\($0)") }
        let stores = [store, SQLiteBackend(path: folder.path(of: "store.sqlite"), cachedByteCount: 1 << 16)]
        for key in keys { _ = try await store.write(Array("0".utf8), to: key, if: .any) }
        let progress = Progress(keyCount: keys.count)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, key) in keys.enumerated() {
                group.addTask {
                    defer { progress.writerCount.withLock { $0 -= 1 } }
                    for number in 1...300 {
                        let store = stores[(index + number / 7) % 2]
                        _ = try await store.write(Array("\(number)".utf8), to: key, if: .any)
                        progress.acknowledged.withLock { $0[index] = number }
                    }
                }
            }
            // More readers than connections stay open.
            for reader in 0..<20 {
                group.addTask {
                    var turn = reader
                    while progress.writerCount.withLock({ $0 > 0 }) {
                        turn += 1
                        let index = turn % keys.count
                        let least = progress.acknowledged.withLock { $0[index] }
                        let value = try await number(of: keys[index], in: stores[reader % 2])
                        #expect(value >= least)
                        await Task.yield()
                    }
                }
            }
            try await group.waitForAll()
        }
        for key in keys {
            for store in stores { #expect(try await number(of: key, in: store) == 300) }
        }
    }
}
