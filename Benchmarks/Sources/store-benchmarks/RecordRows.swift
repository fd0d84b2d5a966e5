import BenchmarkSupport
import EntitlementSync
import Entitlements
import FileStorage
import SQLiteStorage
import SyncCore

/// Measures `EntitlementStore.record` against one bare durable write of the same bytes.
struct RecordRows {
    let folder: String

    private static let roundCount = 31
    /// The measured purchases of an account. Each round has an account of its own, so that ledgers stay small.
    private static let recordCount = 5

    func measure(with stopwatch: Stopwatch) async -> [Measurement] {
        do {
            var measurements: [Measurement] = []
            for purchaseCount in [10, 100] {
                measurements += try await rows(stopwatch, purchaseCount)
            }
            return measurements
        } catch { exitWithFailure("\(error)") }
    }

    private func rows(_ stopwatch: Stopwatch, _ purchaseCount: Int) async throws -> [Measurement] {
        let catalog = try Catalog(
            json: Array(
                """
                {"products":[{"id":"com.example.month","type":"nonRenewing","group":"owls","duration":"P1M"}],
                 "entitlements":[{"id":"owls","grantedBy":["group:owls"]}]}
                """.utf8))
        let folder = "\(folder)/record-\(purchaseCount)"
        let files = PlainFiles(folder: folder + "-plain")
        let table = PlainSQLite(path: folder + "-plain.sqlite")
        table.fill([Array("ledger".utf8)], value: [])
        let subject = Subject(catalog: catalog, purchaseCount: purchaseCount)
        let sizes = try await subject.sizes()
        return [
            try await measure(subject, "files", FileBackend.file(folder), sizes, stopwatch) { files.write($0, to: 0) },
            try await measure(subject, "SQLite", SQLiteBackend.sqlite(folder + ".sqlite"), sizes, stopwatch) {
                table.write($0, to: 0)
            },
        ]
    }

    private func measure(
        _ subject: Subject, _ name: String, _ local: any KeyValueBackend, _ sizes: [Int], _ stopwatch: Stopwatch,
        bare write: ([UInt8]) -> UInt64
    ) async throws -> Measurement {
        var stopwatch = stopwatch
        stopwatch.rounds = Self.roundCount
        var stores: [EntitlementStore] = []
        for account in 0...Self.roundCount { stores.append(try await subject.store("bench \(account)", local)) }
        return await stopwatch.measure(
            "record on \(name), \(subject.purchaseCount) purchases", size: sizes[0], count: Self.recordCount
        ) { number in
            write([UInt8](repeating: 0x5A, count: sizes[number % Self.recordCount]))
        } subject: { number in
            do { try await Subject.record(number, in: stores[number / Self.recordCount]) } catch {
                exitWithFailure("\(error)")
            }
            return 1
        }
    }

    private struct Subject {
        let catalog: Catalog
        /// The purchases of an account before the measurement.
        let purchaseCount: Int

        /// An account with ``purchaseCount`` purchases.
        func store(_ account: String, _ local: any KeyValueBackend) async throws -> EntitlementStore {
            let store = try await EntitlementStore(
                catalog: catalog, local: local, remote: nil, account: Account(account))
            try await store.record(
                (0..<purchaseCount).map {
                    .reported("com.example.month", transaction: TransactionID("earlier \($0)"))
                })
            return store
        }

        static func record(_ number: Int, in store: EntitlementStore) async throws {
            try await store.record(.reported("com.example.month", transaction: TransactionID("measured \(number)")))
        }

        /// The size in bytes of the ledger document after each measured record.
        func sizes() async throws -> [Int] {
            let memory = MemoryBackend()
            let store = try await store("bench", memory)
            let key = try EntryKey("accounts/bench/\(Account.initialIncarnation)/ledger")
            var sizes: [Int] = []
            for number in 0..<RecordRows.recordCount {
                try await Self.record(number, in: store)
                guard case .found(let entry) = try await memory.read(key).outcome else {
                    exitWithFailure("there is no ledger under \(key)")
                }
                sizes.append(entry.value.count)
            }
            return sizes
        }
    }
}
