import Foundation
import SQLiteRecovery
import SQLiteStorage
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

/// SQLite itself reads a WAL up to the first damaged frame and uses the result as the latest state.
@Suite("An SQLite store with a damaged log")
struct SQLiteLogDamageTests {
    private let folder: TemporaryFolder
    /// The files of a store in use, as a killed process leaves them: the database, and a WAL with all writes.
    private let database: Data
    private let log: Data
    /// The content of the store after each commit, beginning with the empty store.
    private let states: [[EntryKey: [UInt8]]]

    private static let frameByteCount = 24 + 4_096

    init() async throws {
        folder = try TemporaryFolder()
        let path = folder.path(of: "store")
        let store = SQLiteBackend(path: path)
        var states: [[EntryKey: [UInt8]]] = [[:]]
        for number in 0..<24 {
            let key = try EntryKey("accounts/\(number % 12)/ledger")
            var state = states[number]
            if number == 19 {
                _ = try await store.delete(key, if: .any)
                state[key] = nil
            } else {
                // Some values are on overflow pages.
                let value = [UInt8](repeating: UInt8(number), count: number % 8 == 0 ? 6_000 : 40 * number)
                _ = try await store.write(value, to: key, if: .any)
                state[key] = value
            }
            states.append(state)
        }
        database = try Data(contentsOf: URL(fileURLWithPath: path))
        log = try Data(contentsOf: URL(fileURLWithPath: path + "-wal"))
        self.states = states
    }

    private func store(_ database: Data, _ log: Data) throws -> SQLiteBackend {
        let path = try folder.freshFolder() + "/s"
        try database.write(to: URL(fileURLWithPath: path))
        try log.write(to: URL(fileURLWithPath: path + "-wal"))
        return SQLiteBackend(path: path)
    }

    /// The frames that end a transaction.
    private func commitFrames() -> [Int] {
        (0..<((log.count - 32) / Self.frameByteCount)).filter { number in
            let start = 32 + number * Self.frameByteCount + 4
            return log[start..<(start + 4)].contains { $0 != 0 }
        }
    }

    private func log(flipping offset: Int, bit: Int) -> Data {
        var damaged = log
        damaged[offset] ^= 1 << UInt8(bit)
        return damaged
    }

    /// Reads every key; `nil` if a read throws, which must be due to damage.
    private func content(of store: SQLiteBackend, _ what: String) async -> [EntryKey: [UInt8]]? {
        var content: [EntryKey: [UInt8]] = [:]
        for key in Set(states.flatMap(\.keys)).sorted() {
            do throws(BackendError) {
                if case .found(let entry) = try await store.read(key).outcome { content[key] = entry.value }
            } catch {
                #expect(error.kind == .damaged && error.key == key, "\(what): \(error)")
                let (message, parts) = (error.message, ["-wal: byte ", "-wal has writes"])
                #expect(parts.contains { message.contains($0) }, "\(what): \(error)")
                return nil
            }
        }
        return content
    }

    /// Recovers the store and returns the number of recovered entries. Only current entries may be recovered.
    private func recoveredCount(_ store: SQLiteBackend, _ what: String) async throws -> Int {
        let present = try #require(states.last)
        let path = try folder.freshFolder() + "/recovered"
        let report = try await store.recover(to: path)
        let recovered = SQLiteBackend(path: path)
        for item in try await recovered.list(prefix: "", after: nil, limit: .max).outcome.items {
            guard case .found(let entry) = try await recovered.read(item.key).outcome else { continue }
            #expect(entry.value == present[item.key], "\(what): \(item.key) was recovered with an outdated value")
        }
        return report.recoveredCount
    }

