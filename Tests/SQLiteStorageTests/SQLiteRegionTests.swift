import Foundation
import SQLiteRecovery
import SQLiteStorage
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

/// Damages each kind of page in each of its regions at least once.
@Suite("An SQLite store damaged in each of its regions")
struct SQLiteRegionTests {
    private let folder: TemporaryFolder
    /// An intact store without a log, with inner pages, overflow pages and free pages.
    private let whole: Data
    private let values: [EntryKey: [UInt8]]

    private static let pageSize = 4_096

    init() async throws {
        folder = try TemporaryFolder()
        let store = SQLiteBackend(path: folder.path(of: "whole"))
        var values: [EntryKey: [UInt8]] = [:]
        var requests: [WriteRequest] = []
        for number in 0..<300 {
            let key = try EntryKey("accounts/\(number)/the-ledger-of-somebody-with-a-name-that-is-long")
            values[key] = [UInt8](repeating: UInt8(number % 251), count: number % 40 == 0 ? 9_000 : number % 90)
            requests.append(WriteRequest(key, value: values[key], if: .absent))
        }
        _ = try await store.write(requests)
        for number in stride(from: 0, to: 300, by: 60) {
            let key = requests[number].key
            _ = try await store.delete(key, if: .any)
            values[key] = nil
        }
        try await store.backup(to: folder.path(of: "copy"))
        whole = try Data(contentsOf: URL(fileURLWithPath: folder.path(of: "copy")))
        self.values = values
    }

    private var pageCount: Int { whole.count / Self.pageSize }

    private func store(_ bytes: Data) throws -> SQLiteBackend {
        let path = try folder.freshFolder() + "/s"
        try bytes.write(to: URL(fileURLWithPath: path))
        return SQLiteBackend(path: path)
    }

    /// The kind of a page: `interior` and `leaf` by its first byte; other pages do not have such a byte.
    private func kind(of page: Int) -> String {
        switch whole[page * Self.pageSize + (page == 0 ? 100 : 0)] {
        case _ where page == 0: "header and schema"
        case 0x05: "table, inner"
        case 0x0D: "table, leaf"
        case 0x02: "index, inner"
        case 0x0A: "index, leaf"
        default: isFree(page) ? "free" : "overflow"
        }
    }

    /// Returns `true` if the page is in the list of free pages. The first trunk lists all of them, because there are
    /// few.
    private func isFree(_ page: Int) -> Bool {
        func number(_ offset: Int) -> Int { whole[offset..<(offset + 4)].reduce(0) { $0 << 8 | Int($1) } }
        let trunk = number(32)
        guard trunk > 0 else { return false }
        let start = (trunk - 1) * Self.pageSize
        let leaves = (0..<number(start + 4)).map { number(start + 8 + 4 * $0) }
        return ([trunk] + leaves).contains(page + 1)
    }

    /// The results of reads, a listing and a request for changes.
    private struct Answers {
        var readCount = 0
        /// The number of keys that are missing from a complete listing without an error.
        var hiddenCount = 0
        var listingFailed = false
        /// The number of keys that are missing from the changes since the beginning.
        var missingChangeCount = 0
        var changesFailed = false
    }

    /// Checks that no result is wrong, and counts the keys that a listing or the changes hide.
    private func answers(of store: SQLiteBackend, _ what: String) async throws -> Answers {
        var answers = Answers()
        let keys = values.keys.sorted()
        let results: [Result<ReadOutcome, BackendError>]
        do throws(BackendError) {
            results = try await store.read(keys.map { ReadRequest($0) }).outcome
        } catch {
            #expect([.damaged, .notAStore, .newerFormat, .other].contains(error.kind), "\(what): \(error)")
            results = []
        }
        for (key, result) in zip(keys, results) {
            switch result {
            case .success(.found(let entry)):
                #expect(entry.value == values[key], "\(what): \(key) has another value")
                answers.readCount += 1
            case .success(let outcome): Issue.record("\(what): \(key) is \(outcome)")
            case .failure(let error):
                #expect([.damaged, .notAStore, .other].contains(error.kind) && error.key == key, "\(what): \(error)")
            }
        }
        do throws(BackendError) {
            let listed = try await store.list(prefix: "", after: nil, limit: .max).outcome.items.map(\.key)
            #expect(Set(listed).isSubset(of: Set(keys)), "\(what): a listing has unknown keys")
            answers.hiddenCount = keys.count - listed.count
        } catch { answers.listingFailed = true }
        do throws(BackendError) {
            let changes = try await store.changes(since: nil, limit: .max).outcome.changes
            let reported = Set(changes.filter { $0.version != nil }.map(\.key))
            #expect(reported.isSubset(of: Set(keys)), "\(what): the changes have unknown keys")
            answers.missingChangeCount = keys.count - reported.count
        } catch { answers.changesFailed = true }
        return answers
    }

    /// Returns `true` if a listing in pages ends without an error but lacks some keys.
    private func hidesInPages(_ store: SQLiteBackend) async -> Bool {
        var count = 0
        var cursor: EntryKey?
        do throws(BackendError) {
            repeat {
                let page = try await store.list(prefix: "", after: cursor, limit: 9).outcome
                count += page.items.count
                cursor = page.next
            } while cursor != nil
            return count < values.count
        } catch { return false }
    }

