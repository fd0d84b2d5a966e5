import FileStorage
import Foundation
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("syncd store copy")
struct StoreCopyCommandTests {
    private let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    /// Keys of all lengths with short values, some of them empty.
    private func fill(_ store: FileBackend, _ count: Int, seed: UInt64) async throws {
        var generator = SeededGenerator(seed: seed)
        for start in stride(from: 0, to: count, by: 500) {
            let requests = try (start..<min(count, start + 500)).map { number in
                let key = "k\(number % 97)/" + String(repeating: "ö", count: number % 11) + "\(number)"
                return WriteRequest(try EntryKey(key), value: generator.bytes(count: 0...300), if: .absent)
            }
            for result in try await store.write(requests).outcome { _ = try result.get() }
        }
    }

    /// The result of copying everything.
    private struct Copy {
        /// The number of kills before.
        var kills: Int
        var copied: Int
        var present: Int
    }

    /// Repeats a copy, killed later each time, until it finishes.
    private func copy(_ from: String, _ to: String) throws -> Copy {
        let command = ["store", "copy", from, to, "--json"]
        var delay = Duration.milliseconds(50)
        for kills in 0..<30 {
            let process = try sandbox.start(command)
            process.kill(after: delay)
            let outcome = process.outcome()
            if outcome.exitCode == 0 {
                let report = try JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any]
                return Copy(
                    kills: kills, copied: try #require(report?["copied"] as? Int),
                    present: try #require(report?["present"] as? Int))
            }
            #expect(outcome.exitCode == -SIGKILL, "\(outcome)")
            delay *= 2
        }
        throw BackendError(.other, message: "\(command) does not end")
    }

    /// The entry files below `folder`, without the version and the checksums, which differ between stores.
    private func entries(in folder: String) throws -> [String: [UInt8]] {
        var entries: [String: [UInt8]] = [:]
        for name in try FileManager.default.subpathsOfDirectory(atPath: sandbox.path(folder))
        where name.hasSuffix(".entry") {
            let bytes = try sandbox.bytes(of: "\(folder)/\(name)")
            let value = try EntryFile.header(of: bytes).valueRange
            // The version is the last field before the key.
            var own = Array(bytes[..<24])
            own += bytes[EntryFile.fixedByteCount..<(value.lowerBound - 8)]
            own += bytes[value]
            entries[name] = own
            #expect(bytes.count == value.upperBound + 8, "\(folder)/\(name)")
        }
        return entries
    }

    @Test("A copy from files to SQLite and back, interrupted by kills, transfers every byte")
    func roundTrip() async throws {
        let count = Soak.copiedKeyCount
        let clock = ContinuousClock()
        let filling = try await clock.measure {
            try await fill(
                FileBackend(folder: sandbox.path("a")), count, seed: printedSeed("StoreCopyCommandTests"))
        }
        let begin = clock.now
        let there = try copy("file:a", "sqlite:b.db")
        let middle = clock.now
        let back = try copy("sqlite:b.db", "file:c")
        let end = clock.now
        for copy in [there, back] {
            #expect(copy.copied + copy.present == count)
            // Fewer entries would be copied before the first kill.
            if count >= 10_000 { #expect(copy.kills > 0 && copy.present > 0) }
        }
        print(
            "copied \(count) keys: made in \(filling), to SQLite in \(middle - begin) (killed \(there.kills) times, "
                + "\(there.present) already present), back in \(end - middle) (killed \(back.kills) times, "
                + "\(back.present) already present)")
        let (first, last) = (try entries(in: "a"), try entries(in: "c"))
        #expect(first.count == count)
        #expect(first == last, "an entry file differs")
        for store in ["file:a", "sqlite:b.db", "file:c"] {
            #expect(try sandbox.run("store check \(store)") == .done("\(store): \(count) entries intact"))
        }
    }
}
