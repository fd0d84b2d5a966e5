import FileStorage
import FileWatching
import Foundation
import SyncCore
import TestSupport
import Testing

#if os(Linux) || canImport(Darwin)
@Suite("The signals of a file store")
struct SignalTests {
    private let folder: TemporaryFolder
    private let root: String
    private let key: EntryKey

    init() throws {
        folder = try TemporaryFolder()
        root = folder.path(of: "deep/store")
        key = try EntryKey("a/k")
    }

    @Test("A change of another object is signalled, usually within 100 ms, once it is visible")
    func latency() async throws {
        let (watcher, writer) = (FileBackend(folder: root), FileBackend(folder: root))
        var seen = try await writer.write([0], to: key, if: .absent).outcome
        var signals = watcher.signals().makeAsyncIterator()
        var latencies: [Duration] = []
        for number in 0..<50 {
            let written = try await writer.write([UInt8(number)], to: key, if: .any).outcome
            let start = ContinuousClock.now
            while seen != written {
                #expect(await signals.next() != nil)
                if case .found(let entry) = try await watcher.read(key).outcome { seen = .written(entry.version) }
            }
            latencies.append(ContinuousClock.now - start)
        }
        latencies.sort()
        print("signals of another object's change: median \(latencies[25]), longest \(latencies[49])")
        expectFigure(latencies[25] < .milliseconds(100))
    }

    @Test("Own changes and deletions are signalled too, to every subscriber")
    func own() async throws {
        let store = FileBackend(folder: root)
        var first = store.signals().makeAsyncIterator()
        var second = store.signals().makeAsyncIterator()
        for _ in 0..<3 {
            _ = try await store.write([1], to: key, if: .any)
            #expect(await first.next() != nil)
            #expect(await second.next() != nil)
        }
        _ = try await store.delete(key, if: .any)
        #expect(await first.next() != nil)
    }

    @Test("Signals arrive for a store that is created, or created again, after the subscription")
    func madeLater() async throws {
        let watcher = FileBackend(folder: root)
        var signals = watcher.signals().makeAsyncIterator()
        for _ in 0..<2 {
            let writer = FileBackend(folder: root)
            let written = try await writer.write([1], to: key, if: .any).outcome
            var seen: WriteOutcome?
            while seen != written {
                #expect(await signals.next() != nil)
                if case .found(let entry) = try await watcher.read(key).outcome { seen = .written(entry.version) }
            }
            try FileManager.default.removeItem(atPath: folder.path(of: "deep"))
        }
    }

    @Test("Reads, listings, requests for changes and conflicts send no signal, and signals end with the store")
    func silent() async throws {
        _ = try await FileBackend(folder: root).write([1], to: key, if: .absent)
        var store: FileBackend? = FileBackend(folder: root)
        // The first request for changes may repair the log.
        _ = try await store?.changes(since: nil, limit: 10)
        let signals = try #require(store).signals()
        _ = try await store?.read(key)
        _ = try await store?.read(EntryKey("none"))
        _ = try await store?.list(prefix: "", after: nil, limit: 10)
        _ = try await store?.changes(since: nil, limit: 10)
        _ = try await store?.write([2], to: key, if: .absent)
        _ = try await store?.delete(EntryKey("none"), if: .any)
        // The system reports this event after all earlier ones, and to later watchers too.
        let last = try FolderWatch.changes(inFolder: root, names: ["last"])
        try Data().write(to: URL(fileURLWithPath: "\(root)/last"))
        for await _ in last { break }
        store = nil
        var count = 0
        for await _ in signals { count += 1 }
        #expect(count == 0)
    }
}
#endif
