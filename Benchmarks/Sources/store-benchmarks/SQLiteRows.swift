import BenchmarkSupport
import SQLiteStorage
import SyncCore

/// Measures `SQLiteBackend` against the same statements through the C API of SQLite.
struct SQLiteRows {
    let folder: String

    private static let keyCount = 10_000
    private static let writerCount = 16

    private let value = [UInt8](repeating: 0x5A, count: StoreBenchmarks.valueByteCount)

    func measure(with stopwatch: Stopwatch) async -> [Measurement] {
        do { return try await rows(stopwatch) } catch { exitWithFailure("\(error)") }
    }

    private func rows(_ stopwatch: Stopwatch) async throws -> [Measurement] {
        var stopwatch = stopwatch
        let keys = try (0..<Self.keyCount).map { try EntryKey("v1/accounts/account-\($0)/ledger") }
        let plain = PlainSQLite(path: folder + "/plain.sqlite")
        plain.fill(keys.map { Array($0.text.utf8) }, value: value)
        let store = SQLiteBackend.sqlite(folder + "/store.sqlite")
        var versions: [EntryVersion] = []
        for start in stride(from: 0, to: keys.count, by: 1_000) {
            let requests = keys[start..<(start + 1_000)].map { WriteRequest($0, value: value, if: .absent) }
            for answer in try await store.write(requests).outcome {
                guard case .written(let version) = try answer.get() else { exitWithFailure("a key was there before") }
                versions.append(version)
            }
        }
        return [
            await measureRead(of: store, plain, keys, with: &stopwatch),
            await measureUnchanged(in: store, plain, keys, versions, with: &stopwatch),
            await measureWrite(to: store, plain, keys, &versions, with: &stopwatch),
            await measureWriters(to: store, keys, with: &stopwatch),
        ]
    }

    /// Visits all keys in an order without locality.
    private func pick(_ number: Int) -> Int { number * 7_919 % Self.keyCount }

    private func measureRead(
        of store: SQLiteBackend, _ plain: PlainSQLite, _ keys: [EntryKey], with stopwatch: inout Stopwatch
    ) async -> Measurement {
        await stopwatch.measure("SQLite: read", size: value.count, count: 500) { number in
            plain.read(pick(number))
        } subject: { number in
            guard case .found(let entry)? = try? await store.read(keys[pick(number)]).outcome else {
                exitWithFailure("a key is not there")
            }
            return UInt64(entry.value.count)
        }
    }

    private func measureUnchanged(
        in store: SQLiteBackend, _ plain: PlainSQLite, _ keys: [EntryKey], _ versions: [EntryVersion],
        with stopwatch: inout Stopwatch
    ) async -> Measurement {
        await stopwatch.measure("SQLite: read, unchanged", size: 0, count: 500) { number in
            plain.read(pick(number))
        } subject: { number in
            let index = pick(number)
            guard case .unchanged? = try? await store.read(keys[index], unless: versions[index]).outcome else {
                exitWithFailure("a key has changed")
            }
            return 1
        }
    }

    private func measureWrite(
        to store: SQLiteBackend, _ plain: PlainSQLite, _ keys: [EntryKey], _ versions: inout [EntryVersion],
        with stopwatch: inout Stopwatch
    ) async -> Measurement {
        var known = versions
        defer { versions = known }
        return await stopwatch.measure("SQLite: durable conditional write", size: value.count, count: 20) { number in
            plain.write(value, to: pick(number))
        } subject: { number in
            let index = pick(number)
            let answer = try? await store.write(value, to: keys[index], if: .matches(known[index])).outcome
            guard case .written(let version)? = answer else { exitWithFailure("a precondition failed") }
            known[index] = version
            return 1
        }
    }

    /// Measures concurrent writers with one write each against sequential writes.
    private func measureWriters(
        to store: SQLiteBackend, _ keys: [EntryKey], with stopwatch: inout Stopwatch
    ) async -> Measurement {
        let write: @Sendable (Int) async -> UInt64 = { [value] index in
            guard case .written? = try? await store.write(value, to: keys[index], if: .any).outcome else {
                exitWithFailure("a write failed")
            }
            return 1
        }
        stopwatch.rounds = 31
        return await stopwatch.measure(
            "SQLite: \(Self.writerCount) durable writers", size: value.count, count: 1
        ) { round in
            for index in 0..<(Self.writerCount * 8) { _ = await write(index) }
            return UInt64(round)
        } subject: { round in
            await withTaskGroup(of: Void.self) { group in
                for writer in 0..<Self.writerCount {
                    group.addTask { for index in 0..<8 { _ = await write(writer * 8 + index) } }
                }
            }
            return UInt64(round)
        }
    }
}
