import FileStorage
import Foundation
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("A file store damaged in each region of an entry")
struct RegionTests {
    private let folder: TemporaryFolder
    private let values: [EntryKey: [UInt8]]
    private let key: EntryKey

    init() async throws {
        folder = try TemporaryFolder()
        var values: [EntryKey: [UInt8]] = [:]
        for number in 0..<7 {
            values[try EntryKey("accounts/\(number)/ledger")] = Array(repeating: UInt8(number), count: 300 * number + 1)
        }
        let store = FileBackend(folder: folder.path(of: "store"))
        for (key, value) in values.sorted(by: { $0.key < $1.key }) {
            _ = try await store.write(value, to: key, if: .absent)
        }
        self.values = values
        key = try EntryKey("accounts/3/ledger")
    }

    /// The regions of an entry's file, in the order of the table in `EntryFile`.
    private func regions(of file: [UInt8]) throws -> [(name: String, range: Range<Int>)] {
        let value = try EntryFile.header(of: file).valueRange
        return [
            ("magic", 0..<8), ("format", 8..<12), ("length of the key", 12..<16), ("length of the value", 16..<24),
            ("version", 24..<40), ("key", 40..<(value.lowerBound - 8)),
            ("checksum of the header", (value.lowerBound - 8)..<value.lowerBound), ("value", value),
            ("checksum", value.upperBound..<file.count),
        ]
    }

    /// Checks that the survey reports one key and its file, and that a copy has all other entries, byte for byte.
    private func expectOnlyKeyIsLost(_ what: String) async throws {
        let store = FileBackend(folder: folder.path(of: "store"), creating: .unlessRemote)
        let file = folder.path(of: "store/accounts/3/ledger.entry")
        let survey = try await StoreSurvey.of(store)
        #expect(survey.wholeCount == values.count - 1, "\(what)")
        #expect(survey.damage.map(\.key) == [key], "\(what): \(survey.damage)")
        #expect(survey.damage.first?.message.hasPrefix(file) == true, "\(what): \(survey.damage)")
        let new = FileBackend(folder: try folder.freshFolder())
        let report = try await StoreCopy(from: store, to: new, skippingDamage: true).run()
        #expect(report.copiedCount == values.count - 1 && report.damage.map(\.key) == [key], "\(what)")
        for (other, value) in values where other != key {
            guard case .found(let entry) = try await new.read(other).outcome else {
                Issue.record("\(what): \(other) was not recovered")
                continue
            }
            #expect(entry.value == value, "\(what): \(other)")
        }
    }

    @Test("A flipped bit is reported with its key and file, and all other entries are recovered")
    func flipped() async throws {
        let seed = printedSeed("regions of an entry")
        var generator = SeededGenerator(seed: seed)
        let file = URL(fileURLWithPath: folder.path(of: "store/accounts/3/ledger.entry"))
        let whole = Array(try Data(contentsOf: file))
        for region in try regions(of: whole) {
            let places =
                [region.range.lowerBound, region.range.upperBound - 1]
                + [Int.random(in: region.range, using: &generator)]
            for place in places {
                var bytes = whole
                bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
                try Data(bytes).write(to: file)
                try await expectOnlyKeyIsLost("seed \(seed), \(region.name), byte \(place)")
            }
        }
    }

    @Test("The same holds for an entry truncated at or near each border of its regions")
    func truncated() async throws {
        let file = URL(fileURLWithPath: folder.path(of: "store/accounts/3/ledger.entry"))
        let whole = Array(try Data(contentsOf: file))
        for region in try regions(of: whole) {
            for length in [region.range.lowerBound, region.range.lowerBound + 1, region.range.upperBound - 1] {
                try Data(whole[..<length]).write(to: file)
                try await expectOnlyKeyIsLost("\(length) bytes, in \(region.name)")
            }
        }
    }

    @Test("A damaged or truncated marker yields correct results or errors, and never an absence")
    func marker() async throws {
        let file = URL(fileURLWithPath: folder.path(of: "store/store.format"))
        let whole = Array(try Data(contentsOf: file))
        var cases = (0..<whole.count).map { ("\($0) bytes", Array(whole[..<$0])) }
        for bit in 0..<(whole.count * 8) {
            var bytes = whole
            bytes[bit / 8] ^= 1 << UInt8(bit % 8)
            cases.append(("bit \(bit)", bytes))
        }
        for (what, bytes) in cases {
            try Data(bytes).write(to: file)
            do throws(BackendError) {
                let outcome = try await FileBackend(folder: folder.path(of: "store")).read(key).outcome
                guard case .found(let entry) = outcome else {
                    Issue.record("\(what): \(outcome)")
                    continue
                }
                #expect(entry.value == values[key], "\(what)")
            } catch {
                #expect(
                    [.damaged, .notAStore, .newerFormat].contains(error.kind) && error.key == key, "\(what): \(error)")
            }
        }
    }
}
