import BenchmarkSupport
import FileStorage
import SyncCore

/// Measures `FileBackend` against bare system calls, and those against the disk.
struct FileRows {
    let folder: String

    private static let keyCount = 100

    private let value = [UInt8](repeating: 0x5A, count: StoreBenchmarks.valueByteCount)

    func measure(with stopwatch: Stopwatch) async -> [Measurement] {
        do { return try await rows(stopwatch) } catch { exitWithFailure("\(error)") }
    }

    private func rows(_ stopwatch: Stopwatch) async throws -> [Measurement] {
        var stopwatch = stopwatch
        let keys = try (0..<Self.keyCount).map { try EntryKey("account-\($0)") }
        let plain = PlainFiles(folder: folder + "/plain")
        let disk = PlainDisk(path: folder + "/disk")
        let store = FileBackend.file(folder + "/store")
        for (number, key) in keys.enumerated() {
            _ = plain.write(value, to: number)
            _ = try await store.write(value, to: key, if: .any)
        }
        var measurements = [
            await measureWrite("file: durable write", to: store, plain, keys, with: &stopwatch),
            await stopwatch.measure("file: read", size: value.count, count: 200) { number in
                plain.read(number % Self.keyCount)
            } subject: { number in
                guard case .found(let entry)? = try? await store.read(keys[number % Self.keyCount]).outcome else {
                    exitWithFailure("a key is not there")
                }
                return UInt64(entry.value.count)
            },
        ]
        // Starts the change log, to which every later write is appended.
        _ = try await store.changes(since: nil, limit: 1)
        measurements.append(
            await measureWrite("file: durable write, changes noted", to: store, plain, keys, with: &stopwatch))
        measurements.append(
            await stopwatch.measure("bare file calls, against one fdatasync", size: value.count, count: 20) { _ in
                disk.write()
            } subject: { number in
                plain.write(value, to: number % Self.keyCount)
            })
        return measurements
    }

    private func measureWrite(
        _ name: String, to store: FileBackend, _ plain: PlainFiles, _ keys: [EntryKey],
        with stopwatch: inout Stopwatch
    ) async -> Measurement {
        await stopwatch.measure(name, size: value.count, count: 20) { number in
            plain.write(value, to: number % Self.keyCount)
        } subject: { number in
            let answer = try? await store.write(value, to: keys[number % Self.keyCount], if: .any).outcome
            guard case .written? = answer else { exitWithFailure("a write failed") }
            return 1
        }
    }
}
