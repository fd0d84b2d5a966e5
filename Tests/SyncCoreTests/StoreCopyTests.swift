import FileStorage
import Foundation
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Copying a store")
struct StoreCopyTests {
    /// Writes `count` entries with keys of various lengths and values of 0 to 299 bytes. Returns the entries.
    private func fill(_ store: some KeyValueBackend, _ count: Int, seed: UInt64) async throws -> [EntryKey: [UInt8]] {
        var generator = SeededGenerator(seed: seed)
        var values: [EntryKey: [UInt8]] = [:]
        for number in 0..<count {
            let key = try EntryKey("k\(number % 7)/" + String(repeating: "ö", count: number % 11) + "\(number)")
            values[key] = (0..<Int(generator.next() % 300)).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
            _ = try await store.write(values[key] ?? [], to: key, if: .absent)
        }
        return values
    }

    private func content(of store: some KeyValueBackend) async throws -> [EntryKey: [UInt8]] {
        var values: [EntryKey: [UInt8]] = [:]
        var cursor: EntryKey?
        repeat {
            let page = try await store.list(prefix: "", after: cursor, limit: 50).outcome
            for item in page.items {
                if case .found(let entry) = try await store.read(item.key).outcome { values[item.key] = entry.value }
            }
            cursor = page.next
        } while cursor != nil
        return values
    }

    @Test("Copying from memory to files and back preserves every byte")
    func everything() async throws {
        let (source, folder) = (MemoryBackend(), try TemporaryFolder())
        let values = try await fill(source, 450, seed: printedSeed("StoreCopyTests"))
        let files = FileBackend(folder: folder.path(of: "store"))
        let report = try await StoreCopy(from: source, to: files).run()
        #expect(report.copiedCount == 450 && report.presentCount == 0 && report.damage.isEmpty)
        #expect(report.byteCount == values.values.reduce(0) { $0 + $1.count })
        let back = MemoryBackend()
        _ = try await StoreCopy(from: files, to: back).run()
        #expect(try await content(of: back) == values)
        let survey = try await StoreSurvey.of(files)
        #expect(survey.wholeCount == 450 && survey.byteCount == report.byteCount && survey.damage.isEmpty)
        #expect(try await StoreSurvey.of(files, prefix: "k3/").wholeCount == 64)
    }

    @Test("A copy that is interrupted at any call continues and skips the entries that it has written")
    func interrupted() async throws {
        let source = MemoryBackend()
        let values = try await fill(source, 350, seed: printedSeed("StoreCopyTests interrupted"))
        let target = MemoryBackend()
        var attempts = 0
        var presentCount = 0
        // Each attempt may make two calls more than the previous one.
        while true {
            attempts += 1
            let allowed = 2 * attempts
            let counter = Counter()
            let failing = FaultyBackend(target) { _ in counter.next() > allowed ? .permanent(.full) : nil }
            do throws(BackendError) {
                presentCount = try await StoreCopy(from: source, to: failing).run().presentCount
                break
            } catch {
                #expect(error.kind == .full)
            }
        }
        #expect(attempts > 2 && presentCount > 0)
        #expect(try await content(of: target) == values)
    }

    @Test("Different values in the target are kept, and their keys are reported")
    func different() async throws {
        let (source, target) = (MemoryBackend(), MemoryBackend())
        for name in ["a", "b", "c"] { _ = try await source.write([1], to: EntryKey(name), if: .any) }
        _ = try await target.write([1], to: EntryKey("a"), if: .any)
        _ = try await target.write([2], to: EntryKey("b"), if: .any)
        let report = try await StoreCopy(from: source, to: target).run()
        #expect(report.copiedCount == 1 && report.presentCount == 1)
        #expect(report.differingKeys.map(\.text) == ["b"])
        #expect(try await content(of: target)[EntryKey("b")] == [2])
        let unconditional = UnconditionalBackend(MemoryBackend())
        #expect(try await StoreCopy(from: source, to: unconditional).run().copiedCount == 3)
    }

    @Test("Entries with a damaged header or value are reported, and all others are copied")
    func damaged() async throws {
        let folder = try TemporaryFolder()
        let root = folder.path(of: "store")
        let files = FileBackend(folder: root)
        for number in 100..<350 { _ = try await files.write([1, 2, 3], to: EntryKey("k\(number)"), if: .any) }
        // A positive offset is in the header; -1 is the last byte of the value.
        let broken = [("k100", 3), ("k101", 3), ("k250", -1), ("k349", 3)]
        for (name, offset) in broken {
            let names = try FileManager.default.contentsOfDirectory(atPath: root).filter { $0.contains(name) }
            let path = try #require(names.count == 1 ? "\(root)/\(names[0])" : nil)
            var bytes = try Data(contentsOf: URL(filePath: path))
            bytes[offset < 0 ? bytes.count + offset : offset] ^= 0x40
            try bytes.write(to: URL(filePath: path))
        }
        let survey = try await StoreSurvey.of(FileBackend(folder: root))
        #expect(survey.wholeCount == 246)
        #expect(survey.damage.compactMap { $0.key?.text }.sorted() == broken.map(\.0))
        let target = MemoryBackend()
        await #expect(throws: BackendError.self) { try await StoreCopy(from: files, to: target).run() }
        let report = try await StoreCopy(from: files, to: target, skippingDamage: true).run()
        #expect(report.damage.count == 4 && report.copiedCount + report.presentCount == 246)
        #expect(try await content(of: target).count == 246)
    }

    @Test("An unreadable store is an error and not treated as one with damaged entries")
    func unreadable() async throws {
        let source = MemoryBackend()
        _ = try await source.write([1], to: EntryKey("a"), if: .any)
        for fault in [FaultyBackend.Fault.transient, .permanent(.unavailable)] {
            let failing = FaultyBackend(source) { _ in fault }
            await #expect(throws: BackendError.self) { try await StoreSurvey.of(failing) }
            await #expect(throws: BackendError.self) {
                try await StoreCopy(from: failing, to: MemoryBackend(), skippingDamage: true).run()
            }
        }
    }
}

/// A counter that concurrent calls share.
private final class Counter: @unchecked Sendable {
    private let lock = NSLock()
    private var count = 0

    func next() -> Int {
        lock.withLock {
            count += 1
            return count
        }
    }
}
