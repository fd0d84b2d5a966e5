import Foundation
import JournalStore
import SyncCore
import SyncCoreTesting
import Testing

@Suite("A journal backend")
struct JournalBackendTests {
    @Test("A journal passes the conformance tests")
    func conformance() async throws {
        let seed = UInt64.random(in: .min ... .max)
        let folder = try Folder()
        let report = await Conformance.run(seed: seed) {
            try await .inFolder(
                try folder.fresh(),
                open: { path in
                    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
                    return JournalBackend(path: path + "/journal")
                })
        }
        print(report)
        for result in report.results {
            if case .failed(let reason) = result.outcome {
                Issue.record("\(result.check): \(reason) (seed \(seed))")
            }
        }
        #expect(report.hasPassed)
        // All skipped checks are listed, so that no other check is skipped unnoticed.
        #expect(
            Set(report.skipped.map(\.reason)) == [
                "the store declares changes", "the store declares compare-and-swap",
                "the store declares no pushed signals",
                "no `crash` was supplied", "no `kill` was supplied",
                "no `failing` was supplied",
            ])
    }

    @Test("A read of a damaged or truncated journal returns the right value or an error")
    func damage() async throws {
        let folder = try Folder()
        let (path, damaged) = (try folder.fresh() + "/journal", try folder.fresh() + "/journal")
        let keys = try ["a", "b", "c"].map { (text) throws in try EntryKey(text) }
        for key in keys { _ = try await JournalBackend(path: path).write(Array("old".utf8), to: key, if: .absent) }
        for key in keys { _ = try await JournalBackend(path: path).write(Array(key.text.utf8), to: key, if: .any) }
        let whole = try Data(contentsOf: URL(fileURLWithPath: path))
        var cases = (0..<whole.count).map { (what: "ends at byte \($0)", bytes: whole.prefix($0)) }
        for bit in 0..<(whole.count * 8) {
            var bytes = whole
            bytes[bit / 8] ^= 1 << UInt8(bit % 8)
            cases.append(("bit \(bit)", bytes))
        }
        for (what, bytes) in cases {
            try bytes.write(to: URL(fileURLWithPath: damaged))
            let errorCount = await expectTruth(of: JournalBackend(path: damaged), keys, what)
            #expect(errorCount > 0 || bytes == whole || what.hasPrefix("bit"), "\(what)")
        }
    }

    /// Reads all `keys`, whose values are their own names. Returns the number of reads that failed.
    private func expectTruth(of store: JournalBackend, _ keys: [EntryKey], _ what: String) async -> Int {
        var errorCount = 0
        for key in keys {
            do throws(BackendError) {
                guard case .found(let entry) = try await store.read(key).outcome else {
                    Issue.record("\(what): \(key) is absent")
                    continue
                }
                #expect(entry.value == Array(key.text.utf8), "\(what): \(key)")
            } catch {
                #expect([.damaged, .notAStore].contains(error.kind) && error.key == key, "\(what): \(error)")
                errorCount += 1
            }
        }
        return errorCount
    }

    @Test("A record that a crash cut off is ignored and overwritten")
    func cutOff() async throws {
        let path = try Folder().path + "-cut"
        defer { try? FileManager.default.removeItem(atPath: path) }
        let (kept, cut) = (try EntryKey("kept"), try EntryKey("cut"))
        _ = try await JournalBackend(path: path).write([1], to: kept, if: .absent)
        let before = try Data(contentsOf: URL(fileURLWithPath: path))
        _ = try await JournalBackend(path: path).write([2], to: cut, if: .absent)
        let after = try Data(contentsOf: URL(fileURLWithPath: path))
        for count in before.count..<after.count {
            // The head is updated last, so after a crash it is still the old one.
            try (before.prefix(24) + after[24..<count]).write(to: URL(fileURLWithPath: path))
            let store = JournalBackend(path: path)
            #expect(try await store.read(cut).outcome == .absent)
            _ = try await store.write([3], to: cut, if: .absent)
            let other = JournalBackend(path: path)
            #expect(try await other.list(prefix: "", after: nil, limit: 9).outcome.items.map(\.key) == [cut, kept])
        }
    }

    @Test("A journal that must exist is not created, and its absence is an error")
    func remote() async throws {
        let folder = try Folder()
        let remote = JournalBackend(path: folder.path + "/journal").requiringExisting
        let key = try EntryKey("k")
        let error = await #expect(throws: BackendError.self) { try await remote.read(key) }
        #expect(error?.kind == .missing)
        let other = await #expect(throws: BackendError.self) { try await remote.write([1], to: key, if: .any) }
        #expect(other?.kind == .missing)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == [])
    }
}

/// A temporary folder that is removed with the object.
private final class Folder: Sendable {
    let path = NSTemporaryDirectory() + "journal-" + UUID().uuidString

    init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }

    deinit {
        do { try FileManager.default.removeItem(atPath: path) } catch { print("could not remove \(path): \(error)") }
    }

    func fresh() throws -> String {
        let fresh = path + "/" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: fresh, withIntermediateDirectories: true)
        return fresh
    }
}