    @Test("A flipped bit in any region of any frame before the last commit is detected")
    func frames() async throws {
        let seed = printedSeed("frames of a log")
        var generator = SeededGenerator(seed: seed)
        let commits = commitFrames()
        #expect(commits.count >= states.count - 1)
        let last = try #require(commits.dropLast().last)
        let regions = [0..<4, 4..<8, 8..<16, 16..<24, 24..<32, 32..<64, 64..<Self.frameByteCount]
        var (detectedCount, fewest) = (0, Int.max)
        for number in 0...last {
            let region = regions[number % regions.count]
            let offset = 32 + number * Self.frameByteCount + Int.random(in: region, using: &generator)
            let bit = Int.random(in: 0..<8, using: &generator)
            let what = "seed \(seed), frame \(number), region \(region), byte \(offset), bit \(bit)"
            let damaged = try store(database, log(flipping: offset, bit: bit))
            #expect(await content(of: damaged, what) == nil, "\(what): not detected")
            detectedCount += 1
            if number % 10 == 0 {
                await expectKind(.damaged) { try await damaged.write([1], to: EntryKey("new"), if: .any) }
                await expectKind(.damaged) { try await damaged.list(prefix: "", after: nil, limit: 9) }
            }
            if number % 6 == 0 { fewest = min(fewest, try await recoveredCount(damaged, what)) }
        }
        let count = try #require(states.last).count
        print("log: \(detectedCount) damaged frames detected, fewest recovered \(fewest) of \(count)")
        #expect(fewest >= count - 1)
    }

