import Foundation
import SQLiteStorage
import SyncCore
import SyncCoreTesting
import Synchronization
import TestSupport
import Testing

@Suite("Fresh reads of a shared SQLite store")
struct SQLiteFreshnessTests {
    private let folder: TemporaryFolder
    private let path: String
    private let store: SQLiteBackend

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path(of: "store.sqlite")
        store = SQLiteBackend(path: path)
    }

    private struct UnexpectedOutcome: Error { let outcome: String }

    private func written(_ value: [UInt8], _ key: EntryKey, by store: SQLiteBackend) async throws -> Entry {
        let outcome = try await store.write(value, to: key, if: .any).outcome
        guard case .written(let version) = outcome else { throw UnexpectedOutcome(outcome: "\(outcome)") }
        return Entry(value: value, version: version)
    }

    @Test("A read is never older than the last acknowledged write of another process, even one that was killed")
    func otherProcess() async throws {
        let key = try EntryKey("counter")
        _ = try await store.write([UInt8(ascii: "0")], to: key, if: .absent)
        var acknowledged = 0
        for round in 0..<4 {
            let process = try BuiltProgram.startProbe("count", "sqlite:\(folder.path)", "counter", "400", "2")
            let last = acknowledged + (round == 3 ? 800 : 150)
            while acknowledged < last, case .line("raised") = process.hear() {
                acknowledged += 1
                let value = try await number(in: store.read(key).outcome)
                #expect(value >= acknowledged)
                #expect(try await number(in: store.read(key).outcome) >= value)
            }
            #expect(acknowledged == last)
            if round < 3 {
                _ = process.killAndWait()
                // A write that was not acknowledged before the kill may have happened, so its value is the new minimum.
                let value = try await number(in: store.read(key).outcome)
                #expect(value >= acknowledged)
                acknowledged = value
            } else {
                #expect(process.wait() == 0)
            }
        }
        #expect(try await number(in: store.read(key).outcome) == acknowledged)
    }

    private func number(in outcome: ReadOutcome) throws -> Int {
        guard case .found(let entry) = outcome, let number = Int(String(decoding: entry.value, as: UTF8.self)) else {
            throw UnexpectedOutcome(outcome: "\(outcome)")
        }
        return number
    }

    /// The state that the writers and readers of a test share.
    private final class Progress: Sendable {
        /// The highest acknowledged number for each key.
        let acknowledged: Mutex<[Int]>
        let writerCount: Mutex<Int>

        init(keyCount: Int) {
            acknowledged = Mutex(Array(repeating: 0, count: keyCount))
            writerCount = Mutex(keyCount)
        }
    }

    @Test("A read is never older than a write acknowledged before it, by either of two objects")
    func freshness() async throws {
        let keys = try (0..<4).map { try EntryKey("counter/\($0)") }
        let stores = [store, SQLiteBackend(path: path)]
        for key in keys { _ = try await written(Self.bytes(0), key, by: store) }
        let progress = Progress(keyCount: keys.count)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, key) in keys.enumerated() {
                group.addTask {
                    defer { progress.writerCount.withLock { $0 -= 1 } }
                    for number in 1...300 {
                        _ = try await written(Self.bytes(number), key, by: stores[(index + number / 7) % 2])
                        progress.acknowledged.withLock { $0[index] = number }
                    }
                }
            }
            for reader in stores {
                group.addTask { try await read(keys, from: reader, progress) }
            }
            try await group.waitForAll()
        }
        for key in keys {
            for store in stores { #expect(try await number(of: key, in: store) == 300) }
        }
    }

    private func read(_ keys: [EntryKey], from store: SQLiteBackend, _ progress: Progress) async throws {
        var turn = 0
        while progress.writerCount.withLock({ $0 > 0 }) {
            turn += 1
            let index = turn % keys.count
            let least = progress.acknowledged.withLock { $0[index] }
            #expect(try await number(of: keys[index], in: store) >= least)
            await Task.yield()
        }
    }

    private func number(of key: EntryKey, in store: SQLiteBackend) async throws -> Int {
        let outcome = try await store.read(key).outcome
        guard case .found(let entry) = outcome else { throw UnexpectedOutcome(outcome: "\(outcome)") }
        return entry.value.reduce(0) { $0 << 8 | Int($1) }
    }

    private static func bytes(_ number: Int) -> [UInt8] { withUnsafeBytes(of: Int64(number).bigEndian) { Array($0) } }

    @Test("A replaced file is read again")
    func replaced() async throws {
        let key = try EntryKey("k")
        _ = try await written([1], key, by: store)
        _ = try await store.read(key)
        let replacement = SQLiteBackend(path: folder.path(of: "other.sqlite"))
        let entry = try await written([2], key, by: replacement)
        try ForeignConnection(path: folder.path(of: "other.sqlite")).execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for suffix in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: path + suffix) }
        #expect(rename(folder.path(of: "other.sqlite"), path) == 0)
        #expect(try await store.read(key).outcome == .found(entry))
    }
}
