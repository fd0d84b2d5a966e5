import BenchmarkSupport
import SQLiteStorage
import SyncCore

/// Measures the opening time of a large SQLite store and the memory of listing it.
struct LargeStore {
    let folder: String
    let count: Int

    struct Figures {
        var count: Int
        /// The median time of the first read after opening, in nanoseconds.
        var open: Double
        /// The time to list all keys.
        var list: Double
        /// Resident memory in bytes after the first page, and the maximum after any page.
        var memoryAtFirst: Int
        var memoryAtMost: Int
    }

    func measure() async -> Figures {
        do { return try await figures() } catch { exitWithFailure("\(error)") }
    }

    private func figures() async throws -> Figures {
        let path = folder + "/large.sqlite"
        try await fill(path)
        let clock = ContinuousClock()
        var times: [Double] = []
        for round in 0..<21 {
            let key = try key(round * (count / 21))
            let start = clock.now
            let store = SQLiteBackend.sqlite(path)
            guard case .found = try await store.read(key).outcome else { exitWithFailure("\(key) is not there") }
            times.append((clock.now - start).nanoseconds)
        }
        let store = SQLiteBackend.sqlite(path)
        let start = clock.now
        var cursor: EntryKey?
        var listed = 0
        var memory: [Int] = []
        repeat {
            let page = try await store.list(prefix: "", after: cursor, limit: 1_000).outcome
            listed += page.items.count
            cursor = page.next
            memory.append(residentMemory())
        } while cursor != nil
        expect(listed == count, "every key is listed once")
        return Figures(
            count: count, open: times.median, list: (clock.now - start).nanoseconds, memoryAtFirst: memory[0],
            memoryAtMost: memory.max() ?? 0)
    }

    private func key(_ index: Int) throws -> EntryKey { try EntryKey("v1/accounts/account-\(index)/ledger") }

    private func fill(_ path: String) async throws {
        let store = SQLiteBackend.sqlite(path)
        let value = [UInt8](repeating: 0x5A, count: StoreBenchmarks.valueByteCount)
        for start in stride(from: 0, to: count, by: 1_000) {
            let requests = try (start..<min(start + 1_000, count)).map {
                WriteRequest(try key($0), value: value, if: .absent)
            }
            for answer in try await store.write(requests).outcome { _ = try answer.get() }
        }
    }
}