    @Test("A flipped bit in the header of the log is detected, and recovery restores everything")
    func header() async throws {
        let seed = printedSeed("header of a log")
        var generator = SeededGenerator(seed: seed)
        let present = try #require(states.last)
        for offset in 0..<32 {
            let bit = Int.random(in: 0..<8, using: &generator)
            let what = "seed \(seed), byte \(offset), bit \(bit)"
            let damaged = try store(database, log(flipping: offset, bit: bit))
            #expect(await content(of: damaged, what) == nil, "\(what): not detected")
            if offset % 4 == 0 { #expect(try await recoveredCount(damaged, what) == present.count, "\(what)") }
        }
    }

    @Test("The check detects a damaged log and leaves it unchanged")
    func check() async throws {
        let damaged = log(flipping: 32 + 12 * Self.frameByteCount + 100, bit: 3)
        let path = try folder.freshFolder() + "/s"
        try database.write(to: URL(fileURLWithPath: path))
        try damaged.write(to: URL(fileURLWithPath: path + "-wal"))
        let error = await expectKind(.damaged) { try await SQLiteBackend(path: path).integrityCheck() }
        #expect(
            error?.message.hasPrefix("\(path)-wal: byte \(32 + 12 * Self.frameByteCount): the log is damaged") == true)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == database)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path + "-wal")) == damaged)
    }

    @Test(
        "A truncated log, or damage in its last commit, yields the state of an earlier commit, as after a crash")
    func ends() async throws {
        let frames = (log.count - 32) / Self.frameByteCount
        var lengths = [0, 1, 31, 32, 33]
        for number in stride(from: 0, through: frames, by: 6) {
            lengths += [0, 1, 23, 2_000, 4_119].map { 32 + number * Self.frameByteCount + $0 }
        }
        for length in lengths where length <= log.count {
            let content = try #require(await content(of: store(database, log.prefix(length)), "\(length) bytes"))
            #expect(states.contains(content), "\(length) bytes: not a previous state of the store")
        }
        let first = try #require(commitFrames().dropLast().last) + 1
        for number in first..<frames {
            let damaged = log(flipping: 32 + number * Self.frameByteCount + 1_000, bit: 1)
            let content = try #require(await content(of: store(database, damaged), "frame \(number)"))
            #expect(content == states[states.count - 2])
        }
    }

    @Test("A store whose file was emptied is not an empty store if its log exists")
    func emptied() async throws {
        let damaged = try store(Data(), log)
        #expect(await content(of: damaged, "emptied") == nil)
        await expectKind(.damaged) { try await damaged.write([1], to: EntryKey("new"), if: .any) }
        #expect(try await recoveredCount(damaged, "emptied") == states.last?.count)
    }

    @Test("A log that was restarted over an old one, or emptied by a checkpoint, is not damage")
    func restarted() async throws {
        let path = try folder.freshFolder() + "/s"
        let store = SQLiteBackend(path: path)
        for number in 0..<40 { _ = try await store.write([UInt8(number)], to: EntryKey("k"), if: .any) }
        // Another connection checkpoints, so that the next write restarts the log.
        try ForeignConnection(path: path).execute("PRAGMA wal_checkpoint(FULL)")
        for number in 0..<5 {
            _ = try await store.write([UInt8(100 + number)], to: EntryKey("k"), if: .any)
            let copy = try folder.freshFolder() + "/s"
            for suffix in ["", "-wal"] {
                try FileManager.default.copyItem(atPath: path + suffix, toPath: copy + suffix)
            }
            guard case .found(let entry) = try await SQLiteBackend(path: copy).read(EntryKey("k")).outcome else {
                Issue.record("missing")
                return
            }
            #expect(entry.value == [UInt8(100 + number)])
        }
        try ForeignConnection(path: path).execute("PRAGMA wal_checkpoint(TRUNCATE)")
        #expect(try await SQLiteBackend(path: path).read(EntryKey("k")).outcome != .absent)
    }

    @Test("A last transaction that a power cut left without some frames, over an older log, is not damage")
    func tornOverOldLog() async throws {
        let path = try folder.freshFolder() + "/s"
        let store = SQLiteBackend(path: path)
        for number in 0..<60 { _ = try await store.write([UInt8(number)], to: EntryKey("k"), if: .any) }
        let old = try Data(contentsOf: URL(fileURLWithPath: path + "-wal"))
        try ForeignConnection(path: path).execute("PRAGMA wal_checkpoint(FULL)")
        // Several frames each: new pages, overflow pages and changes.
        for number in 0..<12 {
            _ = try await store.write([UInt8](repeating: 1, count: 6_000), to: EntryKey("n/\(number)"), if: .absent)
        }
        let database = try Data(contentsOf: URL(fileURLWithPath: path))
        let new = try Data(contentsOf: URL(fileURLWithPath: path + "-wal"))
        #expect(new.count == old.count, "the new log overwrites the old one")
        let ranges = (0..<((new.count - 32) / Self.frameByteCount)).map { number in
            (32 + number * Self.frameByteCount)..<(32 + (number + 1) * Self.frameByteCount)
        }
        let written = ranges.prefix { new[$0][($0.lowerBound + 8)...].prefix(8) == new[16..<24] }
        var (start, transactions) = (0, [Range<Int>]())
        for (number, range) in written.enumerated()
        where new[(range.lowerBound + 4)..<(range.lowerBound + 8)].contains(where: { $0 != 0 }) {
            transactions.append(start..<(number + 1))
            start = number + 1
        }
        #expect(transactions.count == 12 && transactions.contains { $0.count >= 3 })
        for (number, transaction) in transactions.enumerated() {
            for lost in transaction.dropLast() {
                // The state after the power cut: the earlier transactions, all but one frame of the last one, and the
                // old log.
                var torn = new[..<ranges[transaction.upperBound - 1].upperBound]
                torn += old[ranges[transaction.upperBound - 1].upperBound...]
                torn.replaceSubrange(ranges[lost], with: old[ranges[lost]])
                let found = try self.store(database, torn)
                #expect(try await found.read(EntryKey("n/\(number)")).outcome == .absent)
                guard number > 0 else { continue }
                #expect(try await found.read(EntryKey("n/\(number - 1)")).outcome != .absent)
            }
        }
    }

    @Test("A damaged log is found through a symbolic link too, and its content can be recovered")
    func throughLink() async throws {
        let place = try store(database, log(flipping: 32 + 3 * Self.frameByteCount + 100, bit: 1))
        let target = String(place.label.dropFirst("sqlite:".count))
        let link = try folder.freshFolder() + "/link"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: target)
        let store = SQLiteBackend(path: link)
        let error = await expectKind(.damaged) { try await store.read(EntryKey("accounts/0/ledger")) }
        #expect(error?.message.contains("-wal: byte ") == true)
        let direct = try await place.recover(to: try folder.freshFolder() + "/direct")
        let linked = try await store.recover(to: try folder.freshFolder() + "/linked")
        #expect(linked == direct && linked.recoveredCount > 0)
    }
}
