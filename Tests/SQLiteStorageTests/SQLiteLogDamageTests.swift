import Foundation
import SQLiteStorage
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

/// SQLite itself reads a log up to the first frame that is wrong, and takes what it has read for the latest state.
@Suite("A SQLite store whose log is damaged")
struct SQLiteLogDamageTests {
    private let folder: TemporaryFolder
    /// The files of a store in use, as a killed process leaves them: the database, and a log of all that was written.
    private let database: Data
    private let log: Data
    /// What the store held after each commit, the empty store first.
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
                // Some on overflow pages.
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

    /// Reads every key; `nil` where one read ends with an error, which has to be about damage.
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

    /// How many of the present entries `recover` brings back; nothing else may come.
    private func recoveredCount(_ store: SQLiteBackend, _ what: String) async throws -> Int {
        let present = try #require(states.last)
        let path = try folder.freshFolder() + "/recovered"
        let report = try await store.recover(to: path)
        let recovered = SQLiteBackend(path: path)
        for item in try await recovered.list(prefix: "", after: nil, limit: .max).outcome.items {
            guard case .found(let entry) = try await recovered.read(item.key).outcome else { continue }
            #expect(entry.value == present[item.key], "\(what): \(item.key) came back as it was before")
        }
        return report.recoveredCount
    }

    @Test("never answers with what was before: a flipped bit in any region of any frame but the last commit's is told")
    func frames() async throws {
        let seed = printedSeed("frames of a log")
        var generator = SeededGenerator(seed: seed)
        let commits = commitFrames()
        #expect(commits.count >= states.count - 1)
        let last = try #require(commits.dropLast().last)
        let regions = [0..<4, 4..<8, 8..<16, 16..<24, 24..<32, 32..<64, 64..<Self.frameByteCount]
        var (told, fewest) = (0, Int.max)
        for number in 0...last {
            let region = regions[number % regions.count]
            let offset = 32 + number * Self.frameByteCount + Int.random(in: region, using: &generator)
            let bit = Int.random(in: 0..<8, using: &generator)
            let what = "seed \(seed), frame \(number), region \(region), byte \(offset), bit \(bit)"
            let damaged = try store(database, log(flipping: offset, bit: bit))
            #expect(await content(of: damaged, what) == nil, "\(what): not told")
            told += 1
            if number % 10 == 0 {
                await expectKind(.damaged) { try await damaged.write([1], to: EntryKey("new"), if: .any) }
                await expectKind(.damaged) { try await damaged.list(prefix: "", after: nil, limit: 9) }
            }
            if number % 6 == 0 { fewest = min(fewest, try await recoveredCount(damaged, what)) }
        }
        let count = try #require(states.last).count
        print("log: \(told) frames damaged and told, fewest recovered \(fewest) of \(count)")
        #expect(fewest >= count - 1)
    }

    @Test("says so when any bit of the log's header is wrong, and gives everything back")
    func header() async throws {
        let seed = printedSeed("header of a log")
        var generator = SeededGenerator(seed: seed)
        let present = try #require(states.last)
        for offset in 0..<32 {
            let bit = Int.random(in: 0..<8, using: &generator)
            let what = "seed \(seed), byte \(offset), bit \(bit)"
            let damaged = try store(database, log(flipping: offset, bit: bit))
            #expect(await content(of: damaged, what) == nil, "\(what): not told")
            if offset % 4 == 0 { #expect(try await recoveredCount(damaged, what) == present.count, "\(what)") }
        }
    }

    @Test("is told by the check as well, and left as it is")
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
        "is as after an earlier commit when the log ends early, or is wrong in its last commit: a crash looks the same")
    func ends() async throws {
        let frames = (log.count - 32) / Self.frameByteCount
        var lengths = [0, 1, 31, 32, 33]
        for number in stride(from: 0, through: frames, by: 6) {
            lengths += [0, 1, 23, 2_000, 4_119].map { 32 + number * Self.frameByteCount + $0 }
        }
        for length in lengths where length <= log.count {
            let content = try #require(await content(of: store(database, log.prefix(length)), "\(length) bytes"))
            #expect(states.contains(content), "\(length) bytes: no state that the store ever had")
        }
        let first = try #require(commitFrames().dropLast().last) + 1
        for number in first..<frames {
            let damaged = log(flipping: 32 + number * Self.frameByteCount + 1_000, bit: 1)
            let content = try #require(await content(of: store(database, damaged), "frame \(number)"))
            #expect(content == states[states.count - 2])
        }
    }

    @Test("is no empty store when its file was emptied and the log is there")
    func emptied() async throws {
        let damaged = try store(Data(), log)
        #expect(await content(of: damaged, "emptied") == nil)
        await expectKind(.damaged) { try await damaged.write([1], to: EntryKey("new"), if: .any) }
        #expect(try await recoveredCount(damaged, "emptied") == states.last?.count)
    }

    @Test("is no other when a log was begun anew over an old one, and when a checkpoint has emptied it")
    func restarted() async throws {
        let path = try folder.freshFolder() + "/s"
        let store = SQLiteBackend(path: path)
        for number in 0..<40 { _ = try await store.write([UInt8(number)], to: EntryKey("k"), if: .any) }
        // A checkpoint of another connection, after which the next write begins the log anew.
        try ForeignConnection(path: path).execute("PRAGMA wal_checkpoint(FULL)")
        for number in 0..<5 {
            _ = try await store.write([UInt8(100 + number)], to: EntryKey("k"), if: .any)
            let copy = try folder.freshFolder() + "/s"
            for suffix in ["", "-wal"] {
                try FileManager.default.copyItem(atPath: path + suffix, toPath: copy + suffix)
            }
            guard case .found(let entry) = try await SQLiteBackend(path: copy).read(EntryKey("k")).outcome else {
                Issue.record("not there")
                return
            }
            #expect(entry.value == [UInt8(100 + number)])
        }
        try ForeignConnection(path: path).execute("PRAGMA wal_checkpoint(TRUNCATE)")
        #expect(try await SQLiteBackend(path: path).read(EntryKey("k")).outcome != .absent)
    }

    @Test("is no damage: a last transaction of which a power cut has left out the beginning, over a log of before")
    func tornOverOldLog() async throws {
        let path = try folder.freshFolder() + "/s"
        let store = SQLiteBackend(path: path)
        for number in 0..<60 { _ = try await store.write([UInt8(number)], to: EntryKey("k"), if: .any) }
        let old = try Data(contentsOf: URL(fileURLWithPath: path + "-wal"))
        try ForeignConnection(path: path).execute("PRAGMA wal_checkpoint(FULL)")
        // Some frames each: new pages, overflow pages, the changes.
        for number in 0..<12 {
            _ = try await store.write([UInt8](repeating: 1, count: 6_000), to: EntryKey("n/\(number)"), if: .absent)
        }
        let database = try Data(contentsOf: URL(fileURLWithPath: path))
        let new = try Data(contentsOf: URL(fileURLWithPath: path + "-wal"))
        #expect(new.count == old.count, "the new log has been written over the old one")
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
                // What the cut left: the transactions before, of the last one all but one frame, and behind it the old.
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

    @Test("is found through a symbolic link too, and what it holds comes back")
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
