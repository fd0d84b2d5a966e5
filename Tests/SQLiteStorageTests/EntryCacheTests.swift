import Foundation
import SQLiteStorage
import SyncCore
import SyncCoreTesting
import Synchronization
import TestSupport
import Testing

@Suite("The entry cache of an SQLite store")
struct EntryCacheTests {
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

    @Test("Read and written entries are cached as long as no other connection commits")
    func remembering() async throws {
        let (key, other) = (try EntryKey("a/b"), try EntryKey("a/c"))
        let first = try await written([1], key, by: store)
        #expect(store.remembered(key) == .found(first))
        #expect(try await store.read(key).outcome == .found(first))
        #expect(store.remembered(key) == .found(first))
        #expect(store.remembered(key, unless: first.version) == .unchanged)
        #expect(store.remembered(other) == nil)

        // An own write is cached at once and does not drop the other entries.
        let second = try await written([2], other, by: store)
        #expect(store.remembered(key) == .found(first))
        #expect(store.remembered(other) == .found(second))
        #expect(try await store.delete(key, if: .matches(first.version)).outcome == .deleted)
        #expect(store.remembered(key) == nil)
        #expect(try await store.read(key).outcome == .absent)

        // A conflict changes nothing in the cache.
        #expect(try await store.write([9], to: other, if: .absent).outcome == .conflict(second))
        #expect(store.remembered(other) == .found(second))
    }

    @Test("An absent key is cached until it is written or another connection commits")
    func absence() async throws {
        let (key, other) = (try EntryKey("a/b"), try EntryKey("a/c"))
        _ = try await written([1], EntryKey("x"), by: store)
        #expect(store.remembered(key) == nil)
        for key in [key, other] {
            #expect(try await store.read(key).outcome == .absent)
            #expect(store.remembered(key) == .absent)
        }
        let entry = try await written([2], key, by: store)
        #expect(store.remembered(key) == .found(entry))
        #expect(store.remembered(other) == .absent)
        _ = try await written([3], other, by: SQLiteBackend(path: path))
        #expect(store.remembered(other) == nil)
    }

    @Test("Any commit of another connection drops the cache")
    func forgetting() async throws {
        let key = try EntryKey("a/b")
        let first = try await written([1], key, by: store)
        _ = try await store.read(key)
        #expect(store.remembered(key) == .found(first))

        let other = SQLiteBackend(path: path)
        _ = try await written([1], EntryKey("x"), by: other)
        #expect(store.remembered(key) == nil)
        #expect(try await store.read(key, unless: first.version).outcome == .unchanged)
        // The version is cached again, but the value was not read.
        #expect(store.remembered(key, unless: first.version) == .unchanged)
        #expect(store.remembered(key) == nil)

        let second = try await written([2], key, by: other)
        #expect(store.remembered(key, unless: first.version) == nil)
        #expect(try await store.read(key).outcome == .found(second))
        #expect(store.remembered(key) == .found(second))

        // The WAL restarts. The content of the store is the same, but the header of its index is not.
        let busy = try ForeignConnection(path: path).number("PRAGMA wal_checkpoint(TRUNCATE)")
        #expect(busy == 0)
        #expect(store.remembered(key) == nil)
        #expect(try await store.read(key).outcome == .found(second))
    }

    @Test("A cached entry is never older than the last acknowledged write of another process, even one that was killed")
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
                // The second read is served from the cache if nothing was committed meanwhile.
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
        #expect(store.remembered(key) != nil)
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
        let rememberedCount = Mutex(0)

        init(keyCount: Int) {
            acknowledged = Mutex(Array(repeating: 0, count: keyCount))
            writerCount = Mutex(keyCount)
        }
    }

    @Test("A cached entry is never older than a write acknowledged before the read, by either of two objects")
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
        #expect(progress.rememberedCount.withLock { $0 } > 0, "the cache was never used, so the test shows nothing")
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
            if store.remembered(keys[index]) != nil { progress.rememberedCount.withLock { $0 += 1 } }
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

    @Test("The cache stays within its size and has no large values")
    func bounded() async throws {
        let store = SQLiteBackend(path: path, cachedByteCount: 64 << 10)
        let large = try await written([UInt8](repeating: 7, count: 8 << 10), EntryKey("large"), by: store)
        for number in 0..<500 {
            let key = try EntryKey("key/\(number)")
            let entry = try await written([UInt8](repeating: 1, count: 300), key, by: store)
            #expect(try await store.read(key).outcome == .found(entry))
            #expect(store.rememberedByteCount <= 64 << 10)
        }
        #expect(store.rememberedByteCount > 16 << 10)
        #expect(store.remembered(try EntryKey("key/0")) == nil)
        #expect(store.remembered(try EntryKey("key/499")) != nil)
        #expect(try await store.read(EntryKey("large")).outcome == .found(large))
        #expect(store.remembered(try EntryKey("large")) == nil)
        #expect(store.remembered(try EntryKey("large"), unless: large.version) == .unchanged)
    }

    @Test("A cache size of 0 disables the cache")
    func off() async throws {
        let store = SQLiteBackend(path: path, cachedByteCount: 0)
        let key = try EntryKey("k")
        let entry = try await written([1], key, by: store)
        #expect(try await store.read(key).outcome == .found(entry))
        #expect(store.remembered(key) == nil)
    }

    @Test("A replaced file is read again")
    func replaced() async throws {
        let key = try EntryKey("k")
        _ = try await written([1], key, by: store)
        _ = try await store.read(key)
        #expect(store.remembered(key) != nil)
        let replacement = SQLiteBackend(path: folder.path(of: "other.sqlite"))
        let entry = try await written([2], key, by: replacement)
        try ForeignConnection(path: folder.path(of: "other.sqlite")).execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for suffix in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: path + suffix) }
        #expect(rename(folder.path(of: "other.sqlite"), path) == 0)
        #expect(store.remembered(key) == nil)
        #expect(try await store.read(key).outcome == .found(entry))
    }
}