    /// Returns `true` if the integrity check reports damage.
    private func isDetected(_ store: SQLiteBackend) async -> Bool {
        do throws(BackendError) { return try await !store.integrityCheck().isIntact } catch { return true }
    }

    @Test("No result is wrong, and the check detects everything that a listing or the changes hide")
    func everyRegion() async throws {
        let seed = printedSeed("regions")
        var generator = SeededGenerator(seed: seed)
        var found: [String: (cases: Int, detected: Int, hiding: Int, hidingChanges: Int)] = [:]
        for page in 0..<pageCount {
            let kind = kind(of: page)
            let start = page == 0 ? 100 : 0
            // A page's header, the pointers after it, and the area of its cells.
            var places = [start..<(start + 40), 40..<Self.pageSize]
            if page == 0 { places += [16..<36, 36..<100] }
            if kind.hasSuffix("inner") { places += [0..<8, 8..<12, 3_000..<4_096, 3_500..<4_096, 3_900..<4_096] }
            for place in places {
                let offset = page * Self.pageSize + Int.random(in: place, using: &generator)
                let bit = Int.random(in: 0..<8, using: &generator)
                var bytes = whole
                bytes[offset] ^= 1 << UInt8(bit)
                let what = "seed \(seed), page \(page + 1) (\(kind)), byte \(offset % Self.pageSize), bit \(bit)"
                let store = try store(bytes)
                let answers = try await answers(of: store, what)
                let isDetected = await isDetected(store)
                let isHiding = answers.hiddenCount != 0 || answers.missingChangeCount != 0
                let isHarmless = answers.readCount == values.count && !answers.listingFailed && !answers.changesFailed
                #expect(isDetected || (isHarmless && !isHiding), "\(what): the check reports nothing: \(answers)")
                var counts = found[kind] ?? (0, 0, 0, 0)
                counts.cases += 1
                counts.detected += isDetected ? 1 : 0
                counts.hiding += !answers.listingFailed && answers.hiddenCount != 0 ? 1 : 0
                counts.hidingChanges += !answers.changesFailed && answers.missingChangeCount != 0 ? 1 : 0
                found[kind] = counts
            }
        }
        for (kind, counts) in found.sorted(by: { $0.key < $1.key }) {
            print(
                "\(kind): \(counts.cases) flips, \(counts.detected) detected by the check, "
                    + "\(counts.hiding) listings hide keys, \(counts.hidingChanges) change feeds hide keys")
        }
        #expect(
            found.keys.sorted() == [
                "free", "header and schema", "index, inner", "index, leaf", "overflow", "table, inner", "table, leaf",
            ])
    }

    @Test(
        "A pointer to a wrong page of the index is detected by listings and by the check, in every possible place"
    )
    func pointers() async throws {
        let inner = (0..<pageCount).filter { kind(of: $0) == "index, inner" }
        let leaves = (0..<pageCount).filter { kind(of: $0) == "index, leaf" }
        var (cases, hiding, hidingInPages) = (0, 0, 0)
        for page in inner {
            let start = page * Self.pageSize
            let cellCount = Int(whole[start + 3]) << 8 | Int(whole[start + 4])
            let cells = (0..<cellCount).map {
                start + (Int(whole[start + 12 + 2 * $0]) << 8 | Int(whole[start + 13 + 2 * $0]))
            }
            for place in cells + [start + 8] {
                for leaf in leaves {
                    var bytes = whole
                    let number = UInt32(leaf + 1)
                    bytes.replaceSubrange(place..<(place + 4), with: withUnsafeBytes(of: number.bigEndian) { Data($0) })
                    guard bytes != whole else { continue }
                    let store = try store(bytes)
                    let answers = try await answers(of: store, "pointer at \(place) to page \(number)")
                    #expect(await isDetected(store), "pointer at \(place) to page \(number): \(answers)")
                    cases += 1
                    if !answers.listingFailed, answers.hiddenCount != 0 { hiding += 1 }
                    if await hidesInPages(store) { hidingInPages += 1 }
                }
            }
        }
        print(
            "wrong pointers in the index: \(cases), of which \(hiding) hide keys from one large page and "
                + "\(hidingInPages) from pages of 9")
        #expect(cases > 10 && hiding == 0 && hidingInPages == 0)
    }

    @Test("Recovery restores the entries in the remaining part, for a cut at and between all page boundaries")
    func truncated() async throws {
        var lengths = (1..<pageCount).map { $0 * Self.pageSize }
        lengths += [1, 15, 16, 99, 100, 101, 511, 512, 4_095, 4_097, whole.count - 4_095, whole.count - 1]
        for length in lengths {
            let store = try store(whole.prefix(length))
            let answers = try await answers(of: store, "\(length) bytes")
            #expect(await isDetected(store), "\(length) bytes: \(answers)")
            #expect(answers.listingFailed || answers.hiddenCount == 0, "\(length) bytes: \(answers)")
            guard length % (4 * Self.pageSize) == 0 else { continue }
            let path = try folder.freshFolder() + "/recovered"
            let report = try await store.recover(to: path)
            let recovered = SQLiteBackend(path: path)
            for item in try await recovered.list(prefix: "", after: nil, limit: .max).outcome.items {
                guard case .found(let entry) = try await recovered.read(item.key).outcome else { continue }
                #expect(entry.value == values[item.key], "\(length) bytes: \(item.key)")
            }
            print("\(length) of \(whole.count) bytes: \(report.recoveredCount) of \(values.count) entries recovered")
        }
    }
}
