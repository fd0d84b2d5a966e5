import Foundation
import GRDB
import SQLiteRecovery
import SQLiteStorage
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("A damaged SQLite store")
struct SQLiteDamageTests {
    private let folder: TemporaryFolder
    /// The file of an intact store, without a write-ahead log.
    private let intact: Data
    /// The values in the intact store.
    private let values: [EntryKey: [UInt8]]

    init() async throws {
        folder = try TemporaryFolder()
        let path = folder.path(of: "intact.sqlite")
        let store = SQLiteBackend(path: path)
        var values: [EntryKey: [UInt8]] = [:]
        var requests: [WriteRequest] = []
        for number in 0..<300 {
            let key = try EntryKey("accounts/\(number)/ledger-of-customer")
            // Some values are on overflow pages.
            let value = [UInt8](repeating: UInt8(number % 251), count: number % 50 == 0 ? 9_000 : number)
            values[key] = value
            requests.append(WriteRequest(key, value: value, if: .absent))
        }
        _ = try await store.write(requests)
        try await store.backup(to: folder.path(of: "copy.sqlite"))
        intact = try Data(contentsOf: URL(fileURLWithPath: folder.path(of: "copy.sqlite")))
        self.values = values
    }

    /// Returns a backend for a new store file with these bytes.
    private func store(_ bytes: Data) throws -> SQLiteBackend {
        let path = try folder.freshFolder() + "/s"
        try bytes.write(to: URL(fileURLWithPath: path))
        return SQLiteBackend(path: path)
    }

    /// Checks that every read of `store` returns the right value or throws. Returns the number of successful reads.
    private func checkReads(of store: SQLiteBackend, _ context: String) async throws -> Int {
        var readCount = 0
        for (key, value) in values.sorted(by: { $0.key < $1.key }) {
            do throws(BackendError) {
                switch try await store.read(key).outcome {
                case .found(let entry):
                    #expect(entry.value == value, "\(context): \(key) has a wrong value")
                    readCount += 1
                case .absent: Issue.record("\(context): \(key) is absent")
                case .unchanged: Issue.record("\(context): \(key) is unchanged")
                }
            } catch {
                let kinds: [BackendError.Kind] = [.damaged, .notAStore, .newerFormat, .other]
                #expect(kinds.contains(error.kind) && error.key == key, "\(context): \(error)")
                #expect(error.message.hasPrefix(store.label.dropFirst("sqlite:".count)), "\(context): \(error)")
            }
        }
        return readCount
    }

    /// Recovers `store` and checks that every recovered entry existed before.
    private func recover(_ store: SQLiteBackend, _ context: String) async throws -> RecoveryReport {
        let path = try folder.freshFolder() + "/recovered"
        let report = try await store.recover(to: path)
        let recovered = SQLiteBackend(path: path)
        var count = 0
        for item in try await recovered.list(prefix: "", after: nil, limit: .max).outcome.items {
            guard case .found(let entry) = try await recovered.read(item.key).outcome else { continue }
            #expect(entry.value == values[item.key], "\(context): \(item.key) was recovered with a wrong value")
            count += 1
        }
        #expect(count == report.recoveredCount, "\(context)")
        #expect(try await recovered.integrityCheck().isIntact, "\(context)")
        return report
    }

    @Test("With any bit flipped, reads return right values or throw, and recovery loses at most two entries")
    func flippedBits() async throws {
        let seed = printedSeed("flipped bits")
        var generator = SeededGenerator(seed: seed)
        let pageCount = intact.count / 4_096
        // Fields of the database header, then of the header of the first page.
        var offsets = [0, 5, 18, 19, 21, 24, 28, 40, 44, 56, 60, 63, 68, 71, 100, 101, 103, 105, 108, 110]
        for page in 0..<pageCount {
            // A byte in the page's header or first cell pointers, and one in the rest of the page.
            offsets.append(page * 4_096 + Int.random(in: 0..<10, using: &generator) + (page == 0 ? 100 : 0))
            offsets.append(page * 4_096 + Int.random(in: 12..<4_096, using: &generator))
        }
        var (readable, total, fewest) = (0, 0, Int.max)
        for offset in offsets {
            var bytes = intact
            let bit = UInt8.random(in: 0..<8, using: &generator)
            bytes[offset] ^= 1 << bit
            let context = "seed \(seed), byte \(offset) (page \(offset / 4_096 + 1)), bit \(bit)"
            let store = try store(bytes)
            readable += try await checkReads(of: store, context)
            total += values.count
            // Every eighth damaged store is recovered as well.
            guard total / values.count % 8 == 0 else { continue }
            let report = try await recover(store, context)
            fewest = min(fewest, report.recoveredCount)
        }
        print(
            "flipped bits: \(offsets.count) bytes, \(readable) of \(total) reads succeeded, fewest recovered \(fewest)")
        // A table page has about ten to thirty entries, so recovery does not give up the whole page.
        #expect(fewest >= values.count - 2)
        #expect(readable > total / 2)
    }

    @Test("A damaged value is reported with its key and row, other keys stay readable, and the key can be rewritten")
    func value() async throws {
        let key = try EntryKey("accounts/250/ledger-of-customer")
        var bytes = intact
        let run = Data(repeating: 250, count: 4_000)
        let place = try #require(bytes.range(of: run))
        bytes[place.lowerBound + 17] ^= 4
        let store = try store(bytes)
        let error = await expectKind(.damaged) { try await store.read(key) }
        #expect(error?.key == key && error?.message.contains("table entry, row") == true)
        #expect(try await checkReads(of: store, "a value") == values.count - 1)
        let report = try await store.integrityCheck()
        #expect(report.damagedKeys == [key.text] && report.wholeCount == values.count - 1)
        let recovery = try await recover(store, "a value")
        #expect(recovery.lostKeys == [key.text] && recovery.recoveredCount == values.count - 1)
        _ = try await store.write([1], to: key, if: .any)
        #expect(try await store.integrityCheck().isIntact)
    }

