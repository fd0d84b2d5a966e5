import BenchmarkSupport
import EntitlementSync
import Entitlements
import FileStorage
import SQLiteStorage
import SyncCore

/// Measures `EntitlementStore.record` against one bare durable write of the same bytes.
struct RecordRows {
    let folder: String

    /// The purchases before the measurement. Each measured purchase adds one.
    private static let purchaseCount = 100
    private static let roundCount = 31
    private static let recordsPerRound = 5

    func measure(with stopwatch: Stopwatch) async -> [Measurement] {
        do { return try await rows(stopwatch) } catch { exitWithFailure("\(error)") }
    }

    private func rows(_ stopwatch: Stopwatch) async throws -> [Measurement] {
        let catalog = try Catalog(
            json: Array(
                """
                {"products":[{"id":"com.example.month","type":"nonRenewing","group":"owls","duration":"P1M"}],
                 "entitlements":[{"id":"owls","grantedBy":["group:owls"]}]}
                """.utf8))
        let sizes = try await sizes(catalog)
        let files = PlainFiles(folder: folder + "/record-plain")
        let table = PlainSQLite(path: folder + "/record-plain.sqlite")
        table.fill([Array("ledger".utf8)], value: [])
        let inFiles = try await store(catalog, FileBackend.file(folder + "/record-store"))
        let inSQLite = try await store(catalog, SQLiteBackend.sqlite(folder + "/record-store.sqlite"))
        return [
            await measure("record on files", inFiles, sizes, stopwatch) { files.write($0, to: 0) },
            await measure("record on SQLite", inSQLite, sizes, stopwatch) { table.write($0, to: 0) },
        ]
    }

    private func measure(
        _ name: String, _ store: EntitlementStore, _ sizes: [Int], _ stopwatch: Stopwatch,
        bare write: ([UInt8]) -> UInt64
    ) async -> Measurement {
        var stopwatch = stopwatch
        stopwatch.rounds = Self.roundCount
        return await stopwatch.measure(name, size: sizes[sizes.count - 1], count: Self.recordsPerRound) { number in
            write([UInt8](repeating: 0x5A, count: sizes[number]))
        } subject: { number in
            do { try await record(number, in: store) } catch { exitWithFailure("\(error)") }
            return 1
        }
    }

    private func record(_ number: Int, in store: EntitlementStore) async throws {
        try await store.record(.reported("com.example.month", transaction: TransactionID("measured \(number)")))
    }

    /// A store with ``purchaseCount`` purchases.
    private func store(_ catalog: Catalog, _ local: any KeyValueBackend) async throws -> EntitlementStore {
        let store = try await EntitlementStore(catalog: catalog, local: local, remote: nil, account: Account("bench"))
        try await store.record(
            (0..<Self.purchaseCount).map { .reported("com.example.month", transaction: TransactionID("earlier \($0)")) }
        )
        return store
    }

    /// The size in bytes of the ledger document after each measured record.
    private func sizes(_ catalog: Catalog) async throws -> [Int] {
        let memory = MemoryBackend()
        let store = try await store(catalog, memory)
        let key = try EntryKey("accounts/bench/1/ledger")
        var sizes: [Int] = []
        for number in 0..<((Self.roundCount + 1) * Self.recordsPerRound) {
            try await record(number, in: store)
            guard case .found(let entry) = try await memory.read(key).outcome else {
                exitWithFailure("there is no ledger under \(key)")
            }
            sizes.append(entry.value.count)
        }
        return sizes
    }
}