    @Test("Recovery restores the entries in the remaining part of a truncated file", arguments: [1, 4, 8])
    func truncated(eighths: Int) async throws {
        // Eight eighths stand for a file that lacks only its last 100 bytes.
        let store = try store(intact.prefix(intact.count * eighths / 8 - (eighths == 8 ? 100 : 0)))
        _ = try await checkReads(of: store, "\(eighths) eighths")
        let report = try await recover(store, "\(eighths) eighths")
        print("truncated to \(eighths)/8: \(report.recoveredCount) recovered, \(report.lostKeys.count) named as lost")
        #expect(eighths < 8 || report.recoveredCount >= values.count - 40)
    }

    @Test("Recovery restores all entries if only the index or the first page is lost")
    func withoutIndex() async throws {
        let first = intact.prefix(4_096).map { _ in UInt8(0) } + intact.dropFirst(4_096)
        #expect(try await recover(try store(Data(first)), "without the first page").recoveredCount == values.count)
        var bytes = intact
        // Overwrites all index pages, leaf and interior.
        for page in 1..<(intact.count / 4_096) where [0x0A, 0x02].contains(bytes[page * 4_096]) {
            bytes.replaceSubrange((page * 4_096)..<((page + 1) * 4_096), with: Data(repeating: 0xFF, count: 4_096))
        }
        let store = try store(bytes)
        #expect(try await checkReads(of: store, "without index") == values.count)
        await expectKind(.damaged) { try await store.list(prefix: "", after: nil, limit: 9) }
        #expect(try await recover(store, "without index").recoveredCount == values.count)
    }

    @Test("A key that is damaged only in the index or only in the table is not reported as absent")
    func disagreement() async throws {
        let key = try EntryKey("accounts/7/ledger-of-customer")
        var bytes = intact
        // The key is stored in its row and in the index. Each copy is damaged in turn.
        let places = ranges(of: Data(key.text.utf8), in: intact)
        #expect(places.count == 2)
        for place in places {
            bytes = intact
            bytes[place.upperBound - 1] ^= 1
            let store = try store(bytes)
            _ = try await checkReads(of: store, "one copy of the key")
            // A listing reads only the copy in the index.
            let listed = await keys(in: store)
            #expect(listed == nil || listed == values.keys.sorted())
            #expect(try await !store.integrityCheck().isIntact)
        }
    }

    @Test("Recovery restores entries that are only in the write-ahead log, except those of an incomplete transaction")
    func withLog() async throws {
        let path = try folder.freshFolder() + "/s"
        let store = SQLiteBackend(path: path)
        for number in 0..<20 { _ = try await store.write([UInt8(number)], to: EntryKey("k/\(number)"), if: .any) }
        let copy = try folder.freshFolder() + "/s"
        for suffix in ["", "-wal"] { try FileManager.default.copyItem(atPath: path + suffix, toPath: copy + suffix) }
        var database = try Data(contentsOf: URL(fileURLWithPath: copy))
        database[3] ^= 1
        try database.write(to: URL(fileURLWithPath: copy))
        let recovered = try folder.freshFolder() + "/r"
        let report = try await SQLiteBackend(path: copy).recover(to: recovered)
        #expect(report.recoveredCount == 20 && report.lostKeys.isEmpty)
        // The last frame of the last transaction is damaged, so SQLite and the recovery ignore the transaction.
        var log = try Data(contentsOf: URL(fileURLWithPath: copy + "-wal"))
        log[log.count - 100] ^= 1
        try log.write(to: URL(fileURLWithPath: copy + "-wal"))
        let second = try await SQLiteBackend(path: copy).recover(to: try folder.freshFolder() + "/r")
        #expect(second.recoveredCount == 19)
    }

    @Test("Backup and recovery write only to new files")
    func newFilesOnly() async throws {
        let store = try store(intact)
        let existing = folder.path(of: "copy.sqlite")
        await expectKind(.unsupported) { try await store.backup(to: existing) }
        await expectKind(.unsupported) { try await store.recover(to: existing) }
        await expectKind(.missing) { try await store.backup(to: folder.path(of: "none/copy")) }
        #expect(try Data(contentsOf: URL(fileURLWithPath: existing)) == intact)
        let missing = SQLiteBackend(path: folder.path(of: "nothing"))
        await expectKind(.missing) { try await missing.backup(to: folder.path(of: "x")) }
        await expectKind(.missing) { try await missing.recover(to: folder.path(of: "x")) }
    }

    /// Returns the listed keys; `nil` if the listing throws.
    private func keys(in store: SQLiteBackend) async -> [EntryKey]? {
        do {
            return try await store.list(prefix: "", after: nil, limit: .max).outcome.items.map(\.key)
        } catch {
            #expect(error.kind == .damaged)
            return nil
        }
    }

    private func ranges(of needle: Data, in data: Data) -> [Range<Int>] {
        var ranges: [Range<Int>] = []
        var start = data.startIndex
        while let range = data.range(of: needle, in: start..<data.endIndex) {
            ranges.append(range)
            start = range.upperBound
        }
        return ranges
    }
}
